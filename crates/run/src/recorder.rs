//! What a recorder of the kernel's events recorded. Must not know how it does that.

use serde::{Deserialize, Serialize};

/// The size of each CPU's buffer, in kilobytes, where nothing else is asked for. Calls that follow
/// each other without a pause fill about 100 MB in a second, and so this goes back 40 ms at least;
/// for most of what is measured, seconds.
pub const DEFAULT_KILOBYTES: u64 = 4096;

/// What a recorder records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderInfo {
    /// The events, `system/event`.
    pub events: Vec<String>,
    /// Events that would have told more, and that this kernel does not have.
    pub missing: Vec<String>,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}
