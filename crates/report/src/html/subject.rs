//! What stands on a page: a run with all that explains it. Knows no page.

use analysis::interference;
use analysis::observed_writes::Slow;
use analysis::slow_calls::Explained;
use analysis::storage::SeriesLayers;
use run::Run;

/// A run with all that explains it.
pub struct Subject<'a> {
    /// How the page calls it.
    pub label: String,
    /// What was measured. Every text is inert ([`crate::inert::run`]).
    pub run: &'a Run,
    /// The slow calls that it has kept, the slowest first.
    pub explained: &'a [Explained],
    /// Its writes, divided among layers.
    pub layers: &'a [SeriesLayers<'a>],
    /// Its comparisons of writes, explained.
    pub beside: &'a [interference::Explained<'a>],
    /// The slow ones of other programs' writes, divided.
    pub slow_writes: &'a [Slow<'a>],
    /// What of it is damaged or cannot be read, a sentence each.
    pub damage: Vec<String>,
}

impl Subject<'_> {
    /// What is said of it where several runs stand on the page: with its label.
    pub(super) fn named(&self, what: &str, runs: usize) -> String {
        if runs > 1 { format!("{}: {what}", self.label) } else { what.to_owned() }
    }
}
