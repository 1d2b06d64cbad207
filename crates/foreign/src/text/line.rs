//! What a line of text says of an event, in whichever form, and the parts that the forms share.
//! Source: the kernel's `trace_output.c`.

use roundtrip_tracefs::EventContext;

/// One event.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) comm: &'a str,
    pub(super) tid: u32,
    pub(super) process: Option<u32>,
    pub(super) cpu: u32,
    /// Unknown where the form does not print it.
    pub(super) context: EventContext,
    pub(super) time_ns: u64,
    pub(super) event: &'a str,
    pub(super) said: &'a str,
}

/// Splits what follows the time into the event's name and its fields.
pub(super) fn event(text: &str) -> Option<(&str, &str)> {
    if let Some((function, _)) = text.split_once(" <-")
        && !function.contains([' ', ':'])
    {
        return Some(("function", text.trim()));
    }
    let word = text.split([' ', '(']).next()?;
    let (event, said) = match text.starts_with("sys_") && !word.ends_with(':') {
        // `sys_fsync(fd: 3)` and `sys_fsync -> 0x0` have no colon.
        true => text.split_at_checked(word.len()).filter(|(_, said)| !said.is_empty())?,
        false => text.split_once(':')?,
    };
    // The linker of an optimised kernel adds a suffix to the names of functions that it copies.
    let event = event.split_once(".llvm.").map_or(event, |(event, _)| event);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let named = !event.is_empty() && event.len() <= 128 && event.chars().all(plain);
    named.then_some((event, said.trim()))
}

/// The context in the column FLAGS, whose third character tells it (the kernel's
/// `trace_print_lat_fmt`): `h` and `H` are hard interrupts, `z` and `Z` those that cannot be
/// masked, and `s` is a softirq. In real-time kernels it is the fourth, behind that of lazy
/// preemption. In others, the fourth is a hexadecimal digit or a dot.
pub(super) fn of_flags(flags: &str) -> EventContext {
    if !(4..=7).contains(&flags.len()) || !flags.starts_with(['.', 'd', 'b', 'D', 'X']) {
        return EventContext::Unknown;
    }
    match (flags.as_bytes()[2], flags.as_bytes()[3]) {
        (b'h' | b'H' | b'z' | b'Z', _) | (_, b'h' | b'H' | b'z' | b'Z') => EventContext::Interrupt,
        (b's', _) | (_, b's') => EventContext::Softirq,
        (b'.', _) | (b'L' | b'l', b'.') => EventContext::Thread,
        _ => EventContext::Unknown,
    }
}

pub(super) fn digits(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `100.000001`, with six or nine decimals, in nanoseconds.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let unit = match part.len() {
        6 => 1000,
        9 => 1,
        _ => return None,
    };
    u64::from(digits(seconds)?).checked_mul(1_000_000_000)?.checked_add(u64::from(digits(part)?) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_in_the_third_column_or_in_the_fourth_of_a_real_time_kernel() {
        for (flags, context) in [
            ("d..2.", EventContext::Thread),
            ("dNs3.", EventContext::Softirq),
            ("d.h.", EventContext::Interrupt),
            ("d..a", EventContext::Thread),
            ("X.h..", EventContext::Interrupt),
            ("d..h3", EventContext::Interrupt),
            ("d..s2", EventContext::Softirq),
            ("dn.H4", EventContext::Interrupt),
            ("d.L.3", EventContext::Thread),
            ("d...3", EventContext::Thread),
            ("d..h2..", EventContext::Interrupt),
            ("d.?.", EventContext::Unknown),
            ("12", EventContext::Unknown),
        ] {
            assert_eq!(of_flags(flags), context, "{flags}");
        }
    }
}
