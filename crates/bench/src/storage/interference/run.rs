//! Runs a comparison: every round contains every pair of blocks. A pair is a block without and a
//! block with the condition, one right after the other. Pairs and halves are shuffled. Must not
//! know how a condition is produced.

use rustix::fs::syncfs;

use super::disk::disk;
use super::ended::Ended;
use super::offered::{autogroup, conditions};
use super::recipe::{Done, Machine, Presence, Recipe};
use crate::clock::{self, now_ns};
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::kernel::counters;
use crate::kernel::root::Root;
use crate::progress::Progress;
use crate::sched;
use crate::schedule::shuffle::Shuffle;
use crate::schedule::{Fit, extra_ns, fit};
use crate::storage::recorder::BlockRecorder;
use crate::storage::run::{PATIENCE, possible, recorder, start_writers, way_down, without_polling};
use crate::storage::target::Target;
use crate::storage::writer::{Block, Writer};
use crate::worker::{Spawner, WorkerGroup, keep};
use roundtrip_run::storage::interference::{
    Beside, Condition, InterferencePlan, InterferenceResult, MIN_CALLS, Measured, Pair, calls_in,
};
use roundtrip_run::storage::{Api, Position, StoragePath, StoragePlan};

/// The share of the time for measuring, including the start of writers. Recordings are read in the
/// rest.
const MEASURING_PERCENT: u64 = 85;

/// A pair of blocks, over all rounds.
struct Series {
    beside: Beside,
    recipe: usize,
    /// The duration of the last calls, without and with the condition, in nanoseconds.
    call_ns: [u64; 2],
    /// The duration of a pair of the shortest blocks, including everything around them.
    cost_ns: u64,
}

/// Runs the measurement. Removes the file and restores every setting, even after an error.
///
/// # Errors
/// [`Error::Run`] for an invalid plan, [`Error::File`] and [`Error::NoRoom`] if there is no file,
/// and every error that ends a [`WorkerGroup`], including the death of a background load.
pub fn run(
    plan: &InterferencePlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress),
) -> Result<InterferenceResult> {
    plan.check()?;
    let end_ns = now_ns() + plan.duration_ns / 100 * MEASURING_PERCENT;
    let root = Root::real();
    // Dropped last, when everything is restored.
    let _guard = Guard::start();
    let mut notes = Vec::new();
    let clock_read_cost_ns = clock::read_cost_ns();
    // Before the file is created, so that a signal does not end the process before it has removed
    // the file.
    let mut group = WorkerGroup::new(spawner.clone())?;
    let mut not_possible = Vec::new();
    let mut write = plan.write.clone();
    let cpus = sched::allowed_cpus(0)?;
    let writer_cpus = write.cpus.get_or_insert_with(|| cpus.first().copied().into_iter().collect()).clone();
    let Ready { target, path, file_bytes, mut apis } = ready(&write, &mut notes, &mut not_possible)?;

    let claims = Default::default();
    let machine = Machine { root, plan, path: &path, writer_cpus, cpus, spawner: spawner.clone(), claims };
    let all = conditions(&machine, &mut not_possible)?;
    notes.extend(autogroup(&machine.root));
    let own_writers = apis.len() * write.durabilities.len();
    if all.iter().any(|(_, recipe, _)| matches!(recipe, Recipe::Polled)) {
        apis.extend([Api::Uring, Api::UringPolled]);
    }
    let (writers, results) = start_writers(&write, &apis, &mut group, &target, file_bytes)?;
    let mut recorder = recorder(&write, &results, &mut not_possible)?;

    let mut series = comparisons(&all, own_writers, &write);
    let mut run = Run {
        machine: &machine,
        group: &mut group,
        writers: &writers,
        recorder: recorder.as_mut(),
        target: &target,
        recipes: &all,
        warm_up: write.warm_up,
        ended: Ended::default(),
    };
    let left_out = run.trial(&mut series, end_ns, progress)?;
    not_possible.extend(left_out);
    let made = run.rounds(&mut series, end_ns, progress);
    let ended = run.ended.lines();
    match made {
        Ok(note) => {
            notes.extend(note);
            group.finish(PATIENCE)?;
        }
        Err(error) => keep_measured(error, &series)?,
    }
    series.retain(|one| !one.beside.pairs.is_empty());
    let (recorder, recording_ended) = recorder.map_or((None, None), BlockRecorder::keep);
    Ok(InterferenceResult {
        plan: plan.clone(),
        clock_read_cost_ns,
        writers: results,
        interrupt_cpu: machine.interrupt_cpu(),
        writer_cpus: machine.writer_cpus,
        comparisons: series.into_iter().map(|series| series.beside).collect(),
        recorder,
        recording_ended,
        not_possible,
        ended,
        notes,
        path,
    })
}

