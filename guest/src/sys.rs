#![allow(unsafe_code)]
//! Ties a child process to its parent's life.
//!
//! Unsafe: code between fork and exec.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Has the kernel kill the command's process when the thread that starts it ends, however that
/// happens.
pub(crate) fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes one system call, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        })
    }
}
