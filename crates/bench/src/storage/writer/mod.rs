//! The writing application: a process that makes timed synchronous writes on request, by system
//! calls or through a Java program. Must not know what the times are used for.

pub mod java;
mod native;
mod uring;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use crate::error::{Disturbance, Error, JobFault, Result};
use crate::sched;
use crate::worker::{Link, Work, WorkerGroup, WorkerId, privileges};
use roundtrip_run::Scheduling;
use roundtrip_run::cpus::ranges;
use roundtrip_run::storage::{Api, Durability, Position};
use roundtrip_run::storage::{Call, Java, Opened};

/// How long a writer may take to open its file. A Java writer compiles its source first.
const OPENED_WITHIN: Duration = Duration::from_secs(60);

/// How long a block may take on an unknown device. A timeout for failures.
const BLOCK_WITHIN: Duration = Duration::from_secs(600);

/// A writer's settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriterJob {
    /// The API to write with.
    pub api: Api,
    /// How a write is made durable.
    pub durability: Durability,
    /// Where in the file to write.
    pub position: Position,
    /// How the writing thread is scheduled; `None`: like this process.
    pub scheduling: Option<Scheduling>,
    /// The allowed CPUs; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// The Java to run; not used by [`Api::Native`].
    pub java: Java,
}

/// A block of writes of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Bytes per call.
    pub size_bytes: u64,
    /// The number of reported calls.
    pub calls: u32,
    /// The number of unreported calls before them.
    pub warm_up: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct OpenFile {
    /// The length of the file in bytes.
    file_bytes: u64,
}

/// The parent's reference to a writer.
#[derive(Debug)]
pub struct Writer {
    worker: WorkerId,
    /// Identifies the writing process and thread.
    pub opened: Opened,
}

impl Writer {
    /// Starts a writer on an opened file of `file_bytes` bytes.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`]; [`Error::WorkerFailed`] if Java does not work.
    pub fn start(
        group: &mut WorkerGroup,
        job: &WriterJob,
        file: BorrowedFd<'_>,
        file_bytes: u64,
    ) -> Result<Self> {
        let worker = group.spawn(format!("{} writer", job.api), job)?;
        group.send_with_descriptors(worker, &OpenFile { file_bytes }, &[file])?;
        let opened: Opened = group.message(worker, OPENED_WITHIN)?;
        if opened.pid != group.pid(worker) {
            group.watch(format!("Java of the {} writer", job.api), opened.pid);
        }
        Ok(Self { worker, opened })
    }

    /// Checks that the writing thread may use exactly these CPUs.
    ///
    /// # Errors
    /// [`Disturbance::Moved`] if not.
    pub(super) fn is_on(&self, cpus: &[u32]) -> Result<()> {
        // If it has ended, its end is the error.
        let now = sched::allowed_cpus(self.opened.tid).unwrap_or_else(|_| cpus.to_vec());
        if now == cpus {
            return Ok(());
        }
        let [before, now] = [cpus, &now].map(ranges);
        Err(Disturbance::Moved { role: "the writer".into(), before, now }.into())
    }

    /// Writes a block.
    ///
    /// # Errors
    /// [`Error::WorkerFailed`] if a write fails, for example on a full disk.
    pub fn write(&self, group: &mut WorkerGroup, block: Block) -> Result<Vec<Call>> {
        group.send(self.worker, &block)?;
        group.message(self.worker, BLOCK_WITHIN)
    }
}

/// Writes blocks.
trait Application {
    fn opened(&self) -> Opened;
    fn write(&mut self, block: Block, until: u64) -> Result<Vec<Call>>;
}

impl Work for WriterJob {
    const NAME: &'static str = "writer";
    const KEEPS: CapabilitySet = privileges::IN_USERS_FOLDERS;

    /// Writes as requested until its parent closes the link.
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
        // A path that needs no name in a file system, so it cannot lead to another file.
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

/// Why this machine cannot write with io_uring; `None` if it can.
pub(super) fn no_uring(polled: bool) -> Option<String> {
    uring::Ring::new(polled).err().map(|error| format!("io_uring cannot be used: {error}"))
}

/// The error of a failed write.
fn failed(block: Block, error: impl std::fmt::Display) -> Error {
    Error::Write { bytes: block.size_bytes, reason: error.to_string() }
}