/// The file to write to, and the writers that are possible on it.
struct Ready {
    target: Target,
    path: StoragePath,
    /// How much of the file exists before it is written to.
    file_bytes: u64,
    apis: Vec<Api>,
}

/// Creates the file.
fn ready(write: &StoragePlan, notes: &mut Vec<String>, not_possible: &mut Vec<String>) -> Result<Ready> {
    let mut apis = possible(write, not_possible)?;
    let mut target = Target::create(&write.file)?;
    notes.extend(target.notes());
    let path = way_down(&target)?;
    let file_bytes = if write.position == Position::Overwrite { write.file_bytes } else { 0 };
    without_polling(write.all_apis, &mut apis, &path, not_possible)?;
    target.fill(file_bytes)?;
    Ok(Ready { target, path, file_bytes, apis })
}

/// Keeps the pairs that were measured before a signal. Without any, and for all other errors,
/// returns the error.
fn keep_measured(error: Error, series: &[Series]) -> Result<()> {
    let measured = |one: &Series| !one.beside.pairs.is_empty();
    keep(error, series.iter().any(measured))
}

/// The comparisons: each condition, for each writer and size. The plan's own writers come first.
fn comparisons(all: &[(Condition, Recipe, String)], own_writers: usize, write: &StoragePlan) -> Vec<Series> {
    let mut series = Vec::new();
    for (index, (condition, recipe, what)) in all.iter().enumerate() {
        let pairs: Vec<(usize, usize)> = match recipe {
            // The last writers: completion by interrupt and polled, for each durability.
            Recipe::Polled => {
                let each = write.durabilities.len();
                (0..each).map(|at| (own_writers + at, own_writers + each + at)).collect()
            }
            _ => (0..own_writers).map(|writer| (writer, writer)).collect(),
        };
        for (writer, writer_beside) in pairs {
            series.extend(write.sizes_bytes.iter().map(|&size_bytes| {
                let (condition, what, pairs) = (*condition, what.clone(), Vec::new());
                let beside = Beside { condition, what, writer, writer_beside, size_bytes, pairs };
                Series { beside, recipe: index, call_ns: [1_000_000; 2], cost_ns: 0 }
            }));
        }
    }
    series
}

struct Run<'a> {
    machine: &'a Machine<'a>,
    group: &'a mut WorkerGroup,
    writers: &'a [Writer],
    recorder: Option<&'a mut BlockRecorder>,
    target: &'a Target,
    recipes: &'a [(Condition, Recipe, String)],
    warm_up: u32,
    ended: Ended,
}

