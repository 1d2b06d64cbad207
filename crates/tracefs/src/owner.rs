//! Names that say which process made something, so that a later one can tell what a killed process has left behind. Must not
//! know what is named.

use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other process has, nor this one for anything else: the prefix, this process's pid and start time, a number.
#[must_use]
pub fn own_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let started = start_time(pid).unwrap_or(0);
    format!("{prefix}{pid}-{started}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a name is one of [`own_name`] with this prefix, and the process that gave it is no more.
#[must_use]
pub fn is_abandoned(prefix: &str, name: &str) -> bool {
    abandoned(prefix, name, start_time)
}

fn abandoned(prefix: &str, name: &str, start_time: impl Fn(u32) -> Option<u64>) -> bool {
    let owner = || {
        let mut parts = name.strip_prefix(prefix)?.split('-');
        let owner = (parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?);
        parts.next()?.parse::<u32>().ok()?;
        parts.next().is_none().then_some(owner)
    };
    owner().is_some_and(|(pid, started)| start_time(pid) != Some(started))
}

/// When a process began, in clock ticks since boot (proc_pid_stat(5), field 22); `None` when there is no such process.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, which may hold anything, stands in brackets before the third field.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_abandoned_when_its_process_is_no_more() {
        let abandoned = |name: &str| abandoned("rt-", name, |pid| (pid == 42).then_some(1000));
        assert!(!abandoned("rt-42-1000-0"), "it lives");
        assert!(abandoned("rt-42-999-0"), "another process has its pid");
        assert!(abandoned("rt-43-1000-1"));
        for other in ["rt-notes", "other-43-1000-0", "rt-43-1000", "rt-43-1000-0-copy", "rt-43-1000-x"] {
            assert!(!abandoned(other), "{other} is not ours");
        }
    }

    #[test]
    fn a_process_has_one_start_time_and_many_names() {
        assert!(start_time(std::process::id()).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time(u32::MAX >> 2), None);
        let (one, two) = (own_name("rt-"), own_name("rt-"));
        assert!(one != two && !is_abandoned("rt-", &one) && !is_abandoned("rt-", &two));
    }
}
