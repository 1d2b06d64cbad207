//! The run of a comparison: in each round every pair of blocks, alone and beside, one right behind the other, pairs and
//! halves in shuffled order. Must not know how a condition is brought about.

use rustix::fs::syncfs;

use super::means::{Done, Machine, Means, Presence};
use super::plan::{MIN_CALLS, calls_in};
use super::setting::restore_abandoned;
use super::{Beside, Condition, InterferencePlan, InterferenceResult, Measured, Pair};
use crate::clock::{self, now_ns};
use crate::counters::ThreadCounters;
use crate::error::{Error, Result};
use crate::floor::{Budget, Shuffle};
use crate::progress::Progress;
use crate::root::Root;
use crate::sched;
use crate::storage::recorder::BlockRecorder;
use crate::storage::run::{PATIENCE, possible, recorder, start_writers, way_down, without_polling};
use crate::storage::target::Target;
use crate::storage::writer::{Block, Writer};
use crate::storage::{Api, Position, StoragePath};
use crate::worker::{Spawner, WorkerGroup};

/// A pair of blocks, over all rounds.
struct Series {
    beside: Beside,
    means: usize,
    /// What a call took last, alone and beside, in nanoseconds.
    call_ns: [u64; 2],
}

/// Measures.
///
/// # Errors
/// [`Error::Plan`] for a plan that cannot be carried out, a file that cannot be made, or when nothing is left to compare
/// with; and everything that ends a [`WorkerGroup`], a neighbour's death too. The file is removed, and every setting put back,
/// in any case.
pub fn run(
    plan: &InterferencePlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress),
) -> Result<InterferenceResult> {
    plan.check()?;
    let root = Root::real();
    let mut notes: Vec<String> = restore_abandoned(&root)
        .into_iter()
        .map(|file| format!("{file} was put back: a run that was killed had left it changed"))
        .collect();
    let clock_read_cost_ns = clock::read_cost_ns();
    // Before the file is made, so that a signal finds somebody who removes it.
    let mut group = WorkerGroup::new(spawner.clone())?;
    let mut not_possible = Vec::new();
    let mut write = plan.write.clone();
    let cpus = sched::allowed_cpus(0)?;
    let writer_cpus = write.cpus.get_or_insert_with(|| cpus.first().copied().into_iter().collect()).clone();
    let mut apis = possible(&write, &mut not_possible)?;
    let mut target = Target::create(&write.file)?;
    notes.extend(target.notes());
    let path = way_down(&target)?;
    let file_bytes = if write.position == Position::Overwrite { write.file_bytes } else { 0 };
    without_polling(&mut apis, &path, &mut not_possible)?;
    target.fill(file_bytes)?;

    let claims = Default::default();
    let machine = Machine { root, plan, path: &path, writer_cpus, cpus, spawner: spawner.clone(), claims };
    let all = conditions(&machine, &mut not_possible)?;
    notes.extend(autogroup(&machine.root));
    let own_writers = apis.len() * write.durabilities.len();
    if all.iter().any(|(_, means, _)| matches!(means, Means::Polled)) {
        apis.extend([Api::Uring, Api::UringPolled]);
    }
    let (writers, results) = start_writers(&write, &apis, &mut group, &target, file_bytes)?;
    let mut recorder = recorder(&write, &results, &mut not_possible)?;

    let mut series = Vec::new();
    for (index, (condition, means, what)) in all.iter().enumerate() {
        let pairs: Vec<(usize, usize)> = match means {
            // The last writers: by interrupt and polled, one for each durability.
            Means::Polled => {
                let each = write.durabilities.len();
                (0..each).map(|at| (own_writers + at, own_writers + each + at)).collect()
            }
            _ => (0..own_writers).map(|writer| (writer, writer)).collect(),
        };
        for (writer, writer_beside) in pairs {
            for &size_bytes in &write.sizes_bytes {
                let beside = Beside {
                    condition: *condition,
                    what: what.clone(),
                    writer,
                    writer_beside,
                    size_bytes,
                    pairs: Vec::new(),
                };
                series.push(Series { beside, means: index, call_ns: [1_000_000; 2] });
            }
        }
    }
    // One round more: it shows how long calls take, and is not counted.
    let blocks = 2 * series.len() as u64 * (u64::from(plan.rounds) + 1);
    let mut run = Run {
        machine: &machine,
        group: &mut group,
        writers: &writers,
        recorder: recorder.as_mut(),
        target: &target,
        budget: Budget::of(plan.duration_ns, blocks),
        warm_up: write.warm_up,
    };
    let mut shuffle = Shuffle::new();
    for round in 0..=plan.rounds {
        for index in shuffle.order(series.len()) {
            progress(Progress { what: "interference", done: run.budget.done, total: blocks });
            let halves = shuffle.order(2);
            let mut measured = [Measured::default(), Measured::default()];
            for &half in &halves {
                let one = &series[index];
                let means = &all[one.means].1;
                measured[half] = run.block(one, (half == 1).then_some(means), round == 0)?;
                series[index].call_ns[half] =
                    measured[half].elapsed_ns / u64::from(measured[half].all_calls.max(1));
            }
            if round > 0 {
                let [alone, beside] = measured;
                series[index].beside.pairs.push(Pair { alone, beside, alone_first: halves[0] == 0 });
            }
        }
    }
    progress(Progress { what: "interference", done: blocks, total: blocks });
    group.finish(PATIENCE)?;
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
        notes,
        path,
    })
}

