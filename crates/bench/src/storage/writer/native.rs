//! The writer without a runtime: `write` or io_uring, and durability by system calls. Must not know
//! what they are measured for.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use rustix::fs::{Mode, OFlags};

use super::uring::Ring;
use super::{Application, Block, WriterJob, failed};
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::sched;
use roundtrip_run::storage::{Api, Call, Durability, Opened};

/// An opened file.
pub(super) struct Native {
    file: File,
    durability: Durability,
    /// The io_uring; `None` for plain system calls.
    ring: Option<Ring>,
}

/// The alignment of memory for direct I/O: no block device requires more than a page.
const ALIGNMENT: usize = 4096;

impl Native {
    pub(super) fn open(job: &WriterJob, path: &str) -> Result<Self> {
        let flag = match job.durability {
            Durability::Sync => OFlags::SYNC,
            Durability::Dsync => OFlags::DSYNC,
            Durability::Fsync | Durability::Fdatasync => OFlags::empty(),
        };
        let ring = match job.api {
            Api::Uring | Api::UringPolled => {
                let ring = Ring::new(job.api == Api::UringPolled);
                Some(ring.map_err(|cause| Error::system("set up an io_uring", cause))?)
            }
            _ => None,
        };
        let direct = if ring.is_some() { OFlags::DIRECT } else { OFlags::empty() };
        let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC | flag | direct, Mode::empty())
            .map_err(|cause| Error::file("open", path, cause))?;
        if let Some(scheduling) = job.scheduling {
            sched::set_scheduling(0, scheduling)?;
        }
        Ok(Self { file: file.into(), durability: job.durability, ring })
    }
}

impl Application for Native {
    fn opened(&self) -> Opened {
        Opened { pid: std::process::id(), tid: sched::gettid(), runtime: None }
    }

    fn write(&mut self, block: Block, until: u64) -> Result<Vec<Call>> {
        let length = block.size_bytes as usize;
        let mut memory = vec![0; length + ALIGNMENT];
        let aligned = memory.as_ptr().align_offset(ALIGNMENT);
        let own = aligned..aligned + length;
        let data = match &mut self.ring {
            None => &mut memory[own.clone()],
            Some(ring) => ring.memory(length, ALIGNMENT).map_err(|error| failed(block, error))?,
        };
        (0..).zip(&mut *data).for_each(|(at, byte): (u64, _)| *byte = (at * 31 + 7) as u8);
        // Filled before, so that a timed section takes no page faults on it.
        let mut calls = vec![Call { start_ns: 1, end_ns: 1 }; block.calls as usize];
        let mut position = 0;
        let warm_up = block.warm_up as usize;
        for at in 0..warm_up + calls.len() {
            if position + block.size_bytes > until {
                position = 0;
            }
            self.file.seek(SeekFrom::Start(position)).map_err(|error| failed(block, error))?;
            let start_ns = now_ns();
            let written = match &mut self.ring {
                None => self.file.write_all(&memory[own.clone()]),
                Some(ring) => ring.write(&self.file, position),
            };
            let result = written.and_then(|()| match self.durability {
                Durability::Fsync => self.file.sync_all(),
                Durability::Fdatasync => self.file.sync_data(),
                Durability::Sync | Durability::Dsync => Ok(()),
            });
            let end_ns = now_ns();
            result.map_err(|error| failed(block, error))?;
            position += block.size_bytes;
            if let Some(call) = at.checked_sub(warm_up).and_then(|at| calls.get_mut(at)) {
                *call = Call { start_ns, end_ns };
            }
        }
        Ok(calls)
    }
}
