//! A storage measurement: blocks of each writer and size, in shuffled order. Must not know who
//! requested it, how the result is shown, nor how a call's time is divided.

use std::os::fd::AsFd as _;
use std::time::Duration;

use roundtrip_latency::Histogram;

use super::recorder::BlockRecorder;
use super::strace::{Strace, within};
use super::target::Target;
use super::writer::java;
use super::writer::{Block, Writer, WriterJob};
use crate::clock;
use crate::error::{Error, NotHere, Result};
use crate::kernel::root::Root;
use crate::progress::Progress;
use crate::schedule::shuffle::Shuffle;
use crate::worker::{Spawner, WorkerGroup, keep};
use roundtrip_run::storage::Opened;
use roundtrip_run::storage::StoragePath;
use roundtrip_run::storage::StoragePlan;
use roundtrip_run::storage::{Api, Call, Position};
use roundtrip_run::storage::{BlockResult, StorageResult, StorageSeries, StraceBlock, WriterResult};

/// How long writers may take to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the measurement.
///
/// # Errors
/// [`Error::Run`] for an invalid plan, [`Error::File`] and [`Error::NoRoom`] if the file cannot be
/// created or no writer is left, and every error that ends a [`WorkerGroup`]. The file is removed
/// in any case.
pub fn run(
    plan: &StoragePlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress),
) -> Result<StorageResult> {
    plan.check()?;
    let clock_read_cost_ns = clock::read_cost_ns();
    // Before the file is created, so that a signal does not end the process before it has removed
    // the file.
    let mut group = WorkerGroup::new(spawner.clone())?;
    let mut not_possible = Vec::new();
    let mut apis = possible(plan, &mut not_possible)?;
    if plan.strace {
        Strace::check()?;
    }
    let mut target = Target::create(&plan.file)?;
    let path = way_down(&target)?;
    without_polling(plan.all_apis, &mut apis, &path, &mut not_possible)?;
    let file_bytes = if plan.position == Position::Overwrite { plan.file_bytes } else { 0 };
    target.fill(file_bytes)?;

    let (writers, results) = start_writers(plan, &apis, &mut group, &target, file_bytes)?;
    let mut recorder = recorder(plan, &results, &mut not_possible)?;
    let mut series = empty_series(plan, writers.len());
    let mut storage =
        Rounds { plan, group: &mut group, target: &target, writers: &writers, results: &results };
    match storage.write(&mut series, recorder.as_mut(), progress) {
        Ok(()) => {
            group.finish(PATIENCE)?;
        }
        Err(error) => {
            let measured = |one: &StorageSeries| !one.blocks.is_empty();
            keep(error, series.iter().any(measured))?;
            series.retain(measured);
        }
    }
    let (recorder, recording_ended) = recorder.map_or((None, None), BlockRecorder::keep);
    Ok(StorageResult {
        plan: plan.clone(),
        path,
        clock_read_cost_ns,
        writers: results,
        series,
        recorder,
        recording_ended,
        not_possible,
        notes: target.notes(),
    })
}

/// A series for each writer and size, still without calls.
fn empty_series(plan: &StoragePlan, writers: usize) -> Vec<StorageSeries> {
    let series = (0..writers)
        .flat_map(|writer| plan.sizes_bytes.iter().map(move |&size_bytes| (writer, size_bytes)))
        .map(|(writer, size_bytes)| StorageSeries {
            writer,
            size_bytes,
            latency: Histogram::new(),
            blocks: Vec::new(),
            strace: Vec::new(),
        });
    series.collect()
}

/// Writes one block while strace is attached to the writer.
fn with_strace(writer: &Opened, write: impl FnOnce() -> Result<Vec<Call>>) -> Result<StraceBlock> {
    let strace = Strace::attach(writer.pid)?;
    let calls = write()?;
    let system_ns = within(&calls, &strace.detach(writer.tid)?);
    Ok(StraceBlock { calls, system_ns })
}

/// What a measurement's rounds need.
struct Rounds<'a> {
    plan: &'a StoragePlan,
    group: &'a mut WorkerGroup,
    target: &'a Target,
    writers: &'a [Writer],
    results: &'a [WriterResult],
}

