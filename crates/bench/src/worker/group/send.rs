//! Sends frames to a worker as fast as it accepts them, while the messages of all workers are read.
//! Must not know what a message means.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use roundtrip_stored::Json;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Serialize;

use super::{GRACE, WorkerGroup, WorkerId};
use crate::error::{Error, JobFault, Result};
use crate::worker::child::Progress;
use crate::worker::frame::{Kind, MAX_PAYLOAD, ToWorker, encode};
use crate::worker::link::MAX_DESCRIPTORS;

impl WorkerGroup {
    pub(super) fn tell(
        &mut self,
        id: WorkerId,
        what: &ToWorker,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        let payload = encode_json_text(what)?;
        let frame = encode(Kind::Json, payload.as_bytes());
        let mut rest = &frame[..];
        let mut descriptors = descriptors;
        while !rest.is_empty() {
            let Some(input) = &self.workers[id.0].input else {
                return Err(self.workers[id.0].died("has already ended".into()));
            };
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !descriptors.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            match sendmsg(input, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    rest = &rest[sent..];
                    descriptors = &[];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.check_failure()?;
                    for index in self.poll(None, Some(id))? {
                        self.listen(index)?;
                    }
                    self.interrupts.check()?;
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.last_words(id)?),
                Err(source) => {
                    return Err(Error::system(format!("write to {}", self.workers[id.0].name()), source));
                }
            }
        }
        Ok(())
    }

    /// Why a worker no longer reads: its last messages, or how it ended, explain more than the
    /// broken channel.
    fn last_words(&mut self, id: WorkerId) -> Result<Error> {
        let until = Instant::now() + GRACE;
        while self.workers[id.0].progress != Progress::Ended {
            self.check_failure()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(self.workers[id.0].died("stopped reading".into()));
            }
            for index in self.poll(Some(left), None)? {
                self.listen(index)?;
            }
        }
        Ok(self.workers[id.0].died("has already ended".into()))
    }
}

pub(super) fn encode_json(value: &impl Serialize) -> Result<Json> {
    Json::of(value).map_err(|error| JobFault::Unsendable { reason: error.to_string() }.into())
}

fn encode_json_text(value: &impl Serialize) -> Result<String> {
    let text = roundtrip_stored::to_text(value)
        .map_err(|error| JobFault::Unsendable { reason: error.to_string() })?;
    if text.len() > MAX_PAYLOAD {
        return Err(JobFault::TooLong { bytes: text.len() }.into());
    }
    Ok(text)
}
