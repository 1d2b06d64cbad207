//! The run: all pairs anew in each round, their blocks in an order shuffled anew, as many calls in
//! each as the time allows. Must not know what is expected.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use latency::{Histogram, quantile};

use crate::pair::{Block, Pair};
use crate::peer::Peer;
use crate::plan::{Cell, Condition, Outcome, SIZES_BYTES};
use crate::scratch::Scratch;
use crate::side::MAX_CALLS;

/// The fewest calls that have a median worth the name.
const MIN_CALLS: u64 = 9;

/// Calls of the trial blocks, which find out how many fit into the others.
const TRIAL_CALLS: u64 = 20;

/// What to do.
pub(crate) struct Plan {
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) rounds: u32,
    /// About how long it may take in all.
    pub(crate) budget: Duration,
}

/// Measures. Pairs that fail are left out from then on and named in the outcome. `stop` ends it
/// early, with everything ended and removed; `progress` is told the round.
pub(crate) fn run(
    plan: &Plan,
    program: &Path,
    stop: &Arc<AtomicBool>,
    progress: &mut dyn FnMut(u32),
) -> Result<Outcome> {
    let scratch = Scratch::create()?;
    let usable = bench::sched::allowed_cpus(0)?;
    let mut outcome = Outcome {
        rounds: plan.rounds,
        cells: Vec::new(),
        about: BTreeMap::new(),
        failed: Vec::new(),
        left_out: Vec::new(),
    };
    let conditions: Vec<Condition> = match usable.len() {
        0 => bail!("this process may use no CPU"),
        1 => {
            let why = format!("this needs two CPUs, but this process may use only one (CPU {usable:?})");
            outcome.left_out =
                [Condition::Free, Condition::Apart].map(|left_out| (left_out, why.clone())).into();
            vec![Condition::OneCpu]
        }
        _ => Condition::ALL.into(),
    };
    for &peer in &plan.peers {
        for &condition in &conditions {
            let sizes = if condition == Condition::Apart { &SIZES_BYTES[..1] } else { &SIZES_BYTES };
            outcome.cells.extend(sizes.iter().map(|&size_bytes| Cell {
                peer,
                condition,
                size_bytes,
                halves_ns: [Vec::new(), Vec::new()],
                together: (0, 0),
                latency: Histogram::new(),
            }));
        }
    }
    let mut budget = Budget::new(plan, outcome.cells.len());
    let mut call_ns = vec![None; outcome.cells.len()];
    let mut shuffle = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    for round in 0..=plan.rounds {
        progress(round);
        round_of(
            &mut outcome,
            round,
            program,
            scratch.folder(),
            &usable,
            stop,
            &mut budget,
            &mut call_ns,
            &mut shuffle,
        )?;
    }
    let failed: Vec<&str> = outcome.failed.iter().map(|(name, _)| *name).collect();
    outcome.cells.retain(|cell| !failed.contains(&cell.peer.name));
    Ok(outcome)
}

/// One round; the first is the trial.
#[allow(clippy::too_many_arguments)] // what the rounds share
fn round_of(
    outcome: &mut Outcome,
    round: u32,
    program: &Path,
    folder: &Path,
    usable: &[u32],
    stop: &AtomicBool,
    budget: &mut Budget,
    call_ns: &mut [Option<f64>],
    shuffle: &mut Rng,
) -> Result<()> {
    let mut pairs = BTreeMap::new();
    for cell in &outcome.cells {
        let name = cell.peer.name;
        if pairs.contains_key(name) || outcome.failed.iter().any(|(failed, _)| *failed == name) {
            continue;
        }
        match Pair::start(cell.peer, program, folder) {
            Ok(pair) => {
                outcome.about.insert(name, pair.about().map(str::to_owned));
                pairs.insert(name, pair);
            }
            Err(error) => outcome.failed.push((name, format!("{error:#}"))),
        }
    }
    // Each cell twice: which half a block is, is whichever comes first.
    let blocks = outcome.cells.len() * 2;
    let mut done = vec![false; outcome.cells.len()];
    let mut order: Vec<usize> = (0..blocks).collect();
    shuffle.shuffle(&mut order);
    for index in order {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted before anything was complete");
        }
        let index = index / 2;
        let half = usize::from(std::mem::replace(&mut done[index], true));
        let cell = &mut outcome.cells[index];
        let Some(pair) = pairs.get_mut(cell.peer.name) else {
            budget.done += 1;
            continue;
        };
        let first = usable[round as usize % usable.len()];
        let second = usable[(round as usize + 1) % usable.len()];
        let one_cpu = cell.condition == Condition::OneCpu;
        let block = Block {
            size_bytes: cell.size_bytes,
            calls: call_ns[index].map_or(TRIAL_CALLS, |ns| budget.calls(ns, cell.condition.gap())),
            gap: cell.condition.gap(),
            start_cpus: if one_cpu { [first, first] } else { [first, second] },
            then_cpus: if one_cpu { Vec::new() } else { usable.to_vec() },
        };
        let times_ns = match pair.run(&block) {
            Ok(times_ns) => times_ns,
            Err(error) => {
                pairs.remove(cell.peer.name);
                outcome.failed.push((cell.peer.name, format!("{error:#}")));
                continue;
            }
        };
        budget.spend(times_ns.iter().sum::<u64>() + block.gap.as_nanos() as u64 * block.calls);
        let mut sorted: Vec<f64> = times_ns.iter().map(|&ns| ns as f64).collect();
        sorted.sort_by(f64::total_cmp);
        let median_ns = quantile(&sorted, 0.5).context("no calls were timed")?;
        call_ns[index] = Some(median_ns);
        if round > 0 {
            cell.halves_ns[half].push(median_ns);
            if let Some(together) = pair.on_one_cpu() {
                cell.together = (cell.together.0 + u32::from(together), cell.together.1 + 1);
            }
            times_ns.iter().for_each(|&ns| cell.latency.record(ns));
        }
    }
    for (name, pair) in pairs {
        if let Err(error) = pair.end() {
            outcome.failed.push((name, format!("{error:#}")));
        }
    }
    Ok(())
}

/// The time that a run may take, shared out among its blocks. What is lost to starting processes
/// and blocks is taken from the calls of those to come.
struct Budget {
    start: Instant,
    total: Duration,
    blocks: u64,
    done: u64,
    /// Spent in calls and the gaps between them.
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

    /// How many calls the next block can make if one takes so long.
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
    fn the_time_that_is_left_is_shared_out_and_a_run_that_is_late_still_calls() {
        let plan = Plan { peers: Vec::new(), rounds: 9, budget: Duration::from_secs(3600) };
        let mut budget = Budget::new(&plan, 5);
        // An hour for 100 blocks is 36 s each: 36 000 calls of a millisecond, or half of them with
        // as long a gap.
        assert!((35_900..=36_000).contains(&budget.calls(1e6, Duration::ZERO)));
        assert!((17_900..=18_000).contains(&budget.calls(1e6, Duration::from_millis(1))));
        assert_eq!(budget.calls(1.0, Duration::ZERO), MAX_CALLS);
        budget.spend(1);
        budget.total = Duration::ZERO;
        assert_eq!(budget.calls(1.0, Duration::ZERO), MIN_CALLS);
    }
}