impl Rounds<'_> {
    /// Writes all blocks of all series, in shuffled order.
    fn write(
        &mut self,
        series: &mut [StorageSeries],
        mut recorder: Option<&mut BlockRecorder>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        // In each round every series has one turn, and another under strace.
        let turns = series.len() * if self.plan.strace { 2 } else { 1 };
        let total = u64::from(self.plan.rounds) * turns as u64;
        let mut shuffle = Shuffle::new();
        for round in 0..self.plan.rounds {
            for (turn, index) in shuffle.order(turns).into_iter().enumerate() {
                let done = u64::from(round) * turns as u64 + turn as u64;
                progress(Progress { what: "storage", done, total });
                self.group.look();
                let under_strace = index >= series.len();
                let index = index % series.len();
                let one = &mut series[index];
                let block = Block {
                    size_bytes: one.size_bytes,
                    calls: self.plan.calls_in(round),
                    warm_up: self.plan.warm_up,
                };
                let mut write = || self.writers[one.writer].write(self.group, block);
                if under_strace {
                    let block = with_strace(&self.results[one.writer].opened, write)?;
                    self.target.check()?;
                    one.strace.push(block);
                    continue;
                }
                let (calls, snapshot) = match recorder.as_deref_mut() {
                    Some(recorder) => recorder.record(write)?,
                    None => (write()?, None),
                };
                self.target.check()?;
                calls.iter().for_each(|call| one.latency.record(call.latency_ns()));
                one.blocks.push(BlockResult { calls, snapshot });
            }
        }
        progress(Progress { what: "storage", done: total, total });
        Ok(())
    }
}

/// Starts a writer for each API and durability.
pub(super) fn start_writers(
    plan: &StoragePlan,
    apis: &[Api],
    group: &mut WorkerGroup,
    target: &Target,
    file_bytes: u64,
) -> Result<(Vec<Writer>, Vec<WriterResult>)> {
    let mut writers = Vec::new();
    let mut results = Vec::new();
    for &api in apis {
        for &durability in &plan.durabilities {
            let job = WriterJob {
                api,
                durability,
                position: plan.position,
                scheduling: plan.scheduling,
                cpus: plan.cpus.clone(),
                java: plan.java.clone(),
            };
            let writer = Writer::start(group, &job, target.as_fd(), file_bytes)?;
            results.push(WriterResult { api, durability, opened: writer.opened.clone() });
            writers.push(writer);
        }
    }
    Ok((writers, results))
}

/// The recorder that the plan requests, or why there is none.
pub(super) fn recorder(
    plan: &StoragePlan,
    writers: &[WriterResult],
    not_possible: &mut Vec<String>,
) -> Result<Option<BlockRecorder>> {
    let Some(directory) = &plan.record else { return Ok(None) };
    let tids: Vec<u32> = writers.iter().map(|writer| writer.opened.tid).collect();
    match BlockRecorder::open(directory, &tids, plan.events, plan.buffer_kilobytes) {
        Ok(recorder) => Ok(Some(recorder)),
        Err(Error::Trace(error)) if !matches!(error, roundtrip_tracefs::Error::File { .. }) => {
            not_possible.push(format!("layers below the application: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The writers that this machine supports, and why it does not support the others.
pub(super) fn possible(plan: &StoragePlan, not_possible: &mut Vec<String>) -> Result<Vec<Api>> {
    let java = java::exists(&plan.java);
    let (apis, without): (Vec<Api>, Vec<Api>) = plan.apis.iter().partition(|api| java || !api.is_java());
    if !without.is_empty() {
        let missing = NotHere::Writers { apis: without, why: java::missing(&plan.java).to_string() };
        if apis.is_empty() || plan.all_apis {
            return Err(missing.into());
        }
        not_possible.push(missing.to_string());
    }
    Ok(apis)
}

/// Removes the polling writer if the device cannot be polled. Some kernels would silently let it
/// wait for interrupts.
pub(super) fn without_polling(
    all: bool,
    apis: &mut Vec<Api>,
    path: &StoragePath,
    not_possible: &mut Vec<String>,
) -> Result<()> {
    let Some(why) = cannot_poll(path).filter(|_| apis.contains(&Api::UringPolled)) else { return Ok(()) };
    apis.retain(|&api| api != Api::UringPolled);
    let missing = NotHere::Writers { apis: vec![Api::UringPolled], why };
    if apis.is_empty() || all {
        return Err(missing.into());
    }
    not_possible.push(missing.to_string());
    Ok(())
}

/// Why completions of this file's writes cannot be polled; `None` if they can.
pub(super) fn cannot_poll(path: &StoragePath) -> Option<String> {
    let leaves = path.leaves();
    if leaves.is_empty() {
        return Some("no block device is known".into());
    }
    let without = leaves.iter().find(|device| device.io_poll != Some(true))?;
    Some(format!(
        "{} has no queue to poll: queue/io_poll is not 1; load its driver with poll_queues (nvme, \
         virtio_blk), if it supports polling",
        without.name
    ))
}

pub(super) fn way_down(target: &Target) -> Result<StoragePath> {
    let cannot = |cause: rustix::io::Errno| Error::file("stat", target.path(), cause);
    let dev = rustix::fs::fstat(target).map_err(cannot)?.st_dev;
    let path =
        std::fs::canonicalize(target.path()).map_err(|cause| Error::file("resolve", target.path(), cause))?;
    Ok(super::device::way_down(&Root::real(), &path, (rustix::fs::major(dev), rustix::fs::minor(dev))))
}
