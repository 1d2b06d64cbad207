//! The parent's side: all workers of a run, one poll loop for their messages, and their end.
//! However the run ends (normally, by an error, a panic or a signal), no process remains. Must not
//! know what the messages mean.

mod look;
mod news;
mod send;
mod wait;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use roundtrip_latency::Sample;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::{Progress, Spawner, Worker, how};
use super::frame::{FromWorker, Kind, ToWorker};
use super::link::{MAX_DESCRIPTORS, Work};
use super::signals::{Interrupts, is_stopping};
use crate::error::{Error, Result};
use crate::kernel::kills::Kills;
pub use news::{Event, What, WorkerId};
use send::encode_json;

/// How long a worker may take to exit after its last message.
const GRACE: Duration = Duration::from_millis(500);

/// How long to wait, after a worker has failed, for the death of another worker that may have
/// caused the failure. The kernel reports them in no particular order.
const CAUSE: Duration = Duration::from_millis(250);

/// Worker processes that live no longer than this value.
///
/// A worker also dies with the *thread* that started it (PR_SET_PDEATHSIG, prctl(2)), so keep a
/// group on one thread.
#[derive(Debug)]
pub struct WorkerGroup {
    spawner: Spawner,
    workers: Vec<Worker>,
    events: VecDeque<Event>,
    /// The error of the first worker that failed, until all earlier messages have been read.
    failure: Option<Error>,
    interrupts: &'static Interrupts,
    /// From before the workers started.
    kills: Kills,
    /// Whether the workers have been requested to make no more calls.
    told_to_stop: bool,
    /// Whether the workers choose other CPUs for each block.
    moves: bool,
    /// Other processes whose conditions are read, with their roles.
    watched: Vec<(String, u32)>,
}

impl WorkerGroup {
    /// A group without workers. From the first group on, the process handles the signals that would
    /// end it.
    ///
    /// # Errors
    /// [`Error::System`] if signal handlers cannot be set, [`Error::Interrupted`] if a signal has
    /// already arrived.
    pub fn new(spawner: Spawner) -> Result<Self> {
        let interrupts = Interrupts::watch()?;
        interrupts.check()?;
        Ok(Self {
            spawner,
            workers: Vec::new(),
            events: VecDeque::new(),
            failure: None,
            interrupts,
            kills: Kills::now(),
            told_to_stop: false,
            moves: false,
            watched: Vec::new(),
        })
    }

    /// Starts a worker. The role names it in errors: "server of pair 2".
    ///
    /// # Errors
    /// [`Error::System`] if the process cannot be started, and as [`WorkerGroup::send`].
    pub fn spawn<J: Work>(&mut self, role: impl Into<String>, job: &J) -> Result<WorkerId> {
        let id = WorkerId(self.workers.len());
        self.workers.push(Worker::spawn(&self.spawner, role.into())?);
        let (parent_pid, name, job) = (std::process::id(), J::NAME.to_owned(), encode_json(job)?);
        self.tell(id, &ToWorker::Start { parent_pid, name, job }, &[])?;
        Ok(id)
    }

    /// Starts a worker that runs in the background and ends after the others. Its death is an error
    /// like that of any other.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`].
    pub fn spawn_background<J: Work>(&mut self, role: impl Into<String>, job: &J) -> Result<WorkerId> {
        let id = self.spawn(role, job)?;
        self.workers[id.0].background = true;
        Ok(id)
    }

    /// A worker's process id.
    #[must_use]
    pub fn pid(&self, worker: WorkerId) -> u32 {
        self.workers[worker.0].pid
    }

    /// A worker's role.
    #[must_use]
    pub fn role(&self, worker: WorkerId) -> &str {
        &self.workers[worker.0].role
    }

    /// Whether a worker has ended, or has reported an error and does nothing more.
    pub(crate) fn has_ended(&self, worker: WorkerId) -> bool {
        matches!(self.workers[worker.0].progress, Progress::Failed | Progress::Ended)
    }

