//! The goals for Roundtrip's driver in comparison with its peers, and whether it meets them. Must
//! not know how the figures were measured.

use roundtrip_latency::Comparison;

use crate::plan::{Cell, Condition, Outcome};

/// The largest difference between a cell's two blocks with which the cell is still judged.
pub(crate) const SELF_LIMIT: f64 = 0.10;

/// The largest share of all CPU time for other processes with which anything is judged.
pub(crate) const FOREIGN_LIMIT: f64 = 0.10;

/// Peer, condition, payload in bytes.
pub(crate) type Key = (&'static str, Condition, usize);

/// The bound of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    /// The driver takes at most this many times as long as the peer.
    AtMost(f64),
    /// The peer takes at least this many times as long as the driver.
    Faster(f64),
}

/// A goal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) subject: Key,
    pub(crate) other: Key,
    pub(crate) bound: Bound,
    /// Whether this is a stretch goal, beyond the requirements.
    pub(crate) is_stretch: bool,
}

const fn free(peer: &'static str, size_bytes: usize) -> Key {
    (peer, Condition::Free, size_bytes)
}

const fn goal(subject: Key, other: Key, bound: Bound) -> Goal {
    Goal { subject, other, bound, is_stretch: false }
}

const DRIVER: &str = "binder-driver";
const FREE: Key = free(DRIVER, 4);
const LARGE: Key = free(DRIVER, 65_536);
const APART: Key = (DRIVER, Condition::Apart, 4);
const BASELINE: Key = ("futex", Condition::OneCpu, 4);

const fn apart(peer: &'static str) -> Goal {
    goal(APART, (peer, Condition::Apart, 4), Bound::Faster(10.0))
}

/// All goals.
pub(crate) const GOALS: &[Goal] = &[
    goal((DRIVER, Condition::OneCpu, 4), BASELINE, Bound::AtMost(1.4)),
    goal(FREE, BASELINE, Bound::AtMost(1.5)),
    Goal { is_stretch: true, ..goal(FREE, BASELINE, Bound::AtMost(1.3)) },
    goal(FREE, free("futex", 4), Bound::Faster(2.5)),
    goal(FREE, free("pipe", 4), Bound::Faster(2.5)),
    goal(FREE, free("unix-stream", 4), Bound::Faster(2.5)),
    goal(FREE, free("rsbinder-rpc", 4), Bound::Faster(3.0)),
    goal(FREE, free("iceoryx2", 4), Bound::Faster(5.0)),
    goal(FREE, free("zbus", 4), Bound::Faster(7.0)),
    goal(FREE, free("tonic", 4), Bound::Faster(12.0)),
    goal(LARGE, free("unix-stream", 65_536), Bound::Faster(2.0)),
    goal(LARGE, free("iceoryx2", 65_536), Bound::Faster(3.0)),
    apart("futex"),
    apart("pipe"),
    apart("unix-stream"),
    apart("rsbinder-rpc"),
    apart("iceoryx2"),
    apart("zbus"),
    apart("tonic"),
    // Without synchronous wake-ups the driver must be no slower than a pipe.
    goal(("driver-futex", Condition::OneCpu, 4), ("pipe", Condition::OneCpu, 4), Bound::AtMost(1.0)),
    goal(free("driver-futex", 4), free("pipe", 4), Bound::AtMost(1.0)),
];

/// Whether a goal is met.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The whole interval is within the bound.
    Met,
    /// The whole interval is outside the bound.
    Missed,
    /// Cannot tell, with the reason.
    NotJudged(String),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Met => f.write_str("met"),
            Verdict::Missed => f.write_str("MISSED"),
            Verdict::NotJudged(why) => write!(f, "not judged: {why}"),
        }
    }
}

/// A goal's ratio, in the direction of its bound, and its verdict.
pub(crate) fn judge(goal: &Goal, outcome: &Outcome, foreign: Option<f64>) -> (Option<Comparison>, Verdict) {
    let find = |(peer, condition, size_bytes): Key| outcome.cell(peer, condition, size_bytes);
    let (Some(subject), Some(other)) = (find(goal.subject), find(goal.other)) else {
        return (None, Verdict::NotJudged("not measured".into()));
    };
    let (above, below) = match goal.bound {
        Bound::AtMost(_) => (subject, other),
        Bound::Faster(_) => (other, subject),
    };
    let Ok(ratio) = Comparison::of_rounds(&above.rounds_ns(), &below.rounds_ns()) else {
        return (None, Verdict::NotJudged("not measured".into()));
    };
    (Some(ratio), verdict(goal.bound, &ratio, [subject, other], foreign))
}

