//! Which events an instance records, as whoever makes it chooses them. Must not know why.

/// What a recorder records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// `system/event`, in the order in which they are switched on.
    pub events: Vec<String>,
    /// Filters (Documentation/trace/events.rst, "Event filtering") of some of them.
    pub filters: Vec<(String, String)>,
    /// Wanted events that this kernel does not have.
    pub missing: Vec<String>,
}
