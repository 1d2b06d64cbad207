//! What could not be matched of calls that begin and end in one thread.

/// How many calls could not be matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Calls that were in flight when the recording began, or whose entry was lost.
    pub begun_before: u64,
    /// Calls without a recorded return, or with a loss of events before it: another call's return
    /// may be the one that was recorded.
    pub not_ended: u64,
    /// Calls that were dropped because too many were in flight.
    pub forgotten: u64,
}
