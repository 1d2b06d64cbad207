//! A run together with what its recordings show. Everything that shows, judges or compares a run
//! reads its recordings here.

use std::path::Path;

use roundtrip_run::Run;

use crate::Error;
use crate::interference::{self, Explained};
use crate::observed_writes::{self, Slow};
use crate::storage::{self, SeriesLayers};

/// A run and what its recordings show. The lists are empty if nothing was recorded.
#[derive(Debug)]
pub struct Analysed<'a> {
    /// The run.
    pub run: &'a Run,
    /// The layers of the writes of each series.
    pub layers: Vec<SeriesLayers<'a>>,
    /// The comparisons with background load.
    pub beside: Vec<Explained<'a>>,
    /// The slow writes of other programs.
    pub slow_writes: Vec<Slow<'a>>,
    /// An error for each test whose recording is damaged or cannot be read.
    pub damage: Vec<Error>,
}

impl<'a> Analysed<'a> {
    /// A run without its recordings.
    #[must_use]
    pub fn bare(run: &'a Run) -> Self {
        Self { run, layers: Vec::new(), beside: Vec::new(), slow_writes: Vec::new(), damage: Vec::new() }
    }

    /// Reads the recordings in a run directory. The `keep` slowest writes of each series are kept
    /// in full; with 0, only what figures need is read.
    #[must_use]
    pub fn read(run: &'a Run, directory: &Path, keep: usize) -> Self {
        let mut damage = Vec::new();
        let results = &run.results;
        let divide = |result| storage::divide(result, directory, keep);
        let layers = results.storage.as_ref().map(divide).unwrap_or_default().noting(&mut damage);
        let explain = |result| interference::explain(result, directory);
        let beside = results.interference.as_ref().map(explain).unwrap_or_default().noting(&mut damage);
        let slow = |result| observed_writes::slow(result, directory);
        let observed = results.observed_writes.as_ref().filter(|_| keep > 0);
        let slow_writes = observed.map(slow).unwrap_or_default().noting(&mut damage);
        Self { run, layers, beside, slow_writes, damage }
    }
}