/// The control and every condition that this machine can bring about, with how, and in words; why not the others.
fn conditions(
    machine: &Machine<'_>,
    not_possible: &mut Vec<String>,
) -> Result<Vec<(Condition, Means, String)>> {
    let mut all = vec![(Condition::Alone, Means::Nothing, "the control: alone against alone".to_owned())];
    let mut reasons: Vec<String> = Vec::new();
    for condition in Condition::ALL.into_iter().filter(|one| machine.plan.conditions.contains(one)) {
        if condition == Condition::Alone {
            continue;
        }
        match machine.means(condition) {
            Ok((means, what)) => all.push((condition, means, what)),
            Err(reason) => {
                // Without governors that is said once, not of each.
                let same = condition.is_governor() && reasons.iter().any(|text| text.ends_with(&reason));
                if !same {
                    reasons.push(format!("{condition}: {reason}"));
                }
            }
        }
    }
    // The control alone is a measurement of nothing, unless it was asked for.
    if all.len() == 1 && !reasons.is_empty() && !machine.plan.conditions.contains(&Condition::Alone) {
        return Err(Error::Plan(reasons.join("; ")));
    }
    not_possible.append(&mut reasons);
    Ok(all)
}

/// Scheduler autogroups (sched(7)) divide the CPU among sessions before they divide it among processes.
fn autogroup(root: &Root) -> Option<String> {
    (root.number("proc/sys/kernel/sched_autogroup_enabled") == Some(1)).then(|| {
        "sched_autogroup_enabled is 1: these neighbours are of the writer's session and share its part of the CPU; one that \
         is started from another terminal disturbs in another way"
            .to_owned()
    })
}

struct Run<'a> {
    machine: &'a Machine<'a>,
    group: &'a mut WorkerGroup,
    writers: &'a [Writer],
    recorder: Option<&'a mut BlockRecorder>,
    target: &'a Target,
    budget: Budget,
    warm_up: u32,
}

impl Run<'_> {
    /// One block: alone, or by these means.
    fn block(&mut self, series: &Series, means: Option<&Means>, trial: bool) -> Result<Measured> {
        let Beside { writer, writer_beside, size_bytes, .. } = series.beside;
        let (writer, call_ns) = match means {
            None => (&self.writers[writer], series.call_ns[0]),
            Some(_) => (&self.writers[writer_beside], series.call_ns[1]),
        };
        let calls = if trial { MIN_CALLS } else { calls_in(self.budget.block_ns(), call_ns) };
        // What the block before, or a neighbour, has left to be written is not this block's. If it cannot be, so be it.
        let _ = syncfs(self.target);
        let presence = means.map(|means| self.machine.begin(means, writer.opened.pid)).transpose()?;
        let done = || presence.as_ref().map(Presence::done).unwrap_or_default();
        let block = Block { size_bytes, calls, warm_up: self.warm_up };
        let group = &mut *self.group;
        let mut measured = Measured { all_calls: calls + self.warm_up, ..Measured::default() };
        let mut write = || {
            let before = (
                ThreadCounters::read(writer.opened.tid)?,
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
            let used = ThreadCounters::read(writer.opened.tid)?.since(&before.0);
            measured.run_delay_ns = used.run_delay_ns;
            measured.lost_cpu = used.involuntary_switches;
            Ok(())
        };
        measured.snapshot = match &mut self.recorder {
            // The trial's events are of no use.
            Some(recorder) if !trial => recorder.record(write)?.1,
            _ => write().map(|()| None)?,
        };
        presence.map_or(Ok(()), Presence::end)?;
        self.target.check()?;
        self.budget.spend(measured.elapsed_ns);
        Ok(measured)
    }
}

/// Writes and flushes that the devices have completed since boot, and how long these took together, in nanoseconds
/// (Documentation/block/stat.rst).
fn disk(root: &Root, path: &StoragePath) -> Option<(u64, u64)> {
    let leaves = path.leaves();
    let each = leaves.iter().map(|device| {
        let (major, minor) = (device.dev >> 20, device.dev & 0xf_ffff);
        let text = root.read(format!("sys/dev/block/{major}:{minor}/stat"))?;
        let fields: Vec<u64> = text.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Flushes are counted from Linux 5.5 on.
        let flush = |at: usize| fields.get(at).copied().unwrap_or(0);
        Some((fields.get(4)? + flush(15), (fields.get(7)? + flush(16)) * 1_000_000))
    });
    each.reduce(|sum, one| Some((sum?.0 + one?.0, sum?.1 + one?.1))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fixture;
    use crate::storage::Device;

    #[test]
    fn devices_tell_their_writes_and_flushes_together() {
        let root = fixture(&[
            ("sys/dev/block/7:1/stat", "9 0 9 9 100 0 800 50 0 9 9 0 0 0 0 20 30\n"),
            ("sys/dev/block/7:2/stat", "9 0 9 9 1 0 8 2 0 9 9\n"),
        ]);
        let device = |minor: u32| Device { dev: 7 << 20 | minor, ..Device::default() };
        let top = Device { below: vec![device(1), device(2)], ..Device::default() };
        let path = StoragePath { device: Some(top), ..StoragePath::default() };
        assert_eq!(disk(&root, &path), Some((121, 82_000_000)));
        assert_eq!(disk(&root, &StoragePath::default()), None);
    }
}
