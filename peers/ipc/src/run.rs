//! Measures all peers. Each round starts new pairs and runs their blocks in a new random order,
//! with as many calls per block as the remaining time allows. Must not know the goals.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use roundtrip_latency::{Histogram, quantile};

use crate::pair::{Block, Pair};
use crate::peer::Peer;
use crate::plan::{Cell, Condition, Outcome, SIZES_BYTES};
use crate::scratch::Scratch;
use crate::side::MAX_CALLS;

/// The fewest calls in a block, so that its median is meaningful.
const MIN_CALLS: u64 = 9;

/// Calls in a trial block, which determines how many calls fit into the other blocks.
const TRIAL_CALLS: u64 = 20;

/// What to measure.
pub(crate) struct Plan {
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) rounds: u32,
    /// About how long the whole run may take.
    pub(crate) budget: Duration,
}

/// Runs the measurement. A peer that fails is not measured again, and the outcome names it. `stop`
/// ends the run early; all processes are then stopped and all files removed. `progress` gets the
/// number of each round before it starts.
///
/// # Errors
/// If no CPU is usable, if the temporary directory cannot be created, or if `stop` is set.
pub(crate) fn run(
    plan: &Plan,
    program: &Path,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(u32),
) -> Result<Outcome> {
    let scratch = Scratch::create()?;
    let usable = roundtrip_bench::sched::allowed_cpus(0)?;
    let mut outcome = Outcome {
        rounds: plan.rounds,
        cells: Vec::new(),
        about: BTreeMap::new(),
        failed: Vec::new(),
        left_out: Vec::new(),
    };
    let conditions = conditions(&usable, &mut outcome)?;
    outcome.cells = cells(&plan.peers, &conditions);
    let mut rounds = Rounds {
        program,
        folder: scratch.folder(),
        usable: &usable,
        stop,
        budget: Budget::new(plan, outcome.cells.len()),
        call_ns: vec![None; outcome.cells.len()],
        shuffle: Rng::with_seed(0x9E37_79B9_7F4A_7C15),
        outcome,
    };
    for round in 0..=plan.rounds {
        progress(round);
        rounds.run(round)?;
    }
    let mut outcome = rounds.outcome;
    let failed: Vec<&str> = outcome.failed.iter().map(|(name, _)| *name).collect();
    outcome.cells.retain(|cell| !failed.contains(&cell.peer.name));
    Ok(outcome)
}

/// The conditions that this many CPUs allow. The outcome gets the others with the reason.
fn conditions(usable: &[u32], outcome: &mut Outcome) -> Result<Vec<Condition>> {
    Ok(match usable.len() {
        0 => bail!("this process may use no CPU"),
        1 => {
            let why = format!("this needs two CPUs, but this process may use only one (CPU {usable:?})");
            outcome.left_out =
                [Condition::Free, Condition::Apart].map(|left_out| (left_out, why.clone())).into();
            vec![Condition::OneCpu]
        }
        _ => Condition::ALL.into(),
    })
}

/// An empty cell for each peer, condition and size.
fn cells(peers: &[&'static Peer], conditions: &[Condition]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &peer in peers {
        for &condition in conditions {
            let sizes = if condition == Condition::Apart { &SIZES_BYTES[..1] } else { &SIZES_BYTES };
            cells.extend(sizes.iter().map(|&size_bytes| Cell {
                peer,
                condition,
                size_bytes,
                halves_ns: [Vec::new(), Vec::new()],
                together: (0, 0),
                latency: Histogram::new(),
            }));
        }
    }
    cells
}

/// The state that all rounds share.
struct Rounds<'a> {
    program: &'a Path,
    folder: &'a Path,
    usable: &'a [u32],
    stop: &'a AtomicBool,
    outcome: Outcome,
    budget: Budget,
    /// For each cell the median call of its latest block, in nanoseconds.
    call_ns: Vec<Option<f64>>,
    shuffle: Rng,
}

