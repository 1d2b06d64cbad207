//! Tests that count this process's descriptors, or need its CPUs, take turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// Until it is dropped, every other test that requests it waits.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
