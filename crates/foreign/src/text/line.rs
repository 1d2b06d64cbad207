//! One line of the kernel's text. Thread names may contain anything, so the first match of a
//! pattern is not trusted. Sources: the kernel's `trace_output.c` and each event's `TP_printk`.

use roundtrip_tracefs::{EventContext, Name, Names, TaskState};

use super::{latency, perf, storage};
use crate::fields::Fields;

/// `TASK-PID (TGID) [CPU] FLAGS SECONDS.MICROSECONDS: EVENT: fields`. TGID and FLAGS may be
/// missing.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) comm: &'a str,
    pub(super) tid: u32,
    pub(super) process: Option<u32>,
    pub(super) cpu: u32,
    /// From FLAGS.
    pub(super) context: EventContext,
    pub(super) time_ns: u64,
    pub(super) event: &'a str,
    pub(super) said: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let with_cpu = |at: fn(&'a str, usize) -> Option<Self>| {
            text.match_indices('[').take(8).find_map(|(place, _)| at(text, place))
        };
        with_cpu(Self::with_cpu_at).or_else(|| latency::line(text)).or_else(|| with_cpu(perf::with_cpu_at))
    }

    fn with_cpu_at(text: &'a str, at: usize) -> Option<Self> {
        let (cpu, rest) = text[at + 1..].split_once(']')?;
        let cpu = digits(cpu)?;
        let mut who = text[..at].trim_end();
        let mut process = None;
        if let Some(inner) = who.strip_suffix(')') {
            let (before, number) = inner.rsplit_once('(')?;
            process = digits(number.trim());
            who = before.trim_end();
        }
        let (comm, tid) = who.rsplit_once('-')?;
        let (mut word, mut after) = rest.trim_start().split_once(' ')?;
        let mut context = EventContext::Unknown;
        // Some kernels add columns after FLAGS.
        for _ in 0..MAX_COLUMNS {
            if word.ends_with(':') {
                break;
            }
            if context == EventContext::Unknown {
                context = of_flags(word);
            }
            (word, after) = after.trim_start().split_once(' ')?;
        }
        let time_ns = time_ns(word.strip_suffix(':')?)?;
        let (event, said) = event(after.trim_start())?;
        Some(Self { comm: comm.trim_start(), tid: digits(tid)?, process, cpu, context, time_ns, event, said })
    }
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

/// The most columns between the CPU and the time.
const MAX_COLUMNS: usize = 3;

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

/// An event's text, usually `key=value`.
pub(super) struct Said<'a> {
    event: &'a str,
    context: EventContext,
    text: &'a str,
    /// The text after `==>`, if any.
    next: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub(super) fn new(event: &'a str, text: &'a str, context: EventContext) -> Self {
        let (text, next) = match text.rsplit_once(" ==> ") {
            Some((text, next)) if event == "sched_switch" => (text, Some(next)),
            _ => (text, None),
        };
        Self { event, context, text, next }
    }

    fn side(&self, name: &str) -> &'a str {
        if name.starts_with("next_") { self.next.unwrap_or("") } else { self.text }
    }

    /// The text after the last `name=`.
    fn after(&self, name: &str) -> Option<&'a str> {
        let text = self.side(name);
        let key = |(at, _): &(usize, &str)| {
            text[at + name.len()..].starts_with('=') && (*at == 0 || text.as_bytes()[at - 1] == b' ')
        };
        text.rmatch_indices(name).find(key).map(|(at, _)| &text[at + name.len() + 1..])
    }
}

