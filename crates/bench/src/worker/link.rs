//! The worker's side: reads its job from standard input, does it, and reports on standard output.
//! Ends when the parent exits. Must not know any job: the program passes in those that it
//! supports.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use roundtrip_latency::Sample;
use roundtrip_stored::Json;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::thread::CapabilitySet;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::{Decoder, FromWorker, Kind, MAX_PAYLOAD, ToWorker, encode};
use super::{privileges, sys};
use crate::error::{Error, Result};

/// The most descriptors in one message.
pub(super) const MAX_DESCRIPTORS: usize = 16;

/// A job: what a worker is asked to do, read from the parent's first frame.
pub trait Work: Serialize + DeserializeOwned {
    /// The name by which the worker's program finds it ([`Registered`]).
    const NAME: &'static str;

    /// What the process is called in `ps` and in traces. Otherwise it would be `exe`, the file that
    /// it was executed from.
    const PROCESS: &'static str = Self::NAME;

    /// The capabilities that the job needs. It gets those that the parent has.
    const KEEPS: CapabilitySet = privileges::USUAL;

    /// Does the job. An error is reported to the parent, which ends the run with it.
    ///
    /// # Errors
    /// If the job cannot be done.
    fn run(self, link: &mut Link) -> Result<()>;
}

/// A kind of job that a program supports.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    name: &'static str,
    run: fn(&Json, &mut Link) -> Result<()>,
}

impl Registered {
    /// Jobs of this type.
    #[must_use]
    pub const fn of<J: Work>() -> Self {
        let run = |job: &Json, link: &mut Link| {
            // Before other threads start, because they inherit the name.
            crate::sched::set_name(J::PROCESS);
            start(job, J::KEEPS).and_then(|job| read::<J>(&job))?.run(link)
        };
        Self { name: J::NAME, run }
    }
}

/// Drops all other capabilities. Returns the job with paths that can be opened without them.
fn start(job: &Json, keeps: CapabilitySet) -> Result<Json> {
    let job = privileges::taken_over(job);
    privileges::keep_only(keeps)?;
    Ok(job)
}

fn read<J: Work>(job: &Json) -> Result<J> {
    job.read().map_err(|error| garbled(format!("unknown job: {error}")))
}

/// Runs this process as a worker that supports `jobs`. This is all that the hidden command does.
///
/// Returns whether the job was done, for the exit status. An error is sent to the parent in a
/// frame.
#[must_use]
pub fn main(jobs: &[Registered]) -> bool {
    // Ctrl-C, Ctrl-\\ and a closing terminal signal the whole process group. The parent decides
    // what ends.
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        sys::ignore(signal);
    }
    // The parent sends SIGTERM to ask for no more calls, and timeout(1) sends it to all of us.
    // Without a handler, it would end this process.
    let _ = sys::stop_by(libc::SIGTERM);
    let Ok(mut link) = Link::open() else { return false };
    let result = link.start().and_then(|(name, job)| {
        let known = jobs.iter().find(|known| known.name == name);
        let known = known.ok_or_else(|| garbled(format!("unknown job: {name}")))?;
        (known.run)(&job, &mut link)
    });
    let last = match &result {
        Ok(()) => FromWorker::Done,
        Err(error) => FromWorker::Failed(error.to_string()),
    };
    link.tell(&last).is_ok() && result.is_ok()
}

/// A worker's connection to its parent.
#[derive(Debug)]
pub struct Link {
    input: OwnedFd,
    output: File,
    decoder: Decoder,
    /// Received descriptors that no message has claimed yet.
    descriptors: VecDeque<OwnedFd>,
}

impl Link {
    /// Takes standard input and output for the frames. From now on, anything else that is printed
    /// goes to standard error.
    fn open() -> Result<Self> {
        let failed = |source| Error::system("take over standard input and output", source);
        let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(failed)?;
        let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(failed)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(failed)?;
        Ok(Self { input, output: output.into(), decoder: Decoder::default(), descriptors: VecDeque::new() })
    }

