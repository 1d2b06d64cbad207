//! What changed on the machine during a run. Must not know how it was noticed.

use serde::{Deserialize, Serialize};

/// A condition that differed from the beginning of the run for some time. Conditions are read
/// between turns, while nothing is timed, so that each time is up to one turn late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The condition: "online CPUs", "governor of policy0", "CPUs of client of pair 1".
    pub what: String,
    /// What it was at first.
    pub before: String,
    /// What it was during this time.
    pub during: String,
    /// When this was first seen, in nanoseconds since the beginning of the run.
    pub from_ns: u64,
    /// When it was over, in nanoseconds since the beginning of the run; `None` if it lasted to the
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
}

/// The most conditions that have a warning of their own.
const MAX_NAMED: usize = 5;

impl Change {
    /// The condition that other processes use much CPU time.
    pub const FOREIGN_TIME: &str = "CPU time of other processes";
    /// The condition that the hypervisor takes much CPU time.
    pub const STOLEN_TIME: &str = "CPU time taken by the hypervisor";

    /// "online CPUs 0 instead of 0-1, from 3.0 s to 5.1 s".
    #[must_use]
    pub fn text(&self) -> String {
        let Self { what, before, during, from_ns, until_ns } = self;
        let until = until_ns.map_or("the end".to_owned(), |ns| format!("{:.1} s", ns as f64 / 1e9));
        format!("{what} {during} instead of {before}, from {:.1} s to {until}", *from_ns as f64 / 1e9)
    }
}

/// One warning for each condition that changed, and one for those beyond [`MAX_NAMED`].
/// Conditions that other warnings are about have none.
pub(super) fn warnings(changes: &[Change], others: &[&str]) -> Vec<String> {
    let mut conditions: Vec<(&Change, usize)> = Vec::new();
    for change in changes.iter().filter(|change| !others.contains(&change.what.as_str())) {
        match conditions.iter_mut().find(|(first, _)| first.what == change.what) {
            Some((_, more)) => *more += 1,
            None => conditions.push((change, 0)),
        }
    }
    let named = conditions.iter().take(MAX_NAMED).map(|(change, more)| {
        let more = if *more == 0 { String::new() } else { format!(", and {more} more changes") };
        format!("a condition changed during the run: {}{more}", change.text())
    });
    let unnamed = conditions.len().saturating_sub(MAX_NAMED);
    let rest = (unnamed > 0).then(|| format!("{unnamed} more conditions changed during the run"));
    named.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(what: &str, from_s: u64, until_s: Option<u64>) -> Change {
        Change {
            what: what.into(),
            before: "0-1".into(),
            during: "0".into(),
            from_ns: from_s * 1_000_000_000,
            until_ns: until_s.map(|seconds| seconds * 1_000_000_000),
        }
    }

    #[test]
    fn each_condition_is_one_warning_with_its_time() {
        let changes = [
            change("online CPUs", 3, Some(5)),
            change("CPUs of a server", 4, None),
            change("CPU quota", 6, None),
            change("online CPUs", 7, None),
        ];
        assert_eq!(
            warnings(&changes, &["CPU quota"]),
            [
                "a condition changed during the run: online CPUs 0 instead of 0-1, from 3.0 s to 5.0 s, \
                 and 1 more changes",
                "a condition changed during the run: CPUs of a server 0 instead of 0-1, from 4.0 s to the end",
            ]
        );
    }

    #[test]
    fn many_changed_conditions_have_few_warnings() {
        let changes: Vec<_> = (0..32).map(|pair| change(&format!("CPUs of pair {pair}"), 1, None)).collect();
        let warnings = warnings(&changes, &[]);
        assert_eq!(warnings.len(), MAX_NAMED + 1);
        assert_eq!(warnings[MAX_NAMED], "27 more conditions changed during the run");
        assert!(super::warnings(&[], &[]).is_empty());
    }
}
