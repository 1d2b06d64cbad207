//! The parent's side of slow calls: a run's recorder, the snapshot taken of each slow call, and
//! when the recording restarts. Must not know how calls are made, nor what the recordings show.

use std::fs::File;
use std::path::PathBuf;

use latency::Sample;
use tracefs::Recording;

use super::kept::{too_many, unkept};
use super::watch::{From, WatchJob};
use super::window::Window;
use crate::error::{Error, Result};
use crate::recorder::Recorder;
use crate::scratch::{Folder, Scratch};
use run::RecorderInfo;
use run::Scheduling;
use run::ipc::latency::{Amount, LatencyPlan};
use run::ipc::latency::{CALLS, CallsOf, ExplainPlan, Explained, Miss, RecordedCalls, Trigger};

/// How far a snapshot reaches back before its call, in nanoseconds, to show which threads ran
/// where.
const HISTORY_NS: u64 = 50_000_000;

/// The file in which clients find the recorded windows. It is outside the recording's folder,
/// because a run continues without a recording.
const WINDOWS: &str = "windows";

/// A client's slowest calls count as slow only after this many calls, or fewer in a short run.
const COMPARED_WITH: u64 = 100;

/// The recorder, and the slow calls kept so far.
pub(super) struct Flight {
    plan: ExplainPlan,
    deadline_ns: u64,
    compared_with: u64,
    tape: Option<Tape>,
    info: Option<RecorderInfo>,
    not_recorded: Option<String>,
    /// The slow calls that were kept.
    misses: Vec<Miss>,
    /// Start times of slow calls that have no recording, because the recording of another call was
    /// being collected.
    while_busy: Vec<u64>,
    /// The calls stored beside the snapshots, by caller.
    recorded: Vec<RecordedCalls>,
}

/// A running recorder, and the folder that it fills.
struct Tape {
    recorder: Recorder,
    recording: Recording,
    folder: Folder,
    /// Contains [`WINDOWS`].
    scratch: Scratch,
    /// When the recorder was last switched on with empty buffers.
    armed_ns: u64,
    next: u32,
    /// Whether recording has ended early.
    ended: bool,
    /// The last snapshot: its number, and the window that it covers completely.
    last: Option<(u32, Window)>,
    /// Snapshots whose calls are not stored yet.
    open: Vec<Open>,
}

/// A snapshot, and the calls in its window received so far.
struct Open {
    number: u32,
    window: Window,
    calls: Vec<CallsOf>,
}

impl Flight {
    /// Prepares for slow calls. If the kernel's trace cannot be used, the reason is kept, and slow
    /// calls are kept without a recording.
    ///
    /// # Errors
    /// [`Error::Trace`] if the recording's folder cannot be created.
    pub(super) fn prepare(plan: &ExplainPlan, of: &LatencyPlan) -> Result<Self> {
        let compared_with = match of.amount {
            // A short run has few calls to spare.
            Amount::Iterations(iterations) => (iterations / 10).min(COMPARED_WITH),
            Amount::DurationNs(_) => COMPARED_WITH,
        };
        let mut flight = Self {
            plan: plan.clone(),
            deadline_ns: of.deadline.ns,
            compared_with,
            tape: None,
            info: None,
            not_recorded: None,
            misses: Vec::new(),
            while_busy: Vec::new(),
            recorded: Vec::new(),
        };
        match Recorder::open(plan.kilobytes, plan.system_calls) {
            Ok(recorder) => {
                flight.info = Some(recorder.info());
                let folder = Folder::beside(&plan.directory)?;
                let header = recorder.instance.header();
                let recording = Recording::create(&folder.partial, header, recorder.tracefs.root())?;
                let above = plan.directory.parent().unwrap_or(&plan.directory);
                let scratch = Scratch::new().or_else(|_| Scratch::within(above))?;
                let windows = scratch.path().join(WINDOWS);
                File::create_new(&windows).map_err(|cause| Error::file("create", windows, cause))?;
                flight.tape = Some(Tape {
                    recorder,
                    recording,
                    folder,
                    scratch,
                    armed_ns: 0,
                    next: 1,
                    ended: false,
                    last: None,
                    open: Vec::new(),
                });
            }
            Err(error) => flight.not_recorded = Some(error.to_string()),
        }
        Ok(flight)
    }

    /// What clients need to know.
    pub(super) fn watch(&self) -> WatchJob {
        let from = match self.plan.trigger {
            Trigger::Deadline if self.plan.limit == 0 => From::Longer(u64::MAX),
            Trigger::Deadline => From::Longer(self.deadline_ns),
            Trigger::Slowest(count) => From::Slowest { count: count as usize, after: self.compared_with },
        };
        let switch = self.tape.as_ref().map(|tape| tape.recorder.instance.switch_path());
        WatchJob { switch, windows: self.tape.as_ref().map(Tape::windows), from }
    }