    /// Waits until every worker is ready, then starts all of them.
    ///
    /// # Errors
    /// [`Error::WorkerSilent`] if one is not ready in time; else as [`WorkerGroup::next`].
    pub fn start(&mut self, timeout: Duration) -> Result<()> {
        let until = Instant::now() + timeout;
        let mut kept = VecDeque::new();
        while let Some(waiting) = self.workers.iter().find(|worker| worker.progress == Progress::Starting) {
            let silent = Error::WorkerSilent {
                role: waiting.role.clone(),
                pid: waiting.pid,
                what: "become ready",
                waited_ms: timeout.as_millis() as u64,
            };
            let left = until.saturating_duration_since(Instant::now());
            match self.next(Some(left))? {
                Some(Event { what: What::Ready, .. }) => {}
                Some(event) => kept.push_back(event),
                None => return Err(silent),
            }
        }
        self.check_failure()?;
        kept.append(&mut self.events);
        kept.retain(|event| !matches!(event.what, What::Ready));
        self.events = kept;
        for index in 0..self.workers.len() {
            self.go(WorkerId(index))?;
        }
        self.placed();
        Ok(())
    }

    /// Starts one ready worker. Does nothing for a worker that is not ready.
    ///
    /// # Errors
    /// As [`WorkerGroup::send`].
    pub fn go(&mut self, worker: WorkerId) -> Result<()> {
        if self.workers[worker.0].progress == Progress::Ready {
            self.workers[worker.0].progress = Progress::Going;
            self.tell(worker, &ToWorker::Go, &[])?;
        }
        Ok(())
    }

    /// Asks a worker to make no more calls. It still answers.
    pub fn stop(&self, worker: WorkerId) {
        let worker = &self.workers[worker.0];
        if worker.progress != Progress::Ended {
            worker.stop();
        }
    }

    /// Sends a message to a worker.
    ///
    /// # Errors
    /// [`Error::PeerDied`] if it has died, [`Error::Interrupted`] by a signal.
    pub fn send(&mut self, worker: WorkerId, message: &impl Serialize) -> Result<()> {
        self.send_with_descriptors(worker, message, &[])
    }

