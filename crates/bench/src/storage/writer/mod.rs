//! The writing application: a process that makes synchronous writes, each timed, when it is told
//! to. One that makes system calls, one that drives a Java program. Must not know what the times
//! are used for.

pub mod java;
mod native;
mod uring;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, JobFault, Result};
use crate::sched;
use crate::worker::{Link, Work, WorkerGroup, WorkerId};
use run::Scheduling;
use run::storage::{Api, Durability, Position};
use run::storage::{Call, Java, Opened};

/// How long a writer may take to open its file; a Java one compiles its source first.
const OPENED_WITHIN: Duration = Duration::from_secs(60);

/// How long a block may take in which nothing is known of the device: the end of all patience.
const BLOCK_WITHIN: Duration = Duration::from_secs(600);

/// What a writer is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriterJob {
    /// Through what it writes.
    pub api: Api,
    /// How a write is made durable.
    pub durability: Durability,
    /// Where in the file.
    pub position: Position,
    /// How the writing thread is scheduled; `None` as this process is.
    pub scheduling: Option<Scheduling>,
    /// The CPUs that it may use; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// The Java to run; not used by [`Api::Native`].
    pub java: Java,
}

/// Some writes of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// How much each call writes, in bytes.
    pub size_bytes: u64,
    /// How many calls are reported.
    pub calls: u32,
    /// How many are made before them.
    pub warm_up: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct OpenFile {
    /// How long the file is, in bytes.
    file_bytes: u64,
}

/// A writer, as its parent holds it.
#[derive(Debug)]
pub struct Writer {
    worker: WorkerId,
    /// Who writes.
    pub opened: Opened,
}

impl Writer {
    /// Starts a writer on an opened file of `file_bytes` bytes.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`]; [`Error::WorkerFailed`] without a Java that works.
    pub fn start(
        group: &mut WorkerGroup,
        job: &WriterJob,
        file: BorrowedFd<'_>,
        file_bytes: u64,
    ) -> Result<Self> {
        let worker = group.spawn(format!("{} writer", job.api), job)?;
        group.send_with_descriptors(worker, &OpenFile { file_bytes }, &[file])?;
        let opened = group.message(worker, OPENED_WITHIN)?;
        Ok(Self { worker, opened })
    }

    /// Has it write.
    ///
    /// # Errors
    /// [`Error::WorkerFailed`] when a write fails, as on a full disk.
    pub fn write(&self, group: &mut WorkerGroup, block: Block) -> Result<Vec<Call>> {
        group.send(self.worker, &block)?;
        group.message(self.worker, BLOCK_WITHIN)
    }
}

/// What carries out blocks.
trait Application {
    fn opened(&self) -> Opened;
    fn write(&mut self, block: Block, until: u64) -> Result<Vec<Call>>;
}

impl Work for WriterJob {
    const NAME: &'static str = "writer";

    /// Writes as it is told, until its parent has no more orders.
    fn run(self, link: &mut Link) -> Result<()> {
        let Some((OpenFile { file_bytes }, descriptors)) = link.receive_with_descriptors()? else {
            return Ok(());
        };
        let Some(file) = descriptors.into_iter().next() else {
            return Err(JobFault::NoFile.into());
        };
        if let Some(cpus) = &self.cpus {
            sched::set_allowed_cpus(0, cpus)?;
        }
        // A way to the file that needs no name in a file system, so it cannot lead to another file.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut application: Box<dyn Application> = if self.api.is_java() {
            Box::new(java::Machine::start(&self, &path, link)?)
        } else {
            Box::new(native::Native::open(&self, &path)?)
        };
        link.send(&application.opened())?;
        while let Some(block) = link.receive::<Block>()? {
            let until = match self.position {
                Position::Overwrite => file_bytes,
                Position::Append => {
                    rustix::fs::ftruncate(file.as_fd(), 0)
                        .map_err(|cause| Error::system("empty the test file", cause))?;
                    u64::MAX >> 1
                }
            };
            link.send(&application.write(block, until)?)?;
        }
        Ok(())
    }
}

/// Why this machine cannot write through an io_uring; `None` where it can.
pub(super) fn no_uring(polled: bool) -> Option<String> {
    uring::Ring::new(polled).err().map(|error| format!("io_uring cannot be used: {error}"))
}

/// What is said of a failed write.
fn failed(block: Block, error: impl std::fmt::Display) -> Error {
    Error::Write { bytes: block.size_bytes, reason: error.to_string() }
}
