//! An event's fields as the kernel prints them. Thread names may contain anything, so the first
//! match of a pattern is not trusted. Source: each event's `TP_printk`.

use roundtrip_tracefs::{EventContext, Name, Names, TaskState};

use super::line::digits;
use super::storage;
use crate::fields::Fields;

/// An event's text, usually `key=value`.
pub(super) struct EventText<'a> {
    event: &'a str,
    context: EventContext,
    text: &'a str,
    /// The text after `==>`, if any.
    next: Option<&'a str>,
}

impl<'a> EventText<'a> {
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
        // A character is found much faster than a text.
        text.rmatch_indices('=').find_map(|(at, _)| {
            let before = text[..at].strip_suffix(name)?;
            (before.is_empty() || before.ends_with(' ')).then_some(&text[at + 1..])
        })
    }
}

impl Fields for EventText<'_> {
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
            "prev_comm" => " prev_pid",
            "next_comm" => " next_pid",
            "comm" => " pid",
            "child_comm" => " child_pid",
            "newcomm" => " oom_score_adj",
            _ => "",
        };
        let side = self.side(name);
        let rest = match name {
            "newcomm" => self.after(name)?,
            _ => {
                let ends = |&(at, _): &(usize, &str)| side[..at].ends_with(name);
                &side[side.match_indices('=').find(ends)?.0 + 1..]
            }
        };
        match next {
            "" => rest.split(' ').next(),
            next => Some(
                rest.rmatch_indices('=').find_map(|(at, _)| rest[..at].strip_suffix(next)).unwrap_or(rest),
            ),
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