impl Rounds<'_> {
    /// Runs one round. Round 0 is the trial, whose times are not kept.
    fn run(&mut self, round: u32) -> Result<()> {
        let mut pairs = self.start_pairs();
        for (index, half) in self.order() {
            if self.stop.load(Ordering::Relaxed) {
                bail!("interrupted before anything was complete");
            }
            let name = self.outcome.cells[index].peer.name;
            let Some(pair) = pairs.get_mut(name) else {
                self.budget.done += 1;
                continue;
            };
            let block = self.block(index, round);
            match pair.run(&block) {
                Ok(times_ns) => {
                    let median_ns = self.note(index, &block, &times_ns)?;
                    if round > 0 {
                        self.keep(index, half, median_ns, &times_ns, pair.on_one_cpu());
                    }
                }
                Err(error) => {
                    self.budget.done += 1;
                    pairs.remove(name);
                    self.outcome.failed.push((name, format!("{error:#}")));
                }
            }
        }
        for (name, pair) in pairs {
            if let Err(error) = pair.end() {
                self.outcome.failed.push((name, format!("{error:#}")));
            }
        }
        Ok(())
    }

    /// Starts a pair of each peer that has not failed.
    fn start_pairs(&mut self) -> BTreeMap<&'static str, Pair> {
        let mut pairs = BTreeMap::new();
        for cell in &self.outcome.cells {
            let name = cell.peer.name;
            if pairs.contains_key(name) || self.outcome.failed.iter().any(|(failed, _)| *failed == name) {
                continue;
            }
            match Pair::start(cell.peer, self.program, self.folder) {
                Ok(pair) => {
                    self.outcome.about.insert(name, pair.about().map(str::to_owned));
                    pairs.insert(name, pair);
                }
                Err(error) => self.outcome.failed.push((name, format!("{error:#}"))),
            }
        }
        pairs
    }

    /// The cell and the half of each block, in random order. Each cell has two blocks; the first is
    /// half 0.
    fn order(&mut self) -> Vec<(usize, usize)> {
        let cells = self.outcome.cells.len();
        let mut order: Vec<usize> = (0..cells * 2).collect();
        self.shuffle.shuffle(&mut order);
        let mut done = vec![false; cells];
        let half = |index: usize| (index, usize::from(std::mem::replace(&mut done[index], true)));
        order.into_iter().map(|block| block / 2).map(half).collect()
    }

    /// A cell's next block.
    fn block(&self, index: usize, round: u32) -> Block {
        let (cell, usable) = (&self.outcome.cells[index], self.usable);
        let first = usable[round as usize % usable.len()];
        let second = usable[(round as usize + 1) % usable.len()];
        let one_cpu = cell.condition == Condition::OneCpu;
        let gap = cell.condition.gap();
        Block {
            size_bytes: cell.size_bytes,
            calls: self.call_ns[index].map_or(TRIAL_CALLS, |ns| self.budget.calls(ns, gap)),
            gap,
            start_cpus: if one_cpu { [first, first] } else { [first, second] },
            then_cpus: if one_cpu { Vec::new() } else { usable.to_vec() },
        }
    }

    /// Subtracts a block's time from the budget. Returns the median of its calls, in nanoseconds.
    fn note(&mut self, index: usize, block: &Block, times_ns: &[u64]) -> Result<f64> {
        self.budget.spend(times_ns.iter().sum::<u64>() + block.gap.as_nanos() as u64 * block.calls);
        let mut sorted: Vec<f64> = times_ns.iter().map(|&ns| ns as f64).collect();
        sorted.sort_by(f64::total_cmp);
        let median_ns = quantile(&sorted, 0.5).context("no calls were timed")?;
        self.call_ns[index] = Some(median_ns);
        Ok(median_ns)
    }

    /// Adds a block's times to its cell.
    fn keep(
        &mut self,
        index: usize,
        half: usize,
        median_ns: f64,
        times_ns: &[u64],
        on_one_cpu: Option<bool>,
    ) {
        let cell = &mut self.outcome.cells[index];
        cell.halves_ns[half].push(median_ns);
        if let Some(together) = on_one_cpu {
            cell.together = (cell.together.0 + u32::from(together), cell.together.1 + 1);
        }
        times_ns.iter().for_each(|&ns| cell.latency.record(ns));
    }
}

/// Divides the time of a run among its blocks. The overhead of starting processes and blocks
/// reduces the calls of later blocks.
struct Budget {
    start: Instant,
    total: Duration,
    blocks: u64,
    done: u64,
    /// The time spent in calls and in the gaps between them.
    calls: Duration,
}

impl Budget {
    fn new(plan: &Plan, cells: usize) -> Budget {
        let blocks = 2 * cells as u64 * (u64::from(plan.rounds) + 1);
        Budget { start: Instant::now(), total: plan.budget, blocks, done: 0, calls: Duration::ZERO }
    }

    fn spend(&mut self, ns: u64) {
        self.done += 1;
        self.calls += Duration::from_nanos(ns);
    }

    /// The number of calls for the next block, if a call takes `call_ns`: from [`MIN_CALLS`] to
    /// [`MAX_CALLS`].
    fn calls(&self, call_ns: f64, gap: Duration) -> u64 {
        let elapsed = self.start.elapsed();
        let left = self.total.saturating_sub(elapsed)
            / u32::try_from((self.blocks - self.done).max(1)).unwrap_or(u32::MAX);
        let overhead =
            elapsed.saturating_sub(self.calls) / u32::try_from(self.done.max(1)).unwrap_or(u32::MAX);
        let one_ns = call_ns.max(1.0) + gap.as_nanos() as f64;
        (left.saturating_sub(overhead).as_nanos() as f64 / one_ns).clamp(MIN_CALLS as f64, MAX_CALLS as f64)
            as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_share_the_remaining_time_and_a_late_run_still_makes_the_fewest_calls() {
        let plan = Plan { peers: Vec::new(), rounds: 9, budget: Duration::from_secs(3600) };
        let mut budget = Budget::new(&plan, 5);
        // An hour for 100 blocks is 36 s each: 36,000 calls of 1 ms, or half as many with gaps of
        // 1 ms.
        assert!((35_900..=36_000).contains(&budget.calls(1e6, Duration::ZERO)));
        assert!((17_900..=18_000).contains(&budget.calls(1e6, Duration::from_millis(1))));
        assert_eq!(budget.calls(1.0, Duration::ZERO), MAX_CALLS);
        budget.spend(1);
        budget.total = Duration::ZERO;
        assert_eq!(budget.calls(1.0, Duration::ZERO), MIN_CALLS);
    }
}
