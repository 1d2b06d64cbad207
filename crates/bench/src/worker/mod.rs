//! Worker processes: this binary, executed again and connected to its parent by frames. Workers
//! inherit no descriptors, locks or threads. A worker's death is noticed at once and reported with
//! its reason, and no worker outlives its parent. Must not know what the workers do.
//!
//! The parent sends through a Unix socket, the worker's standard input, because a socket can carry
//! descriptors. The worker answers through a pipe, its standard output. Neither has a name that
//! could be left behind.

mod child;
mod frame;
mod group;
mod link;
pub(crate) mod privileges;
mod signals;
mod supervisor;
mod sys;

pub use child::Spawner;
pub use frame::MAX_PAYLOAD;
pub use group::{Event, What, WorkerGroup, WorkerId};
pub use link::{Link, Registered, Work, main};
pub(crate) use supervisor::supervise;
pub(crate) use sys::die_with_parent;
pub use sys::stdout_was_closed;

pub(crate) use signals::{Cut, Gently, cut_short_by, is_stopped, is_stopping, keep, stop};
pub use signals::{
    Interrupts, ignore_file_size_signal, keep_what_was_measured, set_before_hard_end, set_cleaning_up_line,
};

/// The hidden command that makes the binary a worker: the program must call [`main`] if this is its
/// first argument.
pub const COMMAND: &str = "__worker";

/// A signal's name, such as "SIGKILL", or its number if it has no name.
pub fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
