//! What a recorder of kernel events recorded. Must not know how it records.

use serde::{Deserialize, Serialize};

/// The default size of each CPU's buffer, in kilobytes. Calls without pauses produce about 100 MB
/// per second, so this covers at least 40 ms. For most measurements it covers seconds.
pub const DEFAULT_KILOBYTES: u64 = 4096;

/// What a recorder records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderInfo {
    /// The events, `system/event`.
    pub events: Vec<String>,
    /// Events that would have added information, but that this kernel does not have.
    pub missing: Vec<String>,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}
