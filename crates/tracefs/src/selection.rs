//! The events that an instance records, as its creator selects them. Must not know why they are
//! wanted.

/// The events to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// `system/event`, in the order in which they are enabled.
    pub events: Vec<String>,
    /// Filters for some of them (Documentation/trace/events.rst, "Event filtering").
    pub filters: Vec<(String, String)>,
    /// More events with filters that not every kernel knows. Those that it refuses are left out.
    pub filtered: Vec<(String, String)>,
    /// Requested events that this kernel lacks.
    pub missing: Vec<String>,
    /// Whether only the events of chosen threads are recorded, and of the threads and processes
    /// that they create ([`Instance::follow`](crate::Instance::follow)). Until a thread is chosen,
    /// all are recorded.
    pub followed_only: bool,
}