    /// Starts recording.
    ///
    /// # Errors
    /// [`Error::Trace`] if the kernel refuses.
    pub(super) fn begin(&mut self) -> Result<()> {
        let Some(tape) = &mut self.tape else { return Ok(()) };
        tape.armed_ns = tape.recorder.instance.on()?;
        Ok(())
    }

    /// Keeps a slow call if it ranks high enough, and restarts the recorder. `stopped` is when the
    /// client had stopped the recorder, in nanoseconds, or why it could not. Returns the new
    /// threshold for slow calls, in nanoseconds.
    ///
    /// # Errors
    /// [`Error::Trace`] if the kernel refuses to restart.
    pub(super) fn slow(&mut self, mut miss: Miss, stopped: std::result::Result<u64, String>) -> Result<u64> {
        let (start_ns, end_ns) = (miss.sample.start_ns, miss.sample.end_ns);
        let whole = |(_, window): &(u32, Window)| window.from_ns <= start_ns && end_ns <= window.to_ns;
        let last = self.tape.as_ref().and_then(|tape| tape.last).filter(whole);
        let begun = self.tape.as_ref().is_some_and(|tape| !tape.ended && tape.armed_ns <= start_ns);
        let kept = self.keeps(&miss, last.is_some() || begun);
        match (self.tape.as_mut().filter(|tape| !tape.ended), stopped) {
            (Some(_), Err(cause)) => self.give_up(format!("the recorder could not be stopped: {cause}")),
            (Some(tape), Ok(stopped_ns)) => {
                if let Some((number, _)) = last {
                    // Another client's slow call stopped the recorder just before.
                    miss.snapshot = Some(number);
                    tape.restart()?;
                } else if !begun {
                    self.while_busy.extend(kept.then_some(start_ns));
                    tape.restart()?;
                } else if kept {
                    match tape.take(start_ns, stopped_ns) {
                        Ok(number) => miss.snapshot = Some(number),
                        Err(error) => self.give_up(format!("recording ended: {error}")),
                    }
                } else {
                    tape.restart()?;
                }
            }
            (None, _) => {}
        }
        if kept {
            self.misses.push(miss);
            self.drop_last();
        }
        Ok(self.threshold_ns())
    }

    /// The rank of a slow call: of two, the slower one is kept. Of calls that miss a deadline,
    /// recorded ones come first, because the others can hardly be explained.
    fn rank(&self, miss: &Miss, recorded: bool) -> (bool, u64) {
        let alike = self.info.is_none() || self.plan.trigger != Trigger::Deadline;
        (recorded || alike, miss.sample.latency_ns())
    }

    /// The rank of the call that a slower one would replace; `None` while there is room.
    fn last_rank(&self) -> Option<(bool, u64)> {
        let mut ranks: Vec<_> =
            self.misses.iter().map(|miss| self.rank(miss, miss.snapshot.is_some())).collect();
        ranks.sort_unstable();
        let last = ranks.len().checked_sub(self.plan.most())?;
        Some(ranks.get(last).copied().unwrap_or((true, u64::MAX)))
    }

    /// Whether to keep a slow call.
    fn keeps(&self, miss: &Miss, recorded: bool) -> bool {
        self.last_rank().is_none_or(|last| self.rank(miss, recorded) > last)
    }

    /// The latency above which a call is slow for any client, in nanoseconds.
    fn threshold_ns(&self) -> u64 {
        match (self.last_rank(), self.plan.trigger) {
            (Some((true, latency_ns)), _) => latency_ns,
            (_, Trigger::Deadline) => self.deadline_ns,
            (_, Trigger::Slowest(_)) => 0,
        }
    }

    /// Drops the calls that exceed the plan's limit.
    fn drop_last(&mut self) {
        let ranked = self.misses.iter().map(|miss| {
            let recorded = miss.snapshot.is_some();
            (self.rank(miss, recorded), recorded)
        });
        for index in too_many(&ranked.collect::<Vec<_>>(), self.plan.most()) {
            let dropped = self.misses.remove(index);
            let shared = self.misses.iter().any(|miss| miss.snapshot == dropped.snapshot);
            if let (Some(tape), Some(number), false) = (&mut self.tape, dropped.snapshot, shared) {
                let removed = tape.recording.remove(number);
                tape.last = tape.last.filter(|last| last.0 != number);
                tape.open.retain(|open| open.number != number);
                self.recorded.retain(|of| of.snapshot != number);
                if let Err(error) = removed {
                    self.give_up(format!("recording ended: {error}"));
                }
            }
        }
    }

