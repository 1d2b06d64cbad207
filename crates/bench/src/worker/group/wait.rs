//! Waits for the workers. Must not know what they send.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::super::child::timespec;
use super::super::signals::is_stopping;
use super::{Progress, WorkerGroup, WorkerId};
use crate::clock::now_ns;
use crate::conditions;
use crate::error::{Error, Result};

/// How often a run that is being stopped checks for another signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl WorkerGroup {
    /// The workers that have sent something or have ended. With `writable`, also returns as soon as
    /// that worker accepts more.
    pub(super) fn poll(&self, timeout: Option<Duration>, writable: Option<WorkerId>) -> Result<Vec<usize>> {
        let mut indexes = Vec::new();
        // Once a signal has arrived, the descriptor stays readable.
        let stopping = is_stopping();
        // It wakes up now and then to notice that this process was stopped, or a worker moved.
        let tick = if stopping { LOOK_EVERY } else { conditions::until_glimpse() };
        let timeout = timeout.map_or(tick, |timeout| timeout.min(tick));
        let mut fds = Vec::new();
        if !stopping {
            fds.push(PollFd::new(self.interrupts, PollFlags::IN));
        }
        let own = fds.len();
        for (index, worker) in self.workers.iter().enumerate() {
            if !matches!(worker.progress, Progress::Failed | Progress::Ended) {
                indexes.push(index);
                fds.push(PollFd::from_borrowed_fd(worker.output_fd(), PollFlags::IN));
            }
        }
        if let Some(input) = writable.and_then(|id| self.workers[id.0].input.as_ref()) {
            fds.push(PollFd::new(input, PollFlags::OUT));
        }
        let from_ns = now_ns();
        let polled = poll(&mut fds, Some(&timespec(timeout)));
        conditions::waited(from_ns, timeout.as_nanos() as u64);
        conditions::glimpse(|| self.processes());
        match polled {
            // A signal: the caller checks the time and the interrupts.
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(Error::system("wait for the workers", source)),
        }
        Ok(indexes
            .into_iter()
            .zip(&fds[own..])
            .filter_map(|(index, fd)| (!fd.revents().is_empty()).then_some(index))
            .collect())
    }
}