    /// The pipe to the parent. The parent regards this process as ended when all copies are closed.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Makes sure that this process dies with its parent. Then receives the job and its name.
    fn start(&mut self) -> Result<(String, Json)> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|source| Error::system("ask to die with the parent", source))?;
        match self.next()? {
            Some(ToWorker::Start { parent_pid, name, job }) => {
                // The parent may have died before the request above. Then another process has
                // adopted this one.
                let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
                if parent.unsigned_abs() == parent_pid { Ok((name, job)) } else { Err(Error::Orphaned) }
            }
            Some(_) => Err(garbled("a job was expected first")),
            None => Err(Error::Orphaned),
        }
    }

    /// Reports that this worker is set up, and waits until all workers of the run are.
    ///
    /// # Errors
    /// [`Error::Orphaned`] if the parent has exited.
    pub fn ready(&mut self) -> Result<()> {
        self.tell(&FromWorker::Ready)?;
        match self.next()? {
            Some(ToWorker::Go) => Ok(()),
            Some(_) => Err(garbled("`go` was expected")),
            None => Err(Error::Orphaned),
        }
    }

    /// Sends a message to the parent.
    ///
    /// # Errors
    /// [`Error::Orphaned`] if the parent has exited.
    pub fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let value = Json::of(message).map_err(|error| garbled(format!("cannot be encoded: {error}")))?;
        self.tell(&FromWorker::Message(value))
    }

    /// Sends samples to the parent, in as many frames as needed.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub fn send_samples(&mut self, samples: &[Sample]) -> Result<()> {
        for chunk in samples.chunks(MAX_PAYLOAD / Sample::ENCODED_LEN) {
            self.write(Kind::Samples, &Sample::encode_all(chunk))?;
        }
        Ok(())
    }

    /// Waits for the parent's next message; `None` if there will be no more, which asks the job to
    /// end.
    ///
    /// # Errors
    /// [`Error::GarbledFrame`] if the message is not a `T`.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        Ok(self.receive_with_descriptors()?.map(|(message, _)| message))
    }

    /// Like [`Link::receive`], with the descriptors that were sent beside the message, in order.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn receive_with_descriptors<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<OwnedFd>)>> {
        match self.next()? {
            Some(ToWorker::Message { value, descriptors }) => {
                if descriptors > self.descriptors.len() {
                    return Err(garbled(
                        "descriptors were lost on the way (is the limit of open files reached?)",
                    ));
                }
                let descriptors = self.descriptors.drain(..descriptors).collect();
                let message =
                    value.read().map_err(|error| garbled(format!("unexpected message: {error}")))?;
                Ok(Some((message, descriptors)))
            }
            Some(_) => Err(garbled("a message was expected")),
            None => Ok(None),
        }
    }

    fn tell(&mut self, what: &FromWorker) -> Result<()> {
        let payload = roundtrip_stored::to_text(what)
            .map_err(|error| garbled(format!("cannot be encoded: {error}")))?;
        if payload.len() > MAX_PAYLOAD {
            return Err(garbled(format!("a message of {} bytes is too long to send", payload.len())));
        }
        self.write(Kind::Json, payload.as_bytes())
    }

    fn write(&mut self, kind: Kind, payload: &[u8]) -> Result<()> {
        // This fails only if no process reads from the pipe any longer.
        self.output.write_all(&encode(kind, payload)).map_err(|_| Error::Orphaned)
    }

    fn next(&mut self) -> Result<Option<ToWorker>> {
        loop {
            if let Some((kind, payload)) = self.decoder.next().map_err(garbled)? {
                if kind != Kind::Json {
                    return Err(garbled("samples never come from the parent"));
                }
                return roundtrip_stored::read_text(payload)
                    .map(Some)
                    .map_err(|error| garbled(error.to_string()));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Reads what has arrived, including descriptors. Returns false at the end of the connection.
    fn fill(&mut self) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 16 * 1024];
        let received = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.input, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => break received.bytes,
                Err(rustix::io::Errno::INTR) => {}
                // The parent died with unread frames of ours.
                Err(rustix::io::Errno::CONNRESET) => break 0,
                Err(source) => return Err(Error::system("read from the parent process", source)),
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.decoder.push(&bytes[..received]);
        Ok(received > 0)
    }
}

fn garbled(reason: impl Into<String>) -> Error {
    Error::GarbledFrame { from: "the parent process".into(), reason: reason.into() }
}
