//! The content of a page: a run with everything that explains it. Must not know the page.

use roundtrip_analysis::Analysed;
use roundtrip_analysis::slow_calls::Explained;

/// A run with everything that explains it.
pub struct Subject<'a> {
    /// Its name on the page.
    pub label: String,
    /// The run and its recordings. All its text must be inert ([`crate::text::inert`]).
    pub analysed: &'a Analysed<'a>,
    /// The slow calls that were kept, slowest first.
    pub explained: &'a [Explained],
    /// What is damaged or unreadable, one sentence each.
    pub damage: Vec<String>,
}

impl Subject<'_> {
    /// A text about the run, with its label if the page has several runs.
    pub(super) fn named(&self, what: &str, runs: usize) -> String {
        if runs > 1 { format!("{}: {what}", self.label) } else { what.to_owned() }
    }
}