fn verdict(bound: Bound, ratio: &Comparison, cells: [&Cell; 2], foreign: Option<f64>) -> Verdict {
    for cell in cells {
        let off = cell.against_itself().map_or(f64::INFINITY, |itself| (itself.median - 1.0).abs());
        if off > SELF_LIMIT {
            let name = cell.peer.name;
            return Verdict::NotJudged(format!("{name} differs from itself by {:.0}%", off * 100.0));
        }
    }
    if let Some(foreign) = foreign.filter(|foreign| *foreign > FOREIGN_LIMIT) {
        return Verdict::NotJudged(format!("other processes used {:.0}% of the CPU time", foreign * 100.0));
    }
    let Some(interval) = ratio.interval else {
        return Verdict::NotJudged("fewer than 6 rounds".into());
    };
    let (all, none) = match bound {
        Bound::AtMost(most) => (interval.high <= most, interval.low > most),
        Bound::Faster(least) => (interval.low >= least, interval.high < least),
    };
    match (all, none) {
        (true, _) => Verdict::Met,
        (_, true) => Verdict::Missed,
        _ => Verdict::NotJudged("the interval lies on both sides".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::find;
    use roundtrip_latency::Histogram;

    fn cell(peer: &str, first_ns: &[f64], second_ns: &[f64]) -> Cell {
        Cell {
            peer: find(peer).expect("a peer"),
            condition: Condition::Free,
            size_bytes: 4,
            halves_ns: [first_ns.into(), second_ns.into()],
            together: (3, 4),
            latency: Histogram::new(),
        }
    }

    fn outcome(cells: Vec<Cell>) -> Outcome {
        Outcome { rounds: 8, cells, about: Default::default(), failed: Vec::new(), left_out: Vec::new() }
    }

    fn faster(least: f64) -> Goal {
        goal(FREE, free("pipe", 4), Bound::Faster(least))
    }

    /// The pipe takes 3.0 to 3.7 times as long.
    fn measured() -> Outcome {
        let pipe: Vec<f64> = (0..8).map(|round| 3000.0 + 100.0 * f64::from(round)).collect();
        outcome(vec![cell(DRIVER, &[1000.0; 8], &[1000.0; 8]), cell("pipe", &pipe, &pipe)])
    }

    #[test]
    fn a_goal_is_met_or_missed_only_by_the_whole_interval() {
        let verdict = |least| judge(&faster(least), &measured(), Some(0.01)).1;
        assert_eq!(verdict(2.5), Verdict::Met);
        assert_eq!(verdict(4.0), Verdict::Missed);
        assert_eq!(verdict(3.3), Verdict::NotJudged("the interval lies on both sides".into()));
        let at_most = Goal { bound: Bound::AtMost(1.0), ..faster(0.0) };
        let (ratio, verdict) = judge(&at_most, &measured(), None);
        assert_eq!(verdict, Verdict::Met);
        assert!(ratio.is_some_and(|ratio| ratio.median < 0.34), "{ratio:?}");
    }

    #[test]
    fn noisy_cells_busy_machines_and_few_rounds_give_no_verdict() {
        let mut noisy = measured();
        noisy.cells[1].halves_ns[1].iter_mut().for_each(|ns| *ns *= 1.2);
        let why = |outcome: &Outcome, foreign| judge(&faster(2.5), outcome, foreign).1.to_string();
        assert_eq!(why(&noisy, None), "not judged: pipe differs from itself by 20%");
        assert_eq!(why(&measured(), Some(0.25)), "not judged: other processes used 25% of the CPU time");
        let mut short = measured();
        short.cells.iter_mut().flat_map(|cell| &mut cell.halves_ns).for_each(|half| half.truncate(5));
        assert_eq!(why(&short, None), "not judged: fewer than 6 rounds");
        assert_eq!(why(&outcome(Vec::new()), None), "not judged: not measured");
    }

    #[test]
    fn every_goal_names_measured_peers_and_payloads() {
        for Goal { subject, other, .. } in GOALS {
            for (peer, condition, size_bytes) in [subject, other] {
                find(peer).expect("a peer");
                let sizes = crate::plan::SIZES_BYTES;
                let measured = if *condition == Condition::Apart { &sizes[..1] } else { &sizes[..] };
                assert!(measured.contains(size_bytes));
            }
        }
    }
}
