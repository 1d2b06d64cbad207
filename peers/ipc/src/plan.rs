//! What is measured, as plain data: conditions, sizes and cells. Must not know how it is measured
//! or judged.

use std::collections::BTreeMap;
use std::time::Duration;

use roundtrip_latency::{Comparison, Histogram};

use crate::peer::Peer;

/// The payload sizes in each direction, in bytes.
pub(crate) const SIZES_BYTES: [usize; 3] = [4, 4096, 65_536];

/// Where the two sides run, and how often the client calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Both on one CPU, calls without pauses.
    OneCpu,
    /// Started on different CPUs and then placed by the kernel; calls without pauses.
    Free,
    /// Like [`Condition::Free`], but the client sleeps 1 ms before each call.
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

    /// How long the client sleeps before each call.
    pub(crate) fn gap(self) -> Duration {
        match self {
            Condition::Apart => Duration::from_millis(1),
            _ => Duration::ZERO,
        }
    }
}

/// One peer with one payload size in one condition. Each round measures it twice, at different
/// times. The difference between the two shows how far a difference between cells can be trusted.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) peer: &'static Peer,
    pub(crate) condition: Condition,
    pub(crate) size_bytes: usize,
    /// The median call of the first and of the second block of each round, in nanoseconds.
    pub(crate) halves_ns: [Vec<f64>; 2],
    /// The number of blocks that ended with both sides on one CPU, and of all blocks for which this
    /// is known.
    pub(crate) together: (u32, u32),
    /// Every timed call.
    pub(crate) latency: Histogram,
}

impl Cell {
    /// For each round the mean of both medians, in nanoseconds.
    pub(crate) fn rounds_ns(&self) -> Vec<f64> {
        let [first, second] = &self.halves_ns;
        first.iter().zip(second).map(|(first, second)| (first + second) / 2.0).collect()
    }

    /// The median round, in nanoseconds.
    pub(crate) fn median_ns(&self) -> Option<f64> {
        let mut rounds = self.rounds_ns();
        rounds.sort_by(f64::total_cmp);
        roundtrip_latency::quantile(&rounds, 0.5)
    }

    /// The ratio of the second blocks to the first blocks; 1.0 without noise.
    pub(crate) fn against_itself(&self) -> Option<Comparison> {
        Comparison::of_rounds(&self.halves_ns[1], &self.halves_ns[0]).ok()
    }
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rounds: u32,
    pub(crate) cells: Vec<Cell>,
    /// What the server and the client of each peer reported about themselves.
    pub(crate) about: BTreeMap<&'static str, [String; 2]>,
    /// The peers that failed, and why. `cells` has none of their cells.
    pub(crate) failed: Vec<(&'static str, String)>,
    /// The conditions that this machine does not support, and why.
    pub(crate) left_out: Vec<(Condition, String)>,
}

impl Outcome {
    pub(crate) fn cell(&self, peer: &str, condition: Condition, size_bytes: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            cell.peer.name == peer && cell.condition == condition && cell.size_bytes == size_bytes
        })
    }
}
