//! Version 6: the contents are in a fixed order, without compression.

use std::rc::Rc;

use super::Parts;
use super::bytes::{Bytes, Found};
use crate::collect::MOST_CPUS;

/// The most systems of events. Kernels have about 150.
const MOST_SYSTEMS: u32 = 10_000;

/// The most formats of events: an event's number has 16 bits.
const MOST_FORMATS: usize = 1 << 16;

/// The part of the file after the page size.
pub(super) fn read(mut bytes: Bytes<'_>) -> Found<Parts<'_>> {
    let mut parts = Parts::default();
    headers(&mut bytes, &mut parts)?;
    ftrace_events(&mut bytes, &mut parts)?;
    event_formats(&mut bytes, &mut parts)?;
    parts.kallsyms = bytes.long_text(false)?;
    parts.printk = bytes.long_text(false)?;
    parts.cmdlines = bytes.long_text(true)?;
    let cpus = bytes.u32()?;
    if cpus > MOST_CPUS {
        return Err(format!("it names {cpus} CPUs"));
    }
    let mut next = bytes.take(10)?;
    if *next == *b"options  \0" {
        loop {
            let id = bytes.u16()?;
            if id == 0 {
                break;
            }
            let length = bytes.u32()?;
            option(id, &bytes.take(length.into())?, &mut parts);
        }
        next = bytes.take(10)?;
    }
    if *next != *b"flyrecord\0" {
        return Err("it is not a recording of events: make one with `trace-cmd record -e`".to_owned());
    }
    let places: Vec<(u64, u64)> =
        (0..cpus).map(|_| Ok((bytes.u64()?, bytes.u64()?))).collect::<Found<_>>()?;
    for (cpu, (offset, length)) in (0..).zip(places) {
        let Ok(place) = bytes.at(offset) else {
            parts.damaged(format!("it is cut off in the pages of CPU {cpu}"));
            continue;
        };
        parts.pages(cpu, &place, length);
    }
    // The clock names follow the page offsets. The options only announce them.
    if parts.clock.as_deref() == Some("") {
        parts.clock = bytes.long_text(true).ok();
    }
    Ok(parts)
}

/// `header_page` and `header_event`.
pub(super) fn headers(bytes: &mut Bytes<'_>, parts: &mut Parts<'_>) -> Found<()> {
    for (name, into) in [("header_page", &mut parts.header_page), ("header_event", &mut parts.header_event)] {
        let found = bytes.text()?;
        if found != name {
            return Err(format!("{name} is missing at its expected place"));
        }
        *into = bytes.long_text(true)?;
    }
    Ok(())
}

pub(super) fn ftrace_events(bytes: &mut Bytes<'_>, parts: &mut Parts<'_>) -> Found<()> {
    let system = Rc::from("ftrace");
    for _ in 0..bytes.u32()? {
        format(&system, bytes.long_text(true)?, parts)?;
    }
    Ok(())
}

pub(super) fn event_formats(bytes: &mut Bytes<'_>, parts: &mut Parts<'_>) -> Found<()> {
    let systems = bytes.u32()?;
    if systems > MOST_SYSTEMS {
        return Err(format!("it has events of {systems} systems, more than any kernel"));
    }
    for _ in 0..systems {
        let system = Rc::from(bytes.text()?);
        for _ in 0..bytes.u32()? {
            format(&system, bytes.long_text(true)?, parts)?;
        }
    }
    Ok(())
}

/// The format of an event. Its first line has the name.
fn format(system: &Rc<str>, text: String, parts: &mut Parts<'_>) -> Found<()> {
    let name = text.lines().find_map(|line| line.strip_prefix("name:"));
    let name = name.ok_or_else(|| format!("a format of {system} names no event"))?.trim().to_owned();
    if parts.formats.len() >= MOST_FORMATS {
        return Err(format!("it has more than {MOST_FORMATS} formats of events, more than have numbers"));
    }
    parts.formats.push((Rc::clone(system), name, text));
    Ok(())
}

/// The options that have the same number in both versions.
pub(super) fn option(id: u16, data: &[u8], parts: &mut Parts<'_>) {
    let text = || {
        let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
        String::from_utf8_lossy(&data[..end]).into_owned()
    };
    match id {
        2 => parts.stats.push(text()),
        3 => parts.other_buffers += 1,
        4 => parts.clock = Some(text()),
        5 => parts.uname = text(),
        // `OFFSET`, `TIME_SHIFT` and `TSC2NSEC`.
        7 | 12 | 14 => parts.shifted = true,
        _ => {}
    }
}
