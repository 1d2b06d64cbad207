//! What is measured: conditions, sizes, cells. Plain data; must not know how it is measured or
//! judged.

use std::collections::BTreeMap;
use std::time::Duration;

use latency::{Comparison, Histogram};

use crate::peer::Peer;

/// Payloads, each way.
pub(crate) const SIZES_BYTES: [usize; 3] = [4, 4096, 65_536];

/// Where the two sides run, and how often they call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Both on one CPU, call after call.
    OneCpu,
    /// Started on different CPUs, then wherever the kernel puts them; call after call.
    Free,
    /// As [`Condition::Free`], with a millisecond of sleep before each call.
    Apart,
}

impl Condition {
    pub(crate) const ALL: [Condition; 3] = [Condition::OneCpu, Condition::Free, Condition::Apart];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Condition::OneCpu => "one CPU",
            Condition::Free => "free",
            Condition::Apart => "1 ms apart",
        }
    }

    /// What the client sleeps before each call.
    pub(crate) fn gap(self) -> Duration {
        match self {
            Condition::Apart => Duration::from_millis(1),
            _ => Duration::ZERO,
        }
    }
}

/// One peer with one payload in one condition. Each round measures it twice, at different moments:
/// how much the two differ says how far a difference to another cell can be trusted.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) peer: &'static Peer,
    pub(crate) condition: Condition,
    pub(crate) size_bytes: usize,
    /// The median call of the first and the second block of each round, in nanoseconds.
    pub(crate) halves_ns: [Vec<f64>; 2],
    /// Blocks that ended with both sides on one CPU, and all whose end was seen.
    pub(crate) together: (u32, u32),
    /// Every timed call.
    pub(crate) latency: Histogram,
}

impl Cell {
    /// One figure for each round, in nanoseconds: the mean of both medians.
    pub(crate) fn rounds_ns(&self) -> Vec<f64> {
        let [first, second] = &self.halves_ns;
        first.iter().zip(second).map(|(first, second)| (first + second) / 2.0).collect()
    }

    /// The median round, in nanoseconds.
    pub(crate) fn median_ns(&self) -> Option<f64> {
        let mut rounds = self.rounds_ns();
        rounds.sort_by(f64::total_cmp);
        latency::quantile(&rounds, 0.5)
    }

    /// The second blocks against the first ones: 1.0 where it is like itself.
    pub(crate) fn against_itself(&self) -> Option<Comparison> {
        Comparison::of_rounds(&self.halves_ns[1], &self.halves_ns[0]).ok()
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rounds: u32,
    pub(crate) cells: Vec<Cell>,
    /// What peers reported about themselves: the server, the client.
    pub(crate) about: BTreeMap<&'static str, [String; 2]>,
    /// Peers that did not go through with it, and why. None of their cells is among those above.
    pub(crate) failed: Vec<(&'static str, String)>,
    /// Conditions that this machine does not have, and why.
    pub(crate) left_out: Vec<(Condition, String)>,
}

impl Outcome {
    pub(crate) fn cell(&self, peer: &str, condition: Condition, size_bytes: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            cell.peer.name == peer && cell.condition == condition && cell.size_bytes == size_bytes
        })
    }
}
