//! Observes other programs' synchronous writes as they happen. The caller supplies the code that
//! divides them among the layers: this file knows no layers.

use roundtrip_observed::writes::{Asked, FileId, Matcher, Observed, Operation};
use roundtrip_run::Causes;
use roundtrip_run::storage::Device;
use roundtrip_run::storage::observe::{
    Counted, Divided, Durable, ObserveWritesPlan, ObserveWritesResult, RowKey, Rows, SlowWrite, UnseenWrites,
};
use roundtrip_tracefs::Trace;

use super::files::{self, Files, Opened};
use super::processes::is_of_kernel;
use super::slow::Slow;
use super::together::Together;
use super::watch::{self, Watch, Watched};
use crate::error::Result;
use crate::kernel::root::Root;
use crate::progress::Progress;
use crate::recorder::selection;
use crate::storage::disks;
use crate::worker::Interrupts;

/// A completed write and the row that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The place of the row, until [`Divide::moved`] is told another one.
    pub row: usize,
    /// Entry into the kernel, in nanoseconds of CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// Return from the kernel, in nanoseconds of CLOCK_BOOTTIME.
    pub end_ns: u64,
    /// The thread that made it.
    pub tid: u32,
}

/// Divides writes among the layers.
pub trait Divide {
    /// Divides these writes. The trace covers them and some time before.
    fn divide(&mut self, trace: &Trace, devices: &[Device], writes: &[Ended]);

    /// The rows have new places, by their places before. Those with the same place are merged.
    fn moved(&mut self, places: &[usize]);

    /// The totals of each row; `None` for a row without divided writes.
    fn finish(&mut self) -> Vec<Option<Divided>>;

    /// What delayed the writes that missed the deadline.
    fn causes(&mut self) -> Causes;
}

/// Observes until the plan's time is up, its command has ended, or a signal arrives.
///
/// # Errors
/// [`Error::Trace`](crate::Error::Trace) where this process may not record, or the kernel lacks an
/// event; [`Error::System`](crate::Error::System) when the command cannot be started.
pub fn run(
    plan: &ObserveWritesPlan,
    divide: &mut dyn Divide,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<ObserveWritesResult> {
    let interrupts = Interrupts::watch()?;
    let machine = std::env::consts::ARCH;
    let calls = roundtrip_observed::writes::system_calls(machine);
    let (mut watch, recording) = Watch::open(&plan.directory, plan.kilobytes, |tracefs| {
        selection::writes_of_others(&calls, std::process::id(), |event| tracefs.has_event(event))
    })?;
    let mut observer = Observer {
        plan,
        file: plan.file.as_deref().and_then(files::id_of),
        file_below: None,
        matcher: Matcher::new(machine, roundtrip_observed::MAX_IN_FLIGHT).with_other_calls(),
        devices: disks(&Root::real()),
        files: Files::default(),
        rows: Rows::default(),
        slow: Slow::new(plan.limit, recording),
        divide,
        undivided: Together::new(),
    };
    let watched = Watched { subject: &plan.subject, duration_ns: plan.duration_ns, what: "observing writes" };
    let elapsed_ns = watch.run(interrupts, &watched, &mut observer, report)?;
    observer.divide(&watch)?;
    Ok(observer.finish(elapsed_ns, &watch))
}

struct Observer<'a> {
    plan: &'a ObserveWritesPlan,
    /// The only file whose writes count.
    file: Option<FileId>,
    /// The same file on the file system below, as events identify it; `None` until it is known.
    file_below: Option<FileId>,
    matcher: Matcher,
    devices: Vec<Device>,
    files: Files,
    rows: Rows,
    slow: Slow<SlowWrite>,
    divide: &'a mut dyn Divide,
    /// Completed writes that are not divided yet.
    undivided: Together<Ended>,
}

impl watch::Observer for Observer<'_> {
    fn round(&mut self, watch: &mut Watch, trace: &Trace) -> Result<()> {
        self.matcher.lost(&trace.losses);
        let mut ended = Vec::new();
        for event in &trace.events {
            self.matcher.add(trace, event, &mut |observed| ended.push(observed));
        }
        self.files.next_round();
        // A file that is still open shows the name of its directory. This also names files in it
        // that have been closed since.
        for (write, descriptor) in ended.iter().filter_map(|write| Some((write, write.descriptor?))) {
            if watch.process_is_observed(&self.plan.subject, write.tid) {
                self.files.opened(write.tid, descriptor);
            }
        }
        for observed in ended {
            self.count(&observed, watch);
        }
        let is_full = self.rows.is_full();
        if self.undivided.is_due(watch.taken_bytes) || is_full {
            self.divide(watch)?;
        }
        self.slow.keep(|from_ns| watch.snapshot(from_ns));
        if is_full {
            let places = self.rows.shrink();
            self.divide.moved(&places);
            self.slow.moved(&places);
        }
        Ok(())
    }
}