impl Fields for Said<'_> {
    fn int(&self, name: &str) -> Option<i64> {
        let words = || self.text.split([' ', ':', '(', ')', ',']).filter(|word| !word.is_empty());
        match (self.event, name) {
            // `NR 1 (2, 3, …)`, `NR 1 = 2`.
            ("sys_enter" | "sys_exit", "id") => words().nth(1)?.parse().ok(),
            ("sys_exit", "ret") => words().next_back()?.parse().ok(),
            ("contention_begin" | "contention_end", "lock_addr") => hexadecimal(words().next()?),
            ("contention_begin", "flags") => None,
            // `work struct 00000000abcdef: function f`.
            ("workqueue_execute_start" | "workqueue_execute_end", "work") => hexadecimal(words().nth(2)?),
            ("irq_handler_exit", "ret") => None,
            (event, "req") if event.starts_with("io_uring") => {
                hexadecimal(storage::word(event, self.text, name)?)
            }
            // `old=120 => new=98 desired=98`.
            ("binder_set_priority", "new") => {
                self.text.split_once("=> new=")?.1.split(' ').next()?.parse().ok()
            }
            _ => number(
                storage::word(self.event, self.text, name)
                    .or_else(|| self.after(name)?.split([' ', ',']).next())?,
            ),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        if self.event == "print" {
            return Some(self.text);
        }
        if self.event.starts_with("block_") {
            return storage::word(self.event, self.text, name);
        }
        if self.event.starts_with("workqueue_") {
            return Some(self.text.split_once("function ")?.1);
        }
        // A thread's name ends where the next field begins.
        let next = match name {
            "prev_comm" => " prev_pid=",
            "next_comm" => " next_pid=",
            "comm" => " pid=",
            "child_comm" => " child_pid=",
            "newcomm" => " oom_score_adj=",
            _ => "",
        };
        let side = self.side(name);
        let begin = if name == "newcomm" {
            side.rfind(" newcomm=")? + 1
        } else {
            let key = |(at, _): &(usize, &str)| side[at + name.len()..].starts_with('=');
            side.match_indices(name).find(key)?.0
        };
        let rest = &side[begin + name.len() + 1..];
        match next {
            "" => rest.split(' ').next(),
            next => Some(rest.rfind(next).map_or(rest, |end| &rest[..end])),
        }
    }

    fn device(&self, name: &str) -> Option<u32> {
        let word = storage::word(self.event, self.text, name)?;
        let (major, minor) = word.split_once([',', ':'])?;
        Some(digits(major)?.checked_mul(1 << 20)? | digits(minor)?)
    }

    fn argument(&self, place: usize) -> Option<u64> {
        let inside = self.text.split_once('(')?.1;
        let word = inside.trim_end_matches(')').split(", ").nth(place)?;
        hexadecimal(word).map(i64::cast_unsigned)
    }

    fn context(&self) -> EventContext {
        self.context
    }

    fn state(&self) -> Option<TaskState> {
        let state = self.after("prev_state")?.split(' ').next()?;
        if state.ends_with('+') {
            return Some(TaskState::PREEMPTED);
        }
        // Other letters and numbers qualify a wait (`K`, `W`, `N`), or are of other kernels.
        let bit = |letter| match letter {
            "S" => 1,
            "D" => 2,
            "T" => 4,
            "t" => 8,
            "X" | "x" => 0x10,
            "Z" => 0x20,
            "P" => 0x40,
            "I" => 0x80,
            _ => 0,
        };
        Some(match state.split('|').fold(0, |all, letter| all | bit(letter)) {
            0 if state == "R" || state == "0" => TaskState(0),
            0 => TaskState::UNKNOWN,
            bits => TaskState(bits),
        })
    }

    fn function(&self, name: &str, names: &mut Names) -> Name {
        // `f+0x12/0x80`: only the function's name matters.
        self.text(name).map_or(Name(0), |text| names.intern(text.split('+').next().unwrap_or(text)))
    }
}

/// A decimal number, which may exceed `i64::MAX`, or a hexadecimal one after `0x`.
fn number(word: &str) -> Option<i64> {
    if let Some(digits) = word.strip_prefix("0x") {
        return hexadecimal(digits);
    }
    word.parse().ok().or_else(|| word.parse().ok().map(u64::cast_signed))
}

pub(super) fn hexadecimal(text: &str) -> Option<i64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok().map(u64::cast_signed)
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
