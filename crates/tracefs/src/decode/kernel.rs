//! Locks, deferred work, and what user space writes into the trace.

use super::Reader;
use super::slots::{Bytes, Number};
use crate::event::Body;
use crate::format::Format;

pub(super) fn reader(format: &Format) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("lock", "contention_begin") => {
            let (lock, flags) = (number("lock_addr")?, number("flags")?);
            Box::new(move |r, _| Some(Body::ContentionBegin { lock: lock.u64(r)?, flags: flags.u32(r)? }))
        }
        ("lock", "contention_end") => {
            let lock = number("lock_addr")?;
            Box::new(move |r, _| Some(Body::ContentionEnd { lock: lock.u64(r)? }))
        }
        ("workqueue", "workqueue_execute_start") => {
            let (work, function) = (number("work")?, number("function")?);
            Box::new(move |r, t| {
                Some(Body::WorkStart { work: work.u64(r)?, function: t.address(function.u64(r)?) })
            })
        }
        ("workqueue", "workqueue_execute_end") => {
            let work = number("work")?;
            Box::new(move |r, _| Some(Body::WorkEnd { work: work.u64(r)? }))
        }
        ("ftrace", "print") => {
            let text = Bytes::of(format, "buf")?;
            Box::new(move |r, t| {
                let bytes = text.get(r)?;
                let bytes = &bytes[..bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())];
                Some(Body::Print { text: t.text(bytes.strip_suffix(b"\n").unwrap_or(bytes)) })
            })
        }
        _ => return None,
    })
}
