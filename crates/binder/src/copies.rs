//! Counts the payload bytes that a process copies, with one counter per thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Payload bytes copied by one thread. Only that thread adds; others read.
#[derive(Debug, Default)]
pub(crate) struct Copies(AtomicU64);

impl Copies {
    /// Adds without a read-modify-write, because only one thread writes.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a process's threads.
#[derive(Debug, Default)]
pub(crate) struct CopyCounters(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// Bytes copied by threads that have ended.
    before: u64,
    /// The counters of running threads.
    threads: Vec<Arc<Copies>>,
}

impl CopyCounters {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a counter for a new thread.
    pub(crate) fn start(&self) -> Arc<Copies> {
        let new = Arc::new(Copies::default());
        self.lock().threads.push(new.clone());
        new
    }

    /// Removes an ended thread's counter, but keeps its bytes in the total.
    pub(crate) fn retire(&self, gone: &Arc<Copies>) {
        let mut counted = self.lock();
        counted.before += gone.total();
        counted.threads.retain(|other| !Arc::ptr_eq(other, gone));
    }

    /// The bytes that all threads copied so far.
    pub(crate) fn total(&self) -> u64 {
        let counted = self.lock();
        counted.before + counted.threads.iter().map(|copies| copies.total()).sum::<u64>()
    }
}
