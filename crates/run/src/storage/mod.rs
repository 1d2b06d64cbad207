//! Synchronous writes: the plan, the path to the device, and the result.

pub mod interference;
mod java;
mod mode;
pub mod observe;
mod path;
mod plan;
mod result;
pub mod system_calls;

pub use java::Java;
pub use mode::{Api, Durability, Position};
pub use path::{Bus, Device, Interrupt, StoragePath};
pub use plan::{MAX_CALLS, MAX_SIZE_BYTES, OWN_PREFIX, OWN_SUFFIX, StoragePlan, WriteEvents};
pub use result::{BlockResult, Call, Opened, StorageResult, StorageSeries, StraceBlock, WriterResult};
