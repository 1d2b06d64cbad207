//! Requests that this machine cannot satisfy, and their messages. Must not know how the machine was
//! probed.

use std::io;
use std::path::PathBuf;

use roundtrip_binder_driver::raise_limit;
use roundtrip_run::CpuPlacement;
use roundtrip_run::storage::Api;
use roundtrip_run::storage::interference::Condition;

use super::Error;

/// Something that was requested by name and is not available on this machine. Says what is
/// available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHere {
    /// This kernel has no events of the binder driver.
    #[error(
        "this kernel has no events of binder calls: they need its binder driver, loaded \
         (CONFIG_ANDROID_BINDER_IPC), and CONFIG_TRACING; the emulated driver has no events"
    )]
    BinderEvents,
    /// strace is not installed.
    #[error(
        "strace is not installed: install it (on Debian: apt-get install strace), or leave out --method \
         strace"
    )]
    Strace,
    /// strace is not allowed to trace the writer.
    #[error("strace cannot watch the writer: {said}; run as root")]
    StraceRefused {
        /// Its message.
        said: String,
    },
    /// This machine lacks these write APIs.
    #[error("{}: {why}", joined(apis, ", "))]
    Writers {
        /// The APIs.
        apis: Vec<Api>,
        /// What is missing, and how to get it.
        why: String,
    },
    /// This machine cannot produce some of the requested conditions.
    #[error("{}; possible here: {}", reasons.join("; "), joined(possible, ", "))]
    Conditions {
        /// Why each is not possible.
        reasons: Vec<String>,
        /// The possible conditions.
        possible: Vec<Condition>,
    },
    /// The test file cannot be created.
    #[error("test file {}: {fault}", path.display())]
    TestFile {
        /// The file.
        path: PathBuf,
        /// Why it cannot be created.
        fault: FileFault,
    },
    /// The placement needs two CPUs, but this process may use only one.
    #[error(
        "placement {placement} needs two CPUs, but this process may use only one{}: choose same or free",
        cpu.map(|cpu| format!(" (CPU {cpu})")).unwrap_or_default()
    )]
    TwoCpus {
        /// The placement that needs them.
        placement: CpuPlacement,
        /// The only CPU, if the message is to name it.
        cpu: Option<u32>,
    },
    /// No binder device of the kernel's driver is usable.
    #[error("no binder device of the kernel is usable: {}", joined(refusals, "; "))]
    Device {
        /// Why each device is unusable.
        refusals: Vec<Error>,
    },
    /// There is no binder device file.
    #[error("there is no /dev/binder; load the driver (modprobe binder_linux devices=binder,hwbinder)")]
    DeviceFile,
    /// The device cannot be opened.
    #[error(transparent)]
    Opened(roundtrip_binder_driver::Error),
    /// Another run uses the device.
    #[error("another run of Roundtrip uses {path}: wait until it ends, or name another device")]
    InUse {
        /// The device.
        path: String,
    },
    /// The device already has a context manager.
    #[error(
        "{path} already has a context manager, which Roundtrip does not disturb: name another device, or run \
         as root on a kernel with binderfs"
    )]
    Managed {
        /// The device.
        path: String,
    },
    /// Only one device is free, but each of the two stacks needs its own.
    #[error("only one device is free, and each of the two stacks needs its own: {cause}")]
    SecondDevice {
        /// Why the others cannot be used. Not the error's `source`, because the message already
        /// contains it.
        cause: Box<Error>,
    },
    /// The context cannot be joined.
    #[error(
        "--context {named}: {cause}; contexts here: {}",
        if there.is_empty() { "none".to_owned() } else { there.join(", ") }
    )]
    Context {
        /// The requested name.
        named: String,
        /// Why it cannot be joined.
        cause: String,
        /// The contexts that can be joined.
        there: Vec<String>,
    },
}

/// Why the test file cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileFault {
    /// The path is a directory.
    #[error("that is a directory; name a new file in it, as in {}", example.display())]
    Directory {
        /// An example of a file in it.
        example: PathBuf,
    },
    /// The file exists.
    #[error("it exists, and Roundtrip never writes to an existing file; name a new one")]
    Exists,
    /// The kernel returns ENOENT although the directory exists.
    #[error("files cannot be created in {}, a file system of the kernel; name another directory", folder.display())]
    KernelFills {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory does not exist.
    #[error("its directory does not exist; create it, or name another")]
    NoDirectory,
    /// The file system is mounted read-only.
    #[error("its file system is mounted read-only; name a file on another")]
    ReadOnly,
    /// The kernel returned another error.
    #[error("it cannot be created: {cause}{}", remedy_of(cause))]
    Refused {
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
}

fn remedy_of(cause: &io::Error) -> &'static str {
    match raise_limit("", cause) {
        "" => "; name a file in a directory that you may write to",
        limit => limit,
    }
}

fn joined<T: ToString>(all: &[T], separator: &str) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
