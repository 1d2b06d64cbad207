//! The table of options of all commands that write synchronously: what to write, where, and how.
//! The plan defines what they mean together.

use std::path::PathBuf;

use roundtrip_run::Scheduling;
use roundtrip_run::storage::{Api, Durability, Java, MAX_CALLS, Position, StoragePlan};

use crate::args::values::set;
use crate::args::{Opt, Usage, values};
use crate::available;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct StorageOptions {
    pub(crate) file: Option<PathBuf>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) sizes_bytes: Option<Vec<u64>>,
    pub(crate) apis: Option<Vec<Api>>,
    pub(crate) durabilities: Option<Vec<Durability>>,
    pub(crate) position: Option<Position>,
    pub(crate) warm_up: Option<u32>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) java: Option<Java>,
    pub(crate) no_recorder: bool,
    pub(crate) buffer_kilobytes: Option<u64>,
}

/// The typed arguments of a command that has these options.
pub(crate) trait HasStorage {
    fn storage(&mut self) -> &mut StorageOptions;
}

impl StorageOptions {
    /// Rejects requests that this machine cannot satisfy.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if let Some(cpus) = &self.cpus {
            available::cpus("--cpus", cpus)?;
        }
        if let Some(scheduling) = &self.scheduling {
            available::scheduling("--policy", scheduling)?;
        }
        self.java.as_ref().map_or(Ok(()), available::java)
    }

    /// What was typed, with the plan's defaults for the rest.
    pub(crate) fn plan(&self, default: StoragePlan, record: Option<PathBuf>) -> StoragePlan {
        StoragePlan {
            file: self.file.clone().unwrap_or(default.file),
            file_bytes: self.file_bytes.unwrap_or(default.file_bytes),
            sizes_bytes: self.sizes_bytes.clone().unwrap_or(default.sizes_bytes),
            apis: self.apis.clone().unwrap_or(default.apis),
            all_apis: self.apis.is_some(),
            durabilities: self.durabilities.clone().unwrap_or(default.durabilities),
            position: self.position.unwrap_or(default.position),
            warm_up: self.warm_up.unwrap_or(default.warm_up),
            scheduling: self.scheduling,
            cpus: self.cpus.clone(),
            java: self.java.clone().unwrap_or(default.java),
            record,
            buffer_kilobytes: self.buffer_kilobytes.unwrap_or(default.buffer_kilobytes),
            ..default
        }
    }
}

pub(crate) const fn file<A: HasStorage>() -> Opt<A> {
    Opt::path(
        &["--file"],
        "FILE",
        "The file to write to. It must not exist: Roundtrip creates it, and removes it at the end.",
        |typed: &mut A, text| set(&mut typed.storage().file, values::path(text)),
    )
    .default("roundtrip-PID-TIME.test in this directory")
}

pub(crate) const fn sizes<A: HasStorage>(default: &'static str) -> Opt<A> {
    Opt::value(
        &["--sizes"],
        "SIZES",
        "Bytes of a write, separated by commas; 4k-4M stands for each doubling.",
        |typed: &mut A, text| {
            let sizes = values::sizes_bytes(text)?;
            typed.storage().sizes_bytes = Some(sizes.into_iter().map(|size| size as u64).collect());
            Ok(())
        },
    )
    .default(default)
}

pub(crate) const fn writers<A: HasStorage>(default: &'static str) -> Opt<A> {
    Opt::list_of(
        &["--writers"],
        "LIST",
        &["native", "java-file", "java-channel", "java-channel-direct", "uring", "uring-polled"],
        "How to write: native (system calls), java-file (RandomAccessFile), java-channel (FileChannel), \
         java-channel-direct (with a direct buffer), uring (io_uring, past the page cache), uring-polled (the same, polling \
         for the completion).",
        |typed: &mut A, text| set(&mut typed.storage().apis, values::list(text)),
    )
    .default(default)
}

pub(crate) const fn durability<A: HasStorage>() -> Opt<A> {
    Opt::list_of(
        &["--durability"],
        "LIST",
        &["sync", "dsync", "fsync", "fdatasync"],
        "How each write is made durable: sync (O_SYNC, Java's rws), dsync (O_DSYNC, Java's rwd), fsync, \
         fdatasync (a call after the write).",
        |typed: &mut A, text| set(&mut typed.storage().durabilities, values::list(text)),
    )
    .default("dsync")
}

pub(crate) const fn position<A: HasStorage>() -> Opt<A> {
    Opt::one_of(
        &["--position"],
        "WHERE",
        &["overwrite", "append"],
        "overwrite: write over a file whose blocks are allocated. append: write to the end of a file that \
         starts empty.",
        |typed: &mut A, text| set(&mut typed.storage().position, text.parse()),
    )
    .default("overwrite")
}

pub(crate) const fn file_size<A: HasStorage>() -> Opt<A> {
    Opt::value(
        &["--file-size"],
        "SIZE",
        "The length of the file that is overwritten.",
        |typed: &mut A, text| {
            set(&mut typed.storage().file_bytes, values::size_bytes(text).map(|size| size as u64))
        },
    )
    .default("16M")
}

pub(crate) const fn warm_up<A: HasStorage>(default: &'static str) -> Opt<A> {
    Opt::value(&["--warm-up"], "N", "Untimed writes before each block.", |typed: &mut A, text| {
        set(&mut typed.storage().warm_up, values::whole(text, 0..=MAX_CALLS))
    })
    .default(default)
}

pub(crate) const fn policy<A: HasStorage>() -> Opt<A> {
    Opt::value(
        &["--policy"],
        "POLICY",
        "The scheduling policy of the writing thread: other, nice:N, fifo:N, rr:N.",
        |typed: &mut A, text| set(&mut typed.storage().scheduling, text.parse()),
    )
    .default("the policy of this process")
}

pub(crate) const fn cpus<A: HasStorage>(default: &'static str) -> Opt<A> {
    Opt::value(&["--cpus"], "LIST", "The CPUs that writers may use.", |typed: &mut A, text| {
        set(&mut typed.storage().cpus, values::cpu_list(text))
    })
    .default(default)
}

pub(crate) const fn java<A: HasStorage>() -> Opt<A> {
    Opt::value(
        &["--java"],
        "COMMAND",
        "The Java to run, with its arguments. With a class path, Roundtrip runs the class SyncWriter from \
         there, as Android's runtime requires.",
        |typed: &mut A, text| {
            let command = text.split_whitespace().map(str::to_owned).collect();
            typed.storage().java = Some(Java { command });
            Ok(())
        },
    )
    .default("$JAVA_HOME/bin/java, else java")
}

pub(crate) const fn no_recorder<A: HasStorage>() -> Opt<A> {
    Opt::flag(&["--no-recorder"], "Only time the calls, without the kernel's events.", |typed: &mut A| {
        typed.storage().no_recorder = true
    })
}

pub(crate) const fn buffer<A: HasStorage>() -> Opt<A> {
    Opt::value(
        &["--buffer"],
        "SIZE",
        "The size of each CPU's trace buffer; it must hold the events of a block.",
        |typed: &mut A, text| set(&mut typed.storage().buffer_kilobytes, values::buffer_kilobytes(text)),
    )
    .default("8M")
}
