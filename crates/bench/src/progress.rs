//! How far a run has come, for whoever wants to show it.

/// One step of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done.
    pub what: &'a str,
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}