impl Run<'_> {
    /// Runs an uncounted round to find out which conditions fit into the time. Removes the others,
    /// and returns why.
    fn trial(
        &mut self,
        series: &mut Vec<Series>,
        end_ns: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<String>> {
        let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
        let duration_ns = self.machine.plan.duration_ns;
        let (mut shuffle, begun_ns) = (Shuffle::new(), now_ns());
        let half_ns = begun_ns + end_ns.saturating_sub(begun_ns) / 2;
        let mut costs_ns = vec![0; self.recipes.len()];
        let mut tried = 0;
        for index in 0..series.len() {
            let condition = series[index].recipe;
            // The control and one other condition are always tried.
            if condition > 1 && condition == tried && now_ns() > half_ns {
                break;
            }
            progress(Progress { what: "interference", done: index as u64, total: series.len() as u64 });
            self.pair(&mut series[index], 0, true, &mut shuffle)?;
            costs_ns[condition] += series[index].cost_ns;
            tried = condition + 1;
        }
        let untried = (tried..self.recipes.len())
            .map(|at| (at, "trying the other conditions took half of the time".to_owned()));
        let left_ns = end_ns.saturating_sub(now_ns());
        let Fit { left_out, .. } = fit(&costs_ns[..tried], left_ns, self.machine.plan.rounds);
        let too_long = left_out.into_iter().map(|at| {
            let (took, left) = (seconds(costs_ns[at]), seconds(left_ns));
            (at, format!("a round of it takes at least {took}, and {left} were left for all conditions"))
        });
        let left_out: Vec<(usize, String)> = too_long.chain(untried).collect();
        series.retain(|one| {
            left_out.iter().all(|(at, _)| *at != one.recipe) && !self.ended.contains(one.recipe)
        });
        let said = |(at, why): (usize, String)| {
            let condition = self.recipes[at].0;
            format!(
                "{condition}: left out: {why} within {}; use a longer --duration or fewer --conditions",
                seconds(duration_ns)
            )
        };
        Ok(left_out.into_iter().map(said).collect())
    }

    /// Runs the counted rounds, as many as fit. Returns a note if these are fewer than requested.
    fn rounds(
        &mut self,
        series: &mut [Series],
        end_ns: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<String>> {
        let rounds = self.machine.plan.rounds;
        let mut shuffle = Shuffle::new();
        let left_ns = || end_ns.saturating_sub(now_ns());
        let mut made = 0;
        for round in 0..rounds {
            let goes_on = |one: &&Series| !self.ended.contains(one.recipe);
            let round_ns = series.iter().filter(goes_on).map(|one| one.cost_ns).sum();
            if round > 0 && round_ns > left_ns() {
                break;
            }
            let fitting = fit(&[round_ns], left_ns(), rounds - round).rounds;
            let extra_ns = extra_ns(left_ns(), round_ns, fitting, 2 * series.len());
            for (done, index) in shuffle.order(series.len()).into_iter().enumerate() {
                // If the machine has become slower, the rest of this round is left out. Each series
                // still has its pairs of all earlier rounds.
                if round > 0 && left_ns() == 0 {
                    break;
                }
                let total = u64::from(round + fitting) * series.len() as u64;
                let done = u64::from(round) * series.len() as u64 + done as u64;
                progress(Progress { what: "interference", done, total });
                let pair = self.pair(&mut series[index], extra_ns, false, &mut shuffle)?;
                series[index].beside.pairs.extend(pair);
            }
            made = round + 1;
        }
        progress(Progress { what: "interference", done: 1, total: 1 });
        Ok((made < rounds).then(|| {
            format!(
                "only {made} of {rounds} rounds fit into {:.1} s; use a longer --duration or fewer conditions",
                self.machine.plan.duration_ns as f64 / 1e9
            )
        }))
    }

    /// Runs both blocks of a pair, in either order. Each makes as many calls beyond the minimum as
    /// fit into `extra_ns`. Returns `None` if the condition has ended.
    fn pair(
        &mut self,
        series: &mut Series,
        extra_ns: u64,
        trial: bool,
        shuffle: &mut Shuffle,
    ) -> Result<Option<Pair>> {
        self.group.look();
        if self.ended.contains(series.recipe) {
            return Ok(None);
        }
        let halves = shuffle.order(2);
        let mut measured = [Measured::default(), Measured::default()];
        let begun_ns = now_ns();
        for &half in &halves {
            match self.block(series, half == 1, extra_ns, trial) {
                Ok(block) => measured[half] = block,
                Err(error) if half == 1 => {
                    let (condition, recipe, _) = &self.recipes[series.recipe];
                    self.ended.end(series.recipe, (*condition, recipe), error)?;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        for writer in [series.beside.writer, series.beside.writer_beside] {
            self.writers[writer].is_on(&self.machine.writer_cpus)?;
        }
        let writing_ns: u64 = measured.iter().map(|one| one.elapsed_ns).sum();
        series.cost_ns = (now_ns() - begun_ns).saturating_sub(writing_ns);
        for (half, one) in measured.iter().enumerate() {
            series.call_ns[half] = one.elapsed_ns / u64::from(one.all_calls.max(1));
            series.cost_ns += series.call_ns[half] * u64::from(MIN_CALLS + self.warm_up);
        }
        let [alone, beside] = measured;
        Ok(Some(Pair { alone, beside, alone_first: halves[0] == 0 }))
    }

    /// Runs one block, with or without the condition.
    fn block(&mut self, series: &Series, is_beside: bool, extra_ns: u64, trial: bool) -> Result<Measured> {
        let Beside { writer, writer_beside, size_bytes, .. } = series.beside;
        let recipe = is_beside.then(|| &self.recipes[series.recipe].1);
        let (writer, call_ns) = match recipe {
            None => (&self.writers[writer], series.call_ns[0]),
            Some(_) => (&self.writers[writer_beside], series.call_ns[1]),
        };
        let calls = calls_in(extra_ns, call_ns);
        // Flushes what the previous block or a background load has left to write, so that this
        // block does not pay for it. Failures are ignored.
        let _ = syncfs(self.target);
        let presence = recipe.map(|recipe| self.machine.begin(recipe, writer.opened.pid)).transpose()?;
        let done = || presence.as_ref().map(Presence::done).unwrap_or_default();
        let block = Block { size_bytes, calls, warm_up: self.warm_up };
        let group = &mut *self.group;
        let mut measured = Measured { all_calls: calls + self.warm_up, ..Measured::default() };
        let mut write = || {
            let before = (
                counters::of_thread(writer.opened.tid)?,
                disk(&self.machine.root, self.machine.path),
                done(),
                now_ns(),
            );
            measured.calls = writer.write(group, block)?;
            measured.elapsed_ns = now_ns() - before.3;
            let first = self.machine.writer_cpus.first().copied().unwrap_or(0);
            let frequency = format!("sys/devices/system/cpu/cpu{first}/cpufreq/scaling_cur_freq");
            measured.frequency_khz = self.machine.root.number(frequency);
            let Done { count, cpu_ns } = done();
            let since = |later: Option<u64>, earlier: Option<u64>| Some(later?.saturating_sub(earlier?));
            measured.neighbour_count = since(count, before.2.count);
            measured.neighbour_cpu_ns = since(cpu_ns, before.2.cpu_ns);
            let disk = disk(&self.machine.root, self.machine.path);
            measured.requests = since(disk.map(|disk| disk.0), before.1.map(|disk| disk.0));
            measured.requests_ns = since(disk.map(|disk| disk.1), before.1.map(|disk| disk.1));
            let used = counters::of_thread(writer.opened.tid)?.since(&before.0);
            measured.run_delay_ns = used.run_delay_ns;
            measured.lost_cpu = used.involuntary_switches;
            Ok(())
        };
        measured.snapshot = match &mut self.recorder {
            // Events of the trial are not needed.
            Some(recorder) if !trial => recorder.record(write)?.1,
            _ => write().map(|()| None)?,
        };
        if let Some(presence) = presence {
            if !self.recipes[series.recipe].1.cpus().is_empty() {
                presence.is_in_place()?;
            }
            presence.end()?;
        }
        self.target.check()?;
        Ok(measured)
    }
}
