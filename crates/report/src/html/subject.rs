//! The content of a page: a run with everything that explains it. Must not know the page.

use analysis::interference;
use analysis::observed_writes::Slow;
use analysis::slow_calls::Explained;
use analysis::storage::SeriesLayers;
use run::Run;

/// A run with everything that explains it.
pub struct Subject<'a> {
    /// Its name on the page.
    pub label: String,
    /// The run. All its text must be inert ([`crate::inert::run`]).
    pub run: &'a Run,
    /// The slow calls that were kept, slowest first.
    pub explained: &'a [Explained],
    /// Its writes, divided into layers.
    pub layers: &'a [SeriesLayers<'a>],
    /// Its comparisons of writes, explained.
    pub beside: &'a [interference::Explained<'a>],
    /// The slow writes of other programs, divided into layers.
    pub slow_writes: &'a [Slow<'a>],
    /// What is damaged or unreadable, one sentence each.
    pub damage: Vec<String>,
}

impl Subject<'_> {
    /// A text about the run, with its label if the page has several runs.
    pub(super) fn named(&self, what: &str, runs: usize) -> String {
        if runs > 1 { format!("{}: {what}", self.label) } else { what.to_owned() }
    }
}
