//! The parent's side of slow calls: a run's recorder, the snapshot taken of each slow call, and
//! when the recording restarts. Must not know how calls are made, nor what the recordings show.

mod calls;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::kept::{too_many, unkept};
use super::messages::Stop;
use super::stops::{Stops, Unexplained};
use super::tape::Tape;
use super::watch::{From, WatchJob};
use super::window::Window;
use crate::error::Result;
use crate::recorder::{Recorder, without_events};
use roundtrip_run::RecorderInfo;
use roundtrip_run::ipc::latency::{Amount, LatencyPlan};
use roundtrip_run::ipc::latency::{ExplainPlan, Explained, Miss, RecordedCalls, Trigger};
use roundtrip_sorting::SmallSort as _;

/// A client's slowest calls count as slow only after this many calls, or fewer in a short run.
const COMPARED_WITH: u64 = 100;

/// The most slow calls beyond the plan's limit whose recordings are stored until the run ends.
const MAX_SPARE: usize = 500;

/// The most bytes of those recordings.
const MAX_SPARE_BYTES: u64 = 128 << 20;

/// The longest time that storing those recordings may take in a run. Their clients wait meanwhile.
const MAX_SPARE_TIME: Duration = Duration::from_secs(5);

/// If clients wait for this share of a run or more while recordings are stored, the run warns.
const MUCH_STORING: f64 = 0.1;

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
    /// Slow calls beyond the plan's limit, which are recorded only until the run ends.
    spare: Vec<Miss>,
    /// Whether there is no more space for them.
    spare_is_full: bool,
    /// How long it took to store recordings.
    stored_for: Duration,
    /// How much of it while there were more calls than the plan's limit.
    spare_time: Duration,
    /// Start times of slow calls that have no recording, because the recording of another call was
    /// being collected.
    while_busy: Vec<u64>,
    /// The calls stored beside the snapshots, by caller.
    recorded: Vec<RecordedCalls>,
    /// How the recorder was stopped in this turn.
    stops: Stops,
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
            spare: Vec::new(),
            spare_is_full: false,
            stored_for: Duration::ZERO,
            spare_time: Duration::ZERO,
            while_busy: Vec::new(),
            recorded: Vec::new(),
            stops: Stops::default(),
        };
        match Recorder::open(plan.kilobytes, plan.system_calls) {
            Ok(recorder) => {
                flight.info = Some(recorder.info());
                flight.tape = Some(Tape::new(recorder, plan)?);
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
        tape.armed_ns = tape.recorder.instance.on_marked()?;
        Ok(())
    }

    /// Keeps a slow call if it ranks high enough, and restarts the recorder. `stopped` is how the
    /// client stopped the recorder, or why it could not. Returns the new threshold for slow calls,
    /// in nanoseconds.
    ///
    /// # Errors
    /// [`Error::Trace`] if the kernel refuses to restart.
    pub(super) fn slow(&mut self, mut miss: Miss, stopped: std::result::Result<Stop, String>) -> Result<u64> {
        let (start_ns, end_ns) = (miss.sample.start_ns, miss.sample.end_ns);
        let whole = |(_, window): &(u32, Window)| window.from_ns <= start_ns && end_ns <= window.to_ns;
        let last = self.tape.as_ref().and_then(|tape| tape.last).filter(whole);
        let armed_ns = self.tape.as_ref().filter(|tape| !tape.ended).map(|tape| tape.armed_ns);
        let begun = armed_ns.is_some_and(|armed_ns| armed_ns <= start_ns);
        let stop = stopped.as_ref().ok().copied();
        let kept = self.keeps(&miss, last.is_some() || begun);
        let spare = !kept && self.has_room();
        match (self.tape.as_mut().filter(|tape| !tape.ended), stopped) {
            (Some(_), Err(cause)) => self.give_up(format!("the recorder could not be stopped: {cause}")),
            (Some(tape), Ok(Stop { at_ns, .. })) => {
                if let Some((number, _)) = last {
                    // Another client's slow call stopped the recorder just before.
                    miss.snapshot = Some(number);
                    tape.restart()?;
                } else if !begun {
                    self.while_busy.extend(kept.then_some(start_ns));
                    tape.restart()?;
                } else if kept || spare {
                    match self.take(start_ns, at_ns) {
                        Ok(number) => miss.snapshot = number,
                        Err(error) => self.give_up(format!("recording ended: {error}")),
                    }
                } else {
                    tape.restart()?;
                }
            }
            (None, _) => {}
        }
        if let Some((stop, armed_ns)) = stop.zip(armed_ns) {
            self.stops.add(stop, end_ns, armed_ns, miss.snapshot);
        }
        if kept {
            self.misses.push(miss);
            self.drop_last();
        } else if spare {
            self.spare.push(miss);
        }
        Ok(self.threshold_ns())
    }

    /// Takes a snapshot of the time before a call, and restarts the recorder. If there is no space
    /// for it, the recordings of spare calls make room.
    fn take(&mut self, start_ns: u64, stopped_ns: u64) -> Result<Option<u32>> {
        let begin = Instant::now();
        let taken = self.take_snapshot(start_ns, stopped_ns);
        let took = begin.elapsed();
        self.stored_for += took;
        if self.misses.len() >= self.plan.most() {
            self.spare_time += took;
            self.spare_is_full |= self.spare_time >= MAX_SPARE_TIME;
        }
        taken
    }

    fn take_snapshot(&mut self, start_ns: u64, stopped_ns: u64) -> Result<Option<u32>> {
        let Some(tape) = &mut self.tape else { return Ok(None) };
        let snapshot = tape.collect(start_ns, stopped_ns)?;
        if let Some(what) = tape.recorder.changed(false) {
            self.give_up(format!("recording ended: {what}"));
            return Ok(None);
        }
        let stored = tape.store(&snapshot, stopped_ns);
        if stored.is_ok() || !self.give_back() {
            return stored.map(Some);
        }
        self.tape.as_mut().map(|tape| tape.store(&snapshot, stopped_ns)).transpose()
    }

    /// The snapshots that only spare calls have.
    fn spare_snapshots(&self) -> BTreeSet<u32> {
        let of = |misses: &[Miss]| misses.iter().filter_map(|miss| miss.snapshot).collect::<BTreeSet<_>>();
        &of(&self.spare) - &of(&self.misses)
    }

    /// Whether one more spare call can be recorded.
    fn has_room(&self) -> bool {
        let Some(tape) = self.tape.as_ref().filter(|tape| !tape.ended && !self.spare_is_full) else {
            return false;
        };
        let bytes = self.spare_snapshots().iter().filter_map(|number| tape.bytes.get(number)).sum::<u64>();
        self.plan.trigger == Trigger::Deadline && self.spare.len() < MAX_SPARE && bytes < MAX_SPARE_BYTES
    }

    /// Removes the recordings of all spare calls, and keeps no others. Returns whether there were
    /// any.
    fn give_back(&mut self) -> bool {
        let snapshots = self.spare_snapshots();
        self.spare.clear();
        self.spare_is_full = true;
        let Some(tape) = &mut self.tape else { return false };
        // What cannot be removed takes space, but harms nothing else.
        snapshots.iter().for_each(|&number| drop(tape.remove(number)));
        self.recorded.retain(|of| !snapshots.contains(&of.snapshot));
        !snapshots.is_empty()
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
            (Some(_), Trigger::Deadline) if self.has_room() => self.deadline_ns,
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
            let number = dropped.snapshot;
            if self.has_room() {
                self.spare.push(dropped);
                continue;
            }
            let shared = self.misses.iter().chain(&self.spare).any(|miss| miss.snapshot == number);
            if let (Some(tape), Some(number), false) = (&mut self.tape, number, shared) {
                let removed = tape.remove(number);
                self.recorded.retain(|of| of.snapshot != number);
                if let Err(error) = removed {
                    self.give_up(format!("recording ended: {error}"));
                }
            }
        }
    }

    /// Ends recording if another program has disturbed the recorder since the last turn. To be
    /// called while no client makes calls, so that the recorder is on.
    pub(super) fn check(&mut self) {
        let stopped = self.stops.take();
        let Some(tape) = self.tape.as_ref().filter(|tape| !tape.ended) else { return };
        let changed = match stopped.first() {
            Some(&Unexplained { on_ns, off_ns, .. }) => {
                Some(without_events("another program changed tracing_on of this recording", [on_ns, off_ns]))
            }
            None => tape.recorder.changed(true),
        };
        if let Some(changed) = changed {
            // These do not contain what they seem to.
            stopped.iter().filter_map(|stop| stop.snapshot).for_each(|number| self.forget(number));
            self.give_up(format!("recording ended: {changed}"));
        }
    }

    /// Removes a snapshot. Its calls are kept without a recording.
    fn forget(&mut self, number: u32) {
        let of = |miss: &&mut Miss| miss.snapshot == Some(number);
        self.misses.iter_mut().chain(&mut self.spare).filter(of).for_each(|miss| miss.snapshot = None);
        self.recorded.retain(|of| of.snapshot != number);
        // What cannot be removed takes space, but harms nothing else.
        self.tape.iter_mut().for_each(|tape| drop(tape.remove(number)));
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

    /// A warning if clients waited for much of a run of this length. Periodic causes go on during a
    /// wait, so they delay a larger share of the calls that are made.
    pub(super) fn waited(&self, elapsed: Duration) -> Option<String> {
        (self.stored_for.as_secs_f64() >= elapsed.as_secs_f64() * MUCH_STORING).then(|| {
            format!(
                "clients waited for {:.1} of {:.1} s while recordings of their slow calls were stored: causes that \
                 come at regular intervals delayed a larger share of the calls than without recordings",
                self.stored_for.as_secs_f64(),
                elapsed.as_secs_f64(),
            )
        })
    }

    /// Ends recording. `missed` is the number of calls that missed the deadline, `slowest_ns` the
    /// latencies of each client's slowest calls. If the recording cannot be moved into place, only
    /// the recording is lost.
    pub(super) fn finish(self, missed: u64, slowest_ns: Vec<Vec<u64>>) -> Explained {
        let temporary = self.spare_snapshots();
        let Self {
            plan, tape, info, mut not_recorded, mut misses, mut spare, while_busy, mut recorded, ..
        } = self;
        recorded.retain(|of| !temporary.contains(&of.snapshot));
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
                spare.clear();
                not_recorded.get_or_insert(format!("the recording is lost: {error}"));
            }
        }
        misses.small_sort_by_key(|miss| miss.sample.start_ns);
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
            causes_of_others: None,
            others: spare,
            while_busy,
            recorded,
            before_comparison,
        }
    }
}
