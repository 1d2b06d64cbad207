//! The progress of a run, for code that shows it.

/// One step of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The current activity.
    pub what: &'a str,
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}