impl Observer<'_> {
    fn count(&mut self, write: &Observed, watch: &mut Watch) {
        if !watch.process_is_observed(&self.plan.subject, write.tid) {
            return;
        }
        let process = watch.process_of(write.tid);
        if write.operation == Operation::FileSync && is_of_kernel(process.pid) {
            // What it does for others is a part of their writes.
            return;
        }
        let opened = write.descriptor.and_then(|descriptor| self.files.opened(write.tid, descriptor));
        let Some(durable) = durable(write, opened.as_ref()) else { return };
        let id = write.file.or_else(|| opened.as_ref().and_then(|opened| opened.id));
        if let Some(file) = write.file.filter(|_| write.descriptor.is_none()) {
            self.files.seek(write.tid, file);
        }
        // The descriptor may have been reused since.
        let same = opened.filter(|opened| write.file.is_none_or(|file| opened.is(file)));
        if let Some((file, same)) =
            write.file.zip(same.as_ref()).filter(|(file, same)| same.id != Some(*file))
        {
            self.files.learn(file, &same.path);
            if self.file.is_some() && same.id == self.file {
                self.file_below = Some(file);
            }
        }
        if self.plan.file.is_some() && (id.is_none() || ![self.file, self.file_below].contains(&id)) {
            return;
        }
        let file =
            same.map(|opened| opened.path).or_else(|| id.map(|id| self.files.name(id, write.directory)));
        let key = RowKey {
            process,
            tid: write.tid,
            call: write.operation.name(),
            durable,
            file: file.unwrap_or_default(),
        };
        let processes = &watch.processes;
        let thread = || processes.title(write.tid);
        let counted = Counted {
            latency_ns: write.latency_ns(),
            result: write.result,
            writes: write.operation.writes(),
            throttled: write.throttled,
        };
        let row = self.rows.add(key, thread, counted, self.plan.deadline);
        let Observed { tid, start_ns, end_ns, .. } = *write;
        self.undivided.add(start_ns, Ended { row, start_ns, end_ns, tid });
        if write.latency_ns() > self.plan.deadline.ns {
            self.slow.add(SlowWrite { row, tid, start_ns, end_ns, snapshot: None });
        }
    }

    /// Divides the writes completed since the last time.
    fn divide(&mut self, watch: &Watch) -> Result<()> {
        let Some((from_ns, ended)) = self.undivided.take() else { return Ok(()) };
        let deadline_ns = self.plan.deadline.ns;
        // Only the causes of slow writes name processes.
        let named = ended.iter().any(|ended| ended.end_ns - ended.start_ns > deadline_ns);
        self.divide.divide(&watch.window(from_ns, named)?, &self.devices, &ended);
        Ok(())
    }

    fn finish(self, elapsed_ns: u64, watch: &Watch) -> ObserveWritesResult {
        let Observer { plan, matcher, devices, rows, mut slow, divide, .. } = self;
        let unmatched = matcher.unmatched();
        let unseen = UnseenWrites {
            lost_events: watch.lost_events,
            begun_before: unmatched.begun_before,
            not_ended: unmatched.not_ended,
            forgotten: unmatched.forgotten,
        };
        let (mut rows, places) = rows.finish();
        divide.moved(&places);
        rows.iter_mut().zip(divide.finish()).for_each(|(row, divided)| row.divided = divided);
        let causes = Some(divide.causes());
        slow.moved(&places);
        let (slow_writes, over_limit, not_recorded) = slow.finish(&watch.folder);
        ObserveWritesResult {
            plan: plan.clone(),
            elapsed_ns,
            devices,
            rows,
            slow_writes,
            over_limit,
            causes,
            unseen,
            recorder: watch.recorder.info(),
            not_recorded: watch.changed.clone().or(not_recorded),
        }
    }
}

/// Why a write waited for a device; `None` if it did not, as far as can be told.
fn durable(write: &Observed, opened: Option<&Opened>) -> Option<Durable> {
    match write.asked {
        Asked::Call => Some(Durable::Call),
        Asked::Flag => Some(Durable::Flag),
        Asked::Unknown if opened.is_some_and(|opened| opened.durable) => Some(Durable::Flag),
        // The write completes once its data is in the page cache; nothing waits for the device.
        // Only of a direct one is it unknown, if the file has been closed since or is registered
        // with the ring.
        Asked::Unknown if write.operation == Operation::UringWrite => {
            (opened.is_none() && write.queued).then_some(Durable::Unknown)
        }
        // The kernel throttles only writes that go to a device. So this one does, even if its file
        // has been closed since.
        Asked::Unknown if write.throttled => Some(Durable::No),
        Asked::Unknown => opened.is_some_and(|opened| opened.stored).then_some(Durable::No),
    }
}
