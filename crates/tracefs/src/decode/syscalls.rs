//! System calls: the two events for all of them (`raw_syscalls`), and the pair that each has for
//! itself (`syscalls`).

use super::Reader;
use super::slots::Number;
use crate::event::Body;
use crate::format::{Format, Place};

pub(super) fn reader(format: &Format) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    match (format.system.as_str(), format.name.as_str()) {
        ("raw_syscalls", "sys_enter") => {
            let args =
                format.field("args").filter(|args| args.place == Place::Fixed && args.size % 6 == 0)?;
            // Six words of the kernel's size.
            enter(number("id")?, Some(Number::new(args.offset, args.size / 6, false)))
        }
        ("raw_syscalls", "sys_exit") => exit(number("id")?, number("ret")?),
        ("syscalls", name) if name.starts_with("sys_enter_") => {
            let at = format
                .fields
                .iter()
                .position(|field| matches!(field.name.as_str(), "__syscall_nr" | "nr"))?;
            enter(Number::from(&format.fields[at])?, format.fields.get(at + 1).and_then(Number::from))
        }
        ("syscalls", name) if name.starts_with("sys_exit_") => {
            exit(number("__syscall_nr").or_else(|| number("nr"))?, number("ret")?)
        }
        _ => None,
    }
}

/// A call without arguments has no first one; it is 0 then.
fn enter(number: Number, first: Option<Number>) -> Option<Reader> {
    Some(Box::new(move |r, _| {
        let first = first.map_or(Some(0), |first| first.u64(r))?;
        Some(Body::SysEnter { number: number.i64(r)?, first })
    }))
}

fn exit(number: Number, result: Number) -> Option<Reader> {
    Some(Box::new(move |r, _| Some(Body::SysExit { number: number.i64(r)?, result: result.i64(r)? })))
}