    /// Whether there are snapshots whose calls are not stored yet.
    pub(super) fn wants_calls(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| !tape.open.is_empty())
    }

    /// Adds one caller's calls that lie in these snapshots. `complete` says whether these are all.
    pub(super) fn recorded(
        &mut self,
        series: usize,
        pair: usize,
        caller: Scheduling,
        complete: bool,
        samples: &[Sample],
    ) {
        for Open { number, window, calls } in self.tape.iter_mut().flat_map(|tape| &mut tape.open) {
            let within: Vec<Sample> = samples.iter().copied().filter(|sample| window.holds(sample)).collect();
            if !within.is_empty() || !complete {
                let (snapshot, count) = (*number, within.len() as u64);
                calls
                    .push((RecordedCalls { snapshot, series, pair, caller, calls: count, complete }, within));
            }
        }
    }

    /// Stores the collected calls. If there is no space for them, recording ends.
    pub(super) fn store_calls(&mut self) {
        let Some(tape) = &mut self.tape else { return };
        for Open { number, mut calls, .. } in std::mem::take(&mut tape.open) {
            // Clients may answer in any order.
            calls.sort_by_key(|(of, _)| (of.series, of.pair));
            let bytes: Vec<u8> = calls.iter().flat_map(|(_, calls)| Sample::encode_all(calls)).collect();
            if let Err(error) = tape.recording.put_beside(number, CALLS, &bytes) {
                self.give_up(format!("recording ended: {error}"));
                return;
            }
            self.recorded.extend(calls.into_iter().map(|(of, _)| of));
        }
    }

    /// Continues without the recorder. What was recorded stays.
    fn give_up(&mut self, why: String) {
        self.not_recorded.get_or_insert(why);
        // An error does not matter: the recorder is not used again, and dropping it switches it
        // off.
        let _ = self.end();
    }

    /// Stops recording. What was recorded stays.
    fn end(&mut self) -> Result<()> {
        if let Some(tape) = self.tape.as_mut().filter(|tape| !tape.ended) {
            tape.ended = true;
            tape.recorder.instance.off()?;
        }
        Ok(())
    }

    /// Ends recording. `missed` is the number of calls that missed the deadline, `slowest_ns` the
    /// latencies of each client's slowest calls. If the recording cannot be moved into place, only
    /// the recording is lost.
    pub(super) fn finish(self, missed: u64, slowest_ns: Vec<Vec<u64>>) -> Explained {
        let Self { plan, tape, info, mut not_recorded, mut misses, while_busy, mut recorded, .. } = self;
        // Slower calls may have replaced some of them since.
        let while_busy =
            misses.iter().filter(|miss| while_busy.contains(&miss.sample.start_ns)).count() as u64;
        if let Some(Tape { recorder, folder, .. }) = tape {
            drop(recorder);
            // An empty recording is of no use.
            if misses.iter().any(|miss| miss.snapshot.is_some())
                && let Err(error) = folder.keep()
            {
                misses.iter_mut().for_each(|miss| miss.snapshot = None);
                recorded.clear();
                not_recorded.get_or_insert(format!("the recording is lost: {error}"));
            }
        }
        misses.sort_by_key(|miss| miss.sample.start_ns);
        let kept = misses.len() as u64;
        let (over_limit, before_comparison) = match plan.trigger {
            Trigger::Deadline => (missed.saturating_sub(kept), 0),
            Trigger::Slowest(count) => (0, unkept(slowest_ns, count as usize, &misses)),
        };
        Explained {
            recorder: info,
            not_recorded,
            misses,
            over_limit,
            while_busy,
            recorded,
            before_comparison,
        }
    }
}

impl Tape {
    /// The file in which clients read the recorded windows.
    fn windows(&self) -> PathBuf {
        self.scratch.path().join(WINDOWS)
    }

    /// Takes a snapshot of the time before a call, and restarts the recorder.
    fn take(&mut self, start_ns: u64, stopped_ns: u64) -> Result<u32> {
        let instance = &self.recorder.instance;
        let mut snapshot = instance.snapshot(self.armed_ns, stopped_ns)?;
        snapshot.keep_from(start_ns.saturating_sub(HISTORY_NS), instance.page_bytes());
        let (number, from_ns) = (self.next, snapshot.started_ns.unwrap_or(stopped_ns));
        self.recording.put(number, &snapshot)?;
        self.next += 1;
        let window = Window { from_ns, to_ns: stopped_ns };
        window.note(&self.windows())?;
        self.last = Some((number, window));
        self.open.push(Open { number, window, calls: Vec::new() });
        // Taking the snapshot has emptied the buffers.
        self.armed_ns = instance.on()?;
        Ok(number)
    }

    /// Restarts with empty buffers. Otherwise the recording would have a gap: the time during which
    /// the recorder was stopped.
    fn restart(&mut self) -> tracefs::Result<()> {
        self.recorder.instance.off()?;
        self.recorder.instance.clear()?;
        self.armed_ns = self.recorder.instance.on()?;
        Ok(())
    }
}
