//! The writer without a runtime: `write` and what makes it durable, as system calls. Must not know what they are measured
//! for.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

use rustix::fs::{Mode, OFlags};

use super::{Application, Block, Call, Durability, Opened, WriterJob, failed};
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::sched;

/// An opened file.
#[derive(Debug)]
pub(super) struct Native {
    file: File,
    durability: Durability,
}

impl Native {
    pub(super) fn open(job: &WriterJob, path: &str) -> Result<Native> {
        let flag = match job.durability {
            Durability::Sync => OFlags::SYNC,
            Durability::Dsync => OFlags::DSYNC,
            Durability::Fsync | Durability::Fdatasync => OFlags::empty(),
        };
        let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC | flag, Mode::empty())
            .map_err(|cause| Error::file("open", path, cause))?;
        if let Some(scheduling) = job.scheduling {
            sched::set_scheduling(0, scheduling)?;
        }
        Ok(Native { file: file.into(), durability: job.durability })
    }
}

impl Application for Native {
    fn opened(&self) -> Opened {
        Opened { pid: std::process::id(), tid: sched::gettid(), runtime: None }
    }

    fn write(&mut self, block: Block, until: u64) -> Result<Vec<Call>> {
        let data: Vec<u8> = (0..block.size_bytes).map(|at| (at * 31 + 7) as u8).collect();
        // Touched before: no page of it is missing in a timed section.
        let mut calls = vec![Call { start_ns: 1, end_ns: 1 }; block.calls as usize];
        let mut position = 0;
        let warm_up = block.warm_up as usize;
        for at in 0..warm_up + calls.len() {
            if position + block.size_bytes > until {
                position = 0;
            }
            self.file.seek(SeekFrom::Start(position)).map_err(|error| failed(block, error))?;
            position += block.size_bytes;
            let start_ns = now_ns();
            let result = self.file.write_all(&data).and_then(|()| match self.durability {
                Durability::Fsync => self.file.sync_all(),
                Durability::Fdatasync => self.file.sync_data(),
                Durability::Sync | Durability::Dsync => Ok(()),
            });
            let end_ns = now_ns();
            result.map_err(|error| failed(block, error))?;
            if let Some(call) = at.checked_sub(warm_up).and_then(|at| calls.get_mut(at)) {
                *call = Call { start_ns, end_ns };
            }
        }
        Ok(calls)
    }
}
