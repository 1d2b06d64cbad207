//! How many payload bytes a process has copied: one counter for each thread, and their sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Payload bytes copied by one thread. Only that thread adds, others read.
#[derive(Debug, Default)]
pub(crate) struct Copies(AtomicU64);

impl Copies {
    /// Not a read-modify-write: there is one writer.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of all threads of a process.
#[derive(Debug, Default)]
pub(crate) struct CopyCounters(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// By threads that are gone.
    before: u64,
    /// By those that are not.
    threads: Vec<Arc<Copies>>,
}

impl CopyCounters {
    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A counter for a new thread.
    pub(crate) fn start(&self) -> Arc<Copies> {
        let new = Arc::new(Copies::default());
        self.lock().threads.push(new.clone());
        new
    }

    /// A thread is gone; what it counted stays.
    pub(crate) fn retire(&self, gone: &Arc<Copies>) {
        let mut counted = self.lock();
        counted.before += gone.total();
        counted.threads.retain(|other| !Arc::ptr_eq(other, gone));
    }

    /// What all threads have copied so far.
    pub(crate) fn total(&self) -> u64 {
        let counted = self.lock();
        counted.before + counted.threads.iter().map(|copies| copies.total()).sum::<u64>()
    }
}
