//! Distinguishes damaged recordings from recordings in which the kernel lost events. Must not know
//! what a recording is used for.

use roundtrip_tracefs::{Recording, Trace};

use crate::error::{Error, Result};

/// Refuses a damaged recording. Otherwise the damage would look like events that the kernel lost.
///
/// # Errors
/// [`Error::Damaged`] if pages of the snapshot are damaged.
pub fn refuse_damage(recording: &Recording, snapshot: u32, trace: &Trace) -> Result<()> {
    let damaged: Vec<String> = trace.damaged().iter().map(u32::to_string).collect();
    if damaged.is_empty() {
        return Ok(());
    }
    Err(Error::Damaged { directory: recording.directory().to_owned(), snapshot, cpus: damaged.join(", ") })
}

/// The readable results of a recording, and its damage.
#[derive(Debug)]
pub struct Readable<T> {
    /// The readable results.
    pub results: Vec<T>,
    /// An error for each damaged or unreadable snapshot.
    pub damage: Vec<Error>,
}

impl<T> Default for Readable<T> {
    fn default() -> Self {
        Self { results: Vec::new(), damage: Vec::new() }
    }
}

impl<T> Readable<T> {
    /// Returns the results, and adds all damage to `damage` as one error.
    pub(crate) fn noting(self, damage: &mut Vec<Error>) -> Vec<T> {
        let more = self.damage.len().saturating_sub(1);
        damage.extend(self.damage.into_iter().next().map(|first| match more {
            0 => first,
            _ => Error::Several { first: Box::new(first), more },
        }));
        self.results
    }
}

/// Reads a snapshot if it is intact. Otherwise adds the error to `damage`.
pub(crate) fn read_whole(recording: &Recording, snapshot: u32, damage: &mut Vec<Error>) -> Option<Trace> {
    let read = recording.read(snapshot).map_err(Error::from);
    read.and_then(|trace| refuse_damage(recording, snapshot, &trace).map(|()| trace))
        .map_err(|error| damage.push(error))
        .ok()
}
