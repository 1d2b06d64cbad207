//! Requests that this machine cannot satisfy, and their messages. Must not know how it was probed.

use std::io;
use std::path::PathBuf;

use run::CpuPlacement;
use run::storage::Api;
use run::storage::interference::Condition;

use super::Error;

/// What was asked for by name and is not to be had on this machine; says what is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHere {
    /// Events of binder's driver.
    #[error(
        "this kernel has no events of binder calls: they take its binder driver, loaded (CONFIG_ANDROID_BINDER_IPC), and \
         CONFIG_TRACING; the driver in Rust has them in some kernels, the emulated one has none"
    )]
    BinderEvents,
    /// There is no strace.
    #[error(
        "there is no strace here: install it (on Debian: apt-get install strace), or leave out --method strace"
    )]
    Strace,
    /// The strace that there is may not watch the writer.
    #[error("strace cannot watch the writer: {said}; run as root")]
    StraceRefused {
        /// What it says.
        said: String,
    },
    /// Ways to write that this machine does not have.
    #[error("{}: {why}", joined(apis, ", "))]
    Writers {
        /// Which.
        apis: Vec<Api>,
        /// What they lack, and how to get it.
        why: String,
    },
    /// Conditions that writes were to be compared under.
    #[error("{}; possible here: {}", reasons.join("; "), joined(possible, ", "))]
    Conditions {
        /// Why not, of each.
        reasons: Vec<String>,
        /// Those that can be had.
        possible: Vec<Condition>,
    },
    /// A file for the test's writes.
    #[error("test file {}: {fault}", path.display())]
    TestFile {
        /// The file.
        path: PathBuf,
        /// What is in its way.
        fault: FileFault,
    },
    /// Two CPUs.
    #[error(
        "placement {placement} needs two CPUs, this process may use one{}: choose same or free",
        cpu.map(|cpu| format!(" (CPU {cpu})")).unwrap_or_default()
    )]
    TwoCpus {
        /// What needs them.
        placement: CpuPlacement,
        /// The one that there is, where it is to be named.
        cpu: Option<u32>,
    },
    /// A binder device of the kernel's.
    #[error("no binder device of the kernel's is usable: {}", joined(refusals, "; "))]
    Device {
        /// What is wrong with each.
        refusals: Vec<Error>,
    },
    /// Any file of a binder device.
    #[error("there is no /dev/binder; load the driver (modprobe binder_linux devices=binder,hwbinder)")]
    DeviceFile,
    /// A device that cannot be opened.
    #[error(transparent)]
    Opened(binder_driver::Error),
    /// A device that nobody else uses.
    #[error("{path} is used by another run of Roundtrip: wait for its end, or name another device")]
    InUse {
        /// The device.
        path: String,
    },
    /// A device without a context manager.
    #[error(
        "{path} has a context manager already, which is left alone: name another device, or run as root where the \
         kernel has binderfs"
    )]
    Managed {
        /// The device.
        path: String,
    },
    /// A second device.
    #[error("there is one free device, and the two stacks need one each: {cause}")]
    SecondDevice {
        /// What is wrong with the others. Not the error's `source`, for the message already has it.
        cause: Box<Error>,
    },
    /// A context of this name.
    #[error(
        "--context {named}: {cause}; contexts here: {}",
        if there.is_empty() { "none".to_owned() } else { there.join(", ") }
    )]
    Context {
        /// What was asked for.
        named: String,
        /// Why it cannot be joined.
        cause: String,
        /// Those that can.
        there: Vec<String>,
    },
}

/// Why the file for the test's writes cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// A directory has the name.
    #[error("that is a directory; name a new file in it, as in {}", example.display())]
    Directory {
        /// A file in it.
        example: PathBuf,
    },
    /// A file has the name.
    #[error("it exists, and an existing file is never written to; name a new one")]
    Exists,
    /// The kernel says that there is nothing, in a directory that there is.
    #[error("no files can be made in {}, which the kernel fills; name another directory", folder.display())]
    KernelFills {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory is missing.
    #[error("its directory does not exist; make it, or name another")]
    NoDirectory,
    /// Nothing can be written there.
    #[error("its file system is mounted read-only; name a file in another")]
    ReadOnly,
    /// The kernel refuses for another reason.
    #[error("cannot be made: {cause}; name a file in a directory of yours")]
    Refused {
        /// What it says. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
}

fn joined<T: ToString>(all: &[T], separator: &str) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
