//! What delayed a run's slow calls, in one line. Pure: explanations in, text out.

use layers::{Cause, Kind};

use super::explanation_words::{comm, owner, what};
use super::quantity::duration;
use analysis::slow_calls::{Explained, Kept};

/// The fewest calls for which a median is shown. With fewer, the calls themselves, which are
/// printed below, are more useful.
const WORTH_A_MEDIAN: usize = 3;

/// "34 missed: 31 behind rustc (median 3.30 ms), 2 ran long, 1 cannot tell", or a line that says
/// that there were none.
pub(crate) fn line(explained: &[Explained], kept: &Kept) -> String {
    let Kept { over_limit, slowest, all_calls, deadline_ns, .. } = *kept;
    if explained.is_empty() {
        let deadline = duration(deadline_ns as f64);
        return match (over_limit, slowest) {
            (0, false) => format!("No call was slow: none of {all_calls} took longer than {deadline}.\n"),
            (0, true) => "No slow call was kept: there were too few calls to compare.\n".into(),
            _ => String::new(),
        };
    }
    let count = explained.len();
    let head = match (slowest, over_limit) {
        (true, _) => format!("{count} slowest"),
        (false, 0) => format!("{count} missed"),
        (false, _) => {
            let recorded = explained.iter().all(|one| one.call.snapshot.is_some());
            let of = if recorded { " recorded" } else { "" };
            let shown = if count == 1 { String::new() } else { format!("{count} ") };
            format!("{} missed; the {shown}slowest{of}", count as u64 + over_limit)
        }
    };
    let groups: Vec<String> = groups(explained).into_iter().map(group_text).collect();
    format!("{head}: {}\n", groups.join(", "))
}

/// A main cause, and the delay that it caused in each of its calls, in nanoseconds.
type Group = (String, Vec<u64>);

/// What delayed a call, in a few words.
pub(crate) fn cause_of(one: &Explained) -> String {
    one.explanation.causes.first().map_or_else(|| CANNOT_TELL.to_owned(), words)
}

/// The groups, largest first. Calls without a known cause come last.
fn groups(explained: &[Explained]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for one in explained {
        let cause = one.explanation.causes.first();
        let name = cause_of(one);
        let took_ns = cause.map_or(0, |cause| cause.excess_ns);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, all)) => all.push(took_ns),
            None => groups.push((name, vec![took_ns])),
        }
    }
    groups.sort_by_key(|(name, all)| (name == CANNOT_TELL, std::cmp::Reverse(all.len())));
    groups
}

const CANNOT_TELL: &str = "cannot tell";

fn group_text((name, mut took_ns): Group) -> String {
    let count = took_ns.len();
    took_ns.sort_unstable();
    match took_ns.get(count / 2).filter(|_| count >= WORTH_A_MEDIAN && name != CANNOT_TELL) {
        Some(&median_ns) => format!("{count} {name} (median {})", duration(median_ns as f64)),
        None => format!("{count} {name}"),
    }
}

/// A cause in a few words that follow a number of calls.
fn words(cause: &Cause) -> String {
    let thread = cause.thread.as_ref().map_or_else(|| "another thread".to_owned(), comm);
    let name = cause.what.as_ref().map_or_else(|| "an interrupt".to_owned(), what);
    match cause.kind {
        Kind::Ordinary => "took the usual time".into(),
        Kind::Work => "ran long".into(),
        Kind::Competitor => format!("behind {thread}"),
        Kind::Interrupt => format!("interrupted by {name}"),
        Kind::Sleep => format!("where the {} slept", owner(cause.owner)),
        Kind::Io => "waited for a device".into(),
        Kind::WaitedFor => format!("waited for {thread}"),
        Kind::Stopped => "stopped by a signal".into(),
        Kind::WakeUp => "woken late".into(),
        Kind::Throttled => "throttled by a CPU quota".into(),
        Kind::Gap => "on a CPU that did not run".into(),
        Kind::CannotTell => CANNOT_TELL.into(),
    }
}

#[cfg(test)]
mod tests {
    use analysis::slow_calls::SlowCall;
    use layers::{Owner, RoundTrip, Thread, explain_without_events};

    use super::*;

    fn cause(kind: Kind, comm: &str, excess_ns: u64) -> Cause {
        let thread = Thread { tid: 7, pid: None, comm: comm.into(), prio: None };
        Cause {
            kind,
            excess_ns,
            owner: Owner::Server,
            thread: Some(thread),
            via: Vec::new(),
            what: None,
            cpu: None,
        }
    }

    fn explained(cause: Cause) -> Explained {
        let trip = RoundTrip { start_ns: 1, end_ns: 2, ..RoundTrip::default() };
        let mut explanation = explain_without_events(&trip);
        explanation.causes = vec![cause];
        let call = SlowCall {
            number: 1,
            kind: (0, 0),
            kind_name: String::new(),
            what: String::new(),
            trip,
            snapshot: None,
        };
        Explained { call, deadline_ns: 1, explanation, without_events: None, damage: None }
    }

    #[test]
    fn causes_are_counted_with_the_largest_group_first() {
        let mut kept = Kept { all_calls: 12, deadline_ns: 2_500_000, ..Kept::default() };
        let mut causes = vec![cause(Kind::CannotTell, "", 1), cause(Kind::CannotTell, "", 1)];
        causes.push(cause(Kind::Work, "", 1_000_000));
        causes.extend([9_000_000, 3_300_000, 1_000_000].map(|ns| cause(Kind::Competitor, "rustc", ns)));
        let all: Vec<_> = causes.into_iter().map(explained).collect();
        assert_eq!(
            line(&all, &kept),
            "6 missed: 3 behind rustc (median 3.30 ms), 1 ran long, 2 cannot tell\n"
        );
        assert_eq!(line(&[], &kept), "No call was slow: none of 12 took longer than 2.50 ms.\n");
        kept.slowest = true;
        assert!(line(&all, &kept).starts_with("6 slowest: 3 behind rustc"));
        assert!(line(&[], &kept).starts_with("No slow call was kept"));
    }
}