    /// Like [`WorkerGroup::send`], with descriptors, which the worker receives as its own
    /// (SCM_RIGHTS, unix(7)). At most 16.
    ///
    /// # Errors
    /// As [`WorkerGroup::send`].
    pub fn send_with_descriptors(
        &mut self,
        worker: WorkerId,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<()> {
        assert!(descriptors.len() <= MAX_DESCRIPTORS, "{} descriptors in one message", descriptors.len());
        let value = encode_json(message)?;
        self.tell(worker, &ToWorker::Message { value, descriptors: descriptors.len() }, descriptors)
    }

    /// Waits for the next event, up to `timeout` if there is one; `None` after the timeout.
    ///
    /// # Errors
    /// [`Error::PeerDied`] as soon as a worker has died before its job was done,
    /// [`Error::WorkerFailed`] with a worker's own error, [`Error::GarbledFrame`],
    /// [`Error::Interrupted`] by a signal. The run is over then: drop the group.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event>> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            self.interrupts.check()?;
            self.tell_to_stop();
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            self.check_failure()?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let readable = self.poll(left, None)?;
            self.interrupts.check()?;
            for index in &readable {
                self.listen(*index)?;
            }
            let time_is_up = left.is_some_and(|left| left.is_zero());
            if readable.is_empty() && time_is_up {
                return Ok(None);
            }
        }
    }

    /// Waits for one worker's next message, which must be a `T`. Other events are kept for
    /// [`WorkerGroup::next`].
    ///
    /// # Errors
    /// As [`WorkerGroup::next`]; [`Error::WorkerSilent`] after the timeout.
    pub fn message<T: DeserializeOwned>(&mut self, worker: WorkerId, timeout: Duration) -> Result<T> {
        let until = Instant::now() + timeout;
        let mut kept = VecDeque::new();
        let value = loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.next(Some(left))? {
                Some(Event { worker: from, what: What::Message(value) }) if from == worker => break value,
                Some(event) => kept.push_back(event),
                None => {
                    return Err(Error::WorkerSilent {
                        role: self.role(worker).to_owned(),
                        pid: self.pid(worker),
                        what: "answer",
                        waited_ms: timeout.as_millis() as u64,
                    });
                }
            }
        };
        kept.append(&mut self.events);
        self.events = kept;
        value.read().map_err(|error| self.garbled(worker, format!("unexpected message: {error}")))
    }

    /// Tells all workers that there are no more messages, waits until each has done its job and
    /// ended, then ends those in the background. Returns the events that arrive during that time.
    ///
    /// # Errors
    /// As [`WorkerGroup::next`]; [`Error::WorkerSilent`] after the timeout.
    pub fn finish(mut self, timeout: Duration) -> Result<Vec<Event>> {
        self.look_last();
        for worker in self.workers.iter_mut().filter(|worker| !worker.background) {
            worker.input = None;
        }
        let until = Instant::now() + timeout;
        let mut last = Vec::new();
        loop {
            last.extend(self.events.drain(..));
            self.interrupts.check()?;
            self.check_failure()?;
            let running = |worker: &&Worker| !worker.background && worker.progress != Progress::Ended;
            let Some(running) = self.workers.iter().find(running) else { return Ok(last) };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::WorkerSilent {
                    role: running.role.clone(),
                    pid: running.pid,
                    what: "end",
                    waited_ms: timeout.as_millis() as u64,
                });
            }
            for index in self.poll(Some(left), None)? {
                self.listen(index)?;
            }
        }
    }

    /// After a signal, if the run keeps what it has measured, asks the workers to end the calls in
    /// progress.
    fn tell_to_stop(&mut self) {
        if !self.told_to_stop && is_stopping() {
            self.told_to_stop = true;
            let running = self.workers.iter().filter(|worker| worker.progress != Progress::Ended);
            running.for_each(Worker::stop);
        }
    }

    /// Handles what a worker sent, or its end.
    fn listen(&mut self, index: usize) -> Result<()> {
        let id = WorkerId(index);
        let worker = &mut self.workers[index];
        if !worker.fill()? {
            return self.ended(id);
        }
        loop {
            let worker = &mut self.workers[index];
            let said = match worker.decoder.next() {
                Ok(None) => return Ok(()),
                Ok(Some((Kind::Samples, bytes))) => {
                    Sample::decode_all(bytes).map(What::Samples).map_err(|error| error.to_string())
                }
                Ok(Some((Kind::Json, bytes))) => match roundtrip_stored::read_text(bytes) {
                    Ok(FromWorker::Ready) => {
                        worker.progress = Progress::Ready;
                        Ok(What::Ready)
                    }
                    Ok(FromWorker::Message(value)) => Ok(What::Message(value)),
                    Ok(FromWorker::Done) => {
                        worker.progress = Progress::Done;
                        Ok(What::Done)
                    }
                    Ok(FromWorker::Failed(message)) => {
                        worker.progress = Progress::Failed;
                        let (role, pid) = (worker.role.clone(), worker.pid);
                        self.failure.get_or_insert(Error::WorkerFailed { role, pid, message });
                        return Ok(());
                    }
                    Err(error) => Err(error.to_string()),
                },
                Err(reason) => Err(reason),
            };
            match said {
                Ok(what) => self.events.push_back(Event { worker: id, what }),
                Err(reason) => return Err(self.garbled(id, reason)),
            }
        }
    }

    /// Fails if a worker has failed. The error is the death of another worker, if there was one,
    /// else the worker's own.
    fn check_failure(&mut self) -> Result<()> {
        let Some(failure) = self.failure.take() else { return Ok(()) };
        let until = Instant::now() + CAUSE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let readable = self.poll(Some(left), None)?;
            self.interrupts.check()?;
            for index in readable {
                self.listen(index)?;
            }
            if left.is_zero() {
                return Err(failure);
            }
        }
    }

    /// A worker's channel was closed: its process must have ended, and its job must have been done.
    fn ended(&mut self, id: WorkerId) -> Result<()> {
        let worker = &mut self.workers[id.0];
        let done = worker.progress == Progress::Done;
        let status = worker.end(GRACE)?;
        // The signal that interrupts us may also have ended the worker. Then the signal is the
        // reason to report.
        self.interrupts.check()?;
        if done && status.success() { Ok(()) } else { Err(self.workers[id.0].died(how(status, self.kills))) }
    }

    fn garbled(&self, worker: WorkerId, reason: String) -> Error {
        Error::GarbledFrame { from: self.workers[worker.0].name(), reason }
    }
}

impl Drop for WorkerGroup {
    fn drop(&mut self) {
        // Kills all at once, so that none waits for a peer that is already dead. Each is then
        // reaped by its own drop.
        for worker in self.workers.iter_mut().filter(|worker| worker.progress != Progress::Ended) {
            worker.kill();
        }
    }
}
