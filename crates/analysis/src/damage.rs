//! Damaged recordings, told from what the kernel lost. Must not know what a recording is used for.

use tracefs::{Recording, Trace};

use crate::error::{Error, Result};

/// Refuses to pass damage off as what the kernel lost.
///
/// # Errors
/// [`Error::Damaged`] when pages are damaged.
pub fn refuse_damage(recording: &Recording, snapshot: u32, trace: &Trace) -> Result<()> {
    let damaged: Vec<String> = trace.damaged().iter().map(u32::to_string).collect();
    if damaged.is_empty() {
        return Ok(());
    }
    Err(Error::Damaged { directory: recording.directory().to_owned(), snapshot, cpus: damaged.join(", ") })
}

/// What a recording told, as far as it could be read.
#[derive(Debug)]
pub struct Told<T> {
    /// What could be made of it.
    pub told: Vec<T>,
    /// What is damaged or cannot be read.
    pub damage: Vec<Error>,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self { told: Vec::new(), damage: Vec::new() }
    }
}

impl<T> Told<T> {
    /// What is told, and what was wrong with the recording, in one line.
    #[must_use]
    pub fn split(self) -> (Vec<T>, Option<Error>) {
        let more = self.damage.len().saturating_sub(1);
        let first = self.damage.into_iter().next();
        let damage = first.map(|first| match more {
            0 => first,
            _ => Error::Several { first: Box::new(first), more },
        });
        (self.told, damage)
    }
}

/// A snapshot that is whole, and what is wrong with any other.
pub(crate) fn read_whole(recording: &Recording, snapshot: u32, damage: &mut Vec<Error>) -> Option<Trace> {
    let read = recording.read(snapshot).map_err(Error::from);
    read.and_then(|trace| refuse_damage(recording, snapshot, &trace).map(|()| trace))
        .map_err(|error| damage.push(error))
        .ok()
}
