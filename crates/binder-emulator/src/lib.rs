#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "a participant may find anything in the shared memory, and must not panic: see records/mod.rs"
    )
)]

mod allocation;
#[cfg(test)]
mod alone;
mod buffers;
mod context;
mod deaths;
mod descriptors;
mod emulated;
mod error;
mod freeze;
mod inbox;
mod inheritance;
mod ioctl;
mod leaving;
mod lock;
mod membership;
mod mutex;
mod node;
mod objects;
mod passing;
mod pi_futex;
mod priority;
mod process;
mod queue;
mod raw;
mod records;
mod references;
mod region;
mod registry;
mod reply_lock;
mod sched;
mod seccomp;
mod sleep;
mod sleep_word;
mod state;
mod supervisor;
mod supervisor_line;
mod thread;
mod transaction;
mod usage;
mod wakers;
mod welcome;

pub use context::{Context, running};
pub use emulated::Emulated;
pub use error::Error;
pub use roundtrip_vocabulary::InheritBy;
pub use usage::Usage;
pub use wakers::WakeUp;
