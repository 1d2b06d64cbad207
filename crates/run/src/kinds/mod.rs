//! The tests, one file each: how a test is described, and which groups, figures and merged results
//! it has.

use crate::figures::{Better, Unit};
use crate::observe::Subject;

pub(crate) mod baseline;
pub(crate) mod interference;
pub(crate) mod latency;
pub(crate) mod observed_calls;
pub(crate) mod observed_writes;
pub(crate) mod storage;
pub(crate) mod system_calls;
pub(crate) mod throughput;
pub(crate) mod traits;
pub(crate) mod workers;

/// A figure's name, its unit, and which value is better.
type Number = (&'static str, Unit, Better);

const fn count(name: &'static str) -> Number {
    (name, Unit::Count, Better::Lower)
}

const fn share(name: &'static str) -> Number {
    (name, Unit::Percent, Better::Lower)
}

const fn ratio(name: &'static str) -> Number {
    (name, Unit::Ratio, Better::Lower)
}

const fn time(name: &'static str) -> Number {
    (name, Unit::Nanoseconds, Better::Lower)
}

/// The warnings of a test that observed other programs' `what`.
fn unseen(lost: u64, what: &str, not_recorded: &Option<String>) -> Vec<String> {
    let lost = (lost > 0).then(|| {
        format!("{lost} events of the kernel were lost: {what} of that time are missing; a larger --buffer holds more")
    });
    lost.into_iter().chain(not_recorded.clone()).collect()
}

/// A warning if nothing was seen of the processes that the user named.
fn unseen_name(subject: &Subject, what: &str, is_empty: bool) -> Option<String> {
    match subject {
        Subject::Name(name) if is_empty => Some(format!(
            "no {what} of a process named '{name}' were seen: its name is that of its program, without the folder, \
             or of its main thread"
        )),
        _ => None,
    }
}

/// Calls per second.
const RATE: Number = ("rate", Unit::PerSecond, Better::Higher);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_process_of_which_nothing_was_seen_is_a_warning() {
        let name = Subject::Name("postgres".into());
        let warning = unseen_name(&name, "writes", true).unwrap();
        assert!(warning.starts_with("no writes of a process named 'postgres' were seen"), "{warning}");
        assert_eq!(unseen_name(&name, "writes", false), None);
        assert_eq!(unseen_name(&Subject::Everyone, "writes", true), None);
    }
}
