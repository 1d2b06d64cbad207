//! Synchronous writes: who makes them, to which file, on which device. Must not know how their time is divided among layers.

mod device;
pub mod interference;
mod mode;
mod plan;
mod recorder;
mod run;
mod strace;
mod target;
mod writer;

pub use device::{Bus, Device, Interrupt, StoragePath};
pub use interference::NeighbourJob;
pub use mode::{Api, Durability, Position};
pub use plan::{MAX_CALLS, MAX_SIZE_BYTES, StoragePlan};
pub use run::{BlockResult, StorageResult, StorageSeries, StraceBlock, WriterResult, run};
pub use strace::{Strace, SystemCall};
pub use target::Target;
pub use writer::{Block, Call, Java, Opened, Writer, WriterJob};
