//! System calls: the two events for all of them (`raw_syscalls`), and the two events of each single
//! one (`syscalls`).

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
            // An array of six `long`s.
            let word = args.size / 6;
            let argument = |at: usize| Some(Number::new(args.offset + at * word, word, false));
            enter(number("id")?, [argument(0), argument(2), argument(5)])
        }
        ("raw_syscalls", "sys_exit") => exit(number("id")?, number("ret")?),
        ("syscalls", name) if name.starts_with("sys_enter_") => {
            let at = format
                .fields
                .iter()
                .position(|field| matches!(field.name.as_str(), "__syscall_nr" | "nr"))?;
            let argument = |nth: usize| format.fields.get(at + nth).and_then(Number::from);
            enter(Number::from(&format.fields[at])?, [argument(1), argument(3), argument(6)])
        }
        ("syscalls", name) if name.starts_with("sys_exit_") => {
            exit(number("__syscall_nr").or_else(|| number("nr"))?, number("ret")?)
        }
        _ => None,
    }
}

/// The first, third and sixth argument; 0 if a call does not have it.
fn enter(number: Number, arguments: [Option<Number>; 3]) -> Option<Reader> {
    Some(Box::new(move |r, _| {
        let [first, third, sixth] = arguments;
        Some(Body::SysEnter {
            number: number.i64(r)?,
            first: first.map_or(Some(0), |first| first.u64(r))?,
            third: third.map_or(Some(0), |third| third.u32(r))?,
            sixth: sixth.map_or(Some(0), |sixth| sixth.u32(r))?,
        })
    }))
}

fn exit(number: Number, result: Number) -> Option<Reader> {
    Some(Box::new(move |r, _| Some(Body::SysExit { number: number.i64(r)?, result: result.i64(r)? })))
}
