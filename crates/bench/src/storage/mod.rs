//! Synchronous writes: which application makes them, to which file, on which device. Must not know
//! how their time is divided into layers.

pub(crate) mod device;
pub mod interference;
mod recorder;
mod run;
mod strace;
mod system_call;
mod target;
mod writer;

pub use self::run::run;
pub(crate) use device::disks;
pub use device::way_down;
pub use interference::BackgroundJob;
pub use strace::Strace;
pub use system_call::SystemCall;
pub use target::Target;
pub use writer::java;
pub use writer::{Block, Writer, WriterJob};
