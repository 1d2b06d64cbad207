//! The emulated driver: the binder protocol between ordinary processes, without the kernel's
//! driver.
//!
//! Participants share one piece of memory, which [`Context`] creates and keeps. Each runs the
//! driver's code itself, on its own thread, under the context's lock, where the kernel's driver
//! would run inside the ioctl. A sender copies its data once, straight into the receiver's area.
//!
//! ```
//! use roundtrip_binder_driver::{Driver, Profile};
//! use roundtrip_binder_emulator::{Context, Emulated};
//!
//! let context = Context::create(Profile::Ack)?;
//! let manager = Emulated::join(context.address(), 1 << 20)?;
//! manager.become_context_manager(0)?;
//! let other = Emulated::join(context.address(), 1 << 20)?;
//! assert!(other.become_context_manager(0).is_err(), "there is one already");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One file for each concept, bottom up:
//!
//! - `region` is the memory, `records` its layout, `registry` the list of participants;
//! - `mutex` and `lock` (with the undo journal), `queue`;
//! - `process`, `thread`, `node` (with `references` and `deaths`), `transaction` (with `objects`),
//!   `buffers`, `allocation`, `priority`, `inheritance` (with `reply_lock` and `pi_futex`),
//!   `freeze`;
//! - `sleep_word` (the table of how threads sleep and who wakes them), `sleep`, `lock/wake`,
//!   `seccomp`, `wakers`;
//! - `descriptors` (with `inbox`) and `passing` for file descriptors;
//! - `ioctl` is one call, `emulated` the driver that makes it; `context`, `supervisor` and
//!   `membership` are joining and dying; `leaving` is how threads leave a context that has ended;
//!   `state` shows all of it as text, and `usage` how much is in use.
//!
//! There is one lock. It is never held across a wait, a copy of more than a page, or a call out of
//! this crate.

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
