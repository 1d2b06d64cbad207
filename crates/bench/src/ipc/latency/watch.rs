//! Decides in a client which calls are slow, and stops the recorder at once after such a call. Must
//! not know what is recorded, nor what it is used for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::messages::Stop;
use super::window::Windows;
use crate::clock::now_ns;
use crate::error::{Error, Result};

/// What a client needs to detect slow calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WatchJob {
    /// The recorder's `tracing_on`; `None` without a recorder.
    pub(super) switch: Option<PathBuf>,
    /// The file in which the parent notes the recorded windows; `None` without a recorder.
    pub(super) windows: Option<PathBuf>,
    pub(super) from: From,
}

/// When a call counts as slow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum From {
    /// If it takes longer than this, in nanoseconds.
    Longer(u64),
    /// If it is among the `count` slowest, once `after` calls were made.
    Slowest { count: usize, after: u64 },
}

/// Shared by all callers of a client.
#[derive(Debug)]
pub(super) struct Watch {
    switch: Option<File>,
    windows: Option<Windows>,
    /// The latency above which calls are slow, in nanoseconds.
    threshold_ns: AtomicU64,
    slowest: Option<Mutex<Slowest>>,
}

impl Watch {
    pub(super) fn open(job: &WatchJob) -> Result<Self> {
        let open = |path: &PathBuf| {
            File::options()
                .read(true)
                .write(true)
                .open(path)
                .map_err(|cause| Error::file("open", path, cause))
        };
        let switch = job.switch.as_ref().map(open).transpose()?;
        let windows = job.windows.as_deref().map(Windows::open).transpose()?;
        Ok(match job.from {
            From::Longer(ns) => Self { switch, windows, threshold_ns: AtomicU64::new(ns), slowest: None },
            From::Slowest { count, after } => {
                let slowest =
                    Slowest { count, after, seen: 0, latencies_ns: BinaryHeap::new(), at_least_ns: 0 };
                let threshold_ns = AtomicU64::new(slowest.threshold_ns());
                Self { switch, windows, threshold_ns, slowest: Some(Mutex::new(slowest)) }
            }
        })
    }

    /// The recorded windows, if there is a recorder.
    pub(super) fn windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }

    /// Whether a call was slow.
    pub(super) fn slow(&self, latency_ns: u64) -> bool {
        latency_ns > self.threshold_ns.load(Ordering::Relaxed)
    }

    /// Stops the recorder: one write of one byte, after a look at whether it is on.
    pub(super) fn stop(&self) -> std::io::Result<Stop> {
        let mut was_on = [b'1'];
        if let Some(mut switch) = self.switch.as_ref() {
            // Another program may have stopped it. If it cannot be read, it counts as on.
            let _ = switch.read_at(&mut was_on, 0);
            switch.write_all(b"0")?;
        }
        Ok(Stop { at_ns: now_ns(), was_on: was_on != *b"0" })
    }

    /// Counts a call. To be used after [`Watch::slow`], because it changes the threshold.
    pub(super) fn count(&self, latency_ns: u64) {
        self.change(|slowest| slowest.count(latency_ns));
    }

    /// Raises the threshold to at least the parent's, regardless of this client's own calls.
    pub(super) fn at_least(&self, threshold_ns: u64) {
        if self.slowest.is_some() {
            self.change(|slowest| slowest.at_least_ns = threshold_ns);
        } else {
            self.threshold_ns.fetch_max(threshold_ns, Ordering::Relaxed);
        }
    }

    /// The slowest latencies so far, in nanoseconds.
    pub(super) fn slowest_ns(&self) -> Vec<u64> {
        let Some(slowest) = &self.slowest else { return Vec::new() };
        let slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
        slowest.latencies_ns.iter().map(|&Reverse(ns)| ns).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Slowest)) {
        let Some(slowest) = &self.slowest else { return };
        let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut slowest);
        self.threshold_ns.store(slowest.threshold_ns(), Ordering::Relaxed);
    }
}

/// The slowest calls so far.
#[derive(Debug)]
struct Slowest {
    count: usize,
    after: u64,
    seen: u64,
    /// The fastest of them is on top of the heap.
    latencies_ns: BinaryHeap<Reverse<u64>>,
    at_least_ns: u64,
}

impl Slowest {
    fn count(&mut self, latency_ns: u64) {
        self.seen += 1;
        self.latencies_ns.push(Reverse(latency_ns));
        if self.latencies_ns.len() > self.count {
            self.latencies_ns.pop();
        }
    }

    fn threshold_ns(&self) -> u64 {
        if self.seen < self.after {
            return u64::MAX;
        }
        let full = self.latencies_ns.len() >= self.count;
        let own_ns = self.latencies_ns.peek().filter(|_| full).map_or(0, |&Reverse(ns)| ns);
        own_ns.max(self.at_least_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(from: From) -> Watch {
        Watch::open(&WatchJob { switch: None, windows: None, from }).unwrap()
    }

    #[test]
    fn with_a_deadline_calls_that_miss_it_are_slow_until_the_limit() {
        let watch = watch(From::Longer(100));
        assert!(!watch.slow(100) && watch.slow(101));
        watch.count(1_000_000);
        assert!(watch.slow(101), "others do not matter");
        watch.at_least(u64::MAX);
        assert!(!watch.slow(u64::MAX));
    }

    #[test]
    fn the_slowest_calls_are_found_after_enough_calls() {
        let watch = watch(From::Slowest { count: 2, after: 3 });
        let mut slow = Vec::new();
        for ns in [50, 10, 20, 15, 30, 60, 40, 55] {
            if watch.slow(ns) {
                slow.push(ns);
            }
            watch.count(ns);
        }
        assert_eq!(slow, [30, 60, 55]);
        let mut slowest = watch.slowest_ns();
        slowest.sort_unstable();
        assert_eq!(slowest, [55, 60]);
        watch.at_least(100);
        assert!(!watch.slow(100) && watch.slow(101), "other clients had slower ones");
    }

    #[test]
    fn the_first_calls_are_the_slowest_if_there_are_no_others() {
        let watch = watch(From::Slowest { count: 2, after: 0 });
        assert!(watch.slow(1));
    }
}
