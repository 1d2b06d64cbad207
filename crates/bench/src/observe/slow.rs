//! The slowest calls that missed their deadline, each with what the kernel recorded around it, up
//! to a limit.

use std::collections::HashSet;

use roundtrip_run::ipc::observe::SlowCall;
use roundtrip_run::storage::observe::SlowWrite;
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Recording, Snapshot};

use crate::directory::scratch::Folder;
use crate::recorder::HISTORY_NS;

/// A call with its times and its recording.
pub(super) trait Timed {
    fn start_ns(&self) -> u64;
    fn latency_ns(&self) -> u64;
    /// The number of its snapshot, if it was recorded.
    fn snapshot(&mut self) -> &mut Option<u32>;
    /// The place of the row that counts it.
    fn row(&mut self) -> &mut usize;
}

impl Timed for SlowCall {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn row(&mut self) -> &mut usize {
        &mut self.flow
    }

    fn latency_ns(&self) -> u64 {
        self.latency_ns()
    }

    fn snapshot(&mut self) -> &mut Option<u32> {
        &mut self.snapshot
    }
}

impl Timed for SlowWrite {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn row(&mut self) -> &mut usize {
        &mut self.row
    }

    fn latency_ns(&self) -> u64 {
        self.latency_ns()
    }

    fn snapshot(&mut self) -> &mut Option<u32> {
        &mut self.snapshot
    }
}

/// The slowest calls.
#[derive(Debug)]
pub(super) struct Slow<C> {
    limit: usize,
    recording: Recording,
    next: u32,
    kept: Vec<C>,
    /// The calls added since the last snapshot.
    fresh: Vec<C>,
    pub(super) over_limit: u64,
    pub(super) not_recorded: Option<String>,
}

impl<C: Timed> Slow<C> {
    pub(super) fn new(limit: u32, recording: Recording) -> Self {
        Self {
            limit: limit as usize,
            recording,
            next: 1,
            kept: Vec::new(),
            fresh: Vec::new(),
            over_limit: 0,
            not_recorded: None,
        }
    }

    /// Notes a call that missed its deadline.
    pub(super) fn add(&mut self, call: C) {
        self.fresh.push(call);
        // No more calls than the limit can be kept.
        if self.fresh.len() > self.limit.max(1) * 2 {
            self.shorten_fresh();
        }
    }

    fn shorten_fresh(&mut self) {
        self.fresh.small_sort_by_key(|call| std::cmp::Reverse(call.latency_ns()));
        self.over_limit += self.fresh.len().saturating_sub(self.limit) as u64;
        self.fresh.truncate(self.limit);
    }

    /// Keeps the slowest calls so far. The new ones share one snapshot. `snapshot` takes it of
    /// everything recorded since the given instant, in nanoseconds.
    pub(super) fn keep(&mut self, snapshot: impl FnOnce(u64) -> Snapshot) {
        if self.fresh.is_empty() {
            return;
        }
        self.shorten_fresh();
        let mut all: Vec<(bool, C)> = self.kept.drain(..).map(|call| (false, call)).collect();
        all.extend(self.fresh.drain(..).map(|call| (true, call)));
        all.small_sort_by_key(|(_, call)| std::cmp::Reverse(call.latency_ns()));
        let mut gone = all.split_off(all.len().min(self.limit));
        self.over_limit += gone.len() as u64;
        let used: HashSet<u32> = all.iter_mut().filter_map(|(_, call)| *call.snapshot()).collect();
        let unused: HashSet<u32> = gone.iter_mut().filter_map(|(_, call)| *call.snapshot()).collect();
        for &number in unused.difference(&used) {
            if let Err(error) = self.recording.remove(number) {
                self.give_up(&error);
            }
        }
        let first_ns = all.iter().filter(|(fresh, _)| *fresh).map(|(_, call)| call.start_ns()).min();
        let stored = first_ns.and_then(|first_ns| self.store(&snapshot(first_ns.saturating_sub(HISTORY_NS))));
        for (fresh, mut call) in all {
            if fresh {
                *call.snapshot() = stored;
            }
            self.kept.push(call);
        }
    }

    /// The rows have new places, by their places before.
    pub(super) fn moved(&mut self, places: &[usize]) {
        self.kept.iter_mut().chain(&mut self.fresh).for_each(|call| *call.row() = places[*call.row()]);
    }

    /// Stores a snapshot and returns its number.
    fn store(&mut self, snapshot: &Snapshot) -> Option<u32> {
        if self.not_recorded.is_some() {
            return None;
        }
        let number = self.next;
        match self.recording.put(number, snapshot) {
            Ok(()) => {
                self.next += 1;
                Some(number)
            }
            Err(error) => {
                self.give_up(&error);
                None
            }
        }
    }

    fn give_up(&mut self, error: &roundtrip_tracefs::Error) {
        self.not_recorded.get_or_insert(format!("recording ended: {error}"));
    }

    /// The kept calls, the slowest first; the number of calls beyond the limit; and why recording
    /// ended early, if it did. Keeps the recording's folder unless nothing was recorded.
    pub(super) fn finish(mut self, folder: &Folder) -> (Vec<C>, u64, Option<String>) {
        let is_recorded = self.kept.iter_mut().any(|call| call.snapshot().is_some());
        if is_recorded && let Err(error) = folder.keep() {
            self.kept.iter_mut().for_each(|call| *call.snapshot() = None);
            self.not_recorded.get_or_insert(format!("the recording is lost: {error}"));
        }
        (self.kept, self.over_limit, self.not_recorded)
    }
}
