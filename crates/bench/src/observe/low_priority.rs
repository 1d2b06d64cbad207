//! Runs an observer at a low priority, so that it does not delay the programs that it observes, and
//! raises it before it loses events. Must not know what it observes.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use roundtrip_latency::Policy;
use roundtrip_run::Scheduling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::sched;
use crate::worker::Interrupts;

/// How long after its last round the observer counts as starved, in nanoseconds.
const STARVED_NS: u64 = 500_000_000;

/// How often that is checked, in nanoseconds.
const CHECKED_EVERY_NS: i64 = 100_000_000;

/// Lets an observer run only where a CPU would idle (SCHED_IDLE). A second thread, which mostly
/// sleeps, keeps the observer from being late. If the observer has had no CPU for so long that
/// events may be lost, the second thread lets it compete at the lowest ordinary priority until its
/// next round. Once the time is up, a signal asks to end or the observed command has ended, the
/// observer gets its usual scheduling back.
pub(super) struct LowPriority {
    tid: u32,
    before: Option<Scheduling>,
    noted: Arc<Noted>,
    thread: Option<JoinHandle<()>>,
    /// The second thread ends when this is closed.
    alive: Option<PipeWriter>,
}

/// State that the two threads share. Times are in nanoseconds; 0 means that it has not happened.
#[derive(Default)]
struct Noted {
    last_round_ns: AtomicU64,
    command_ended_ns: AtomicU64,
    /// Whether the observer is to end.
    ends: AtomicBool,
}

impl LowPriority {
    /// Begins, for the calling thread, which observes until `until_ns` at most.
    ///
    /// # Errors
    /// [`Error::System`] if there are no more descriptors or threads.
    pub(super) fn begin(
        interrupts: &'static Interrupts,
        command: Option<&Child>,
        until_ns: Option<u64>,
    ) -> Result<Self> {
        let failed = |cause| Error::system("start a thread of the observer", cause);
        let tid = sched::gettid();
        let before = sched::scheduling(tid).ok();
        let noted = Arc::new(Noted::default());
        let (dead, alive) = std::io::pipe().map_err(failed)?;
        // Kernels before 5.3 have no pidfd. Then the end of the command is noticed later.
        let command = command.and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::from_raw);
        let command = command.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let overseer =
            Overseer { tid, before, noted: Arc::clone(&noted), interrupts, dead, command, until_ns };
        let thread = std::thread::Builder::new().name("overseer".into()).spawn(|| overseer.run());
        Ok(Self { tid, before, noted, thread: Some(thread.map_err(failed)?), alive: Some(alive) })
    }

    /// Notes that a round begins, and lowers the observer's priority again.
    pub(super) fn turn(&self, now_ns: u64) {
        self.noted.last_round_ns.store(now_ns, Ordering::SeqCst);
        let ends = self.noted.ends.load(Ordering::SeqCst);
        if !ends && sched::scheduling(self.tid).is_ok_and(|scheduling| scheduling.policy != Policy::Idle) {
            // This fails only where a security policy forbids it. Then the observer keeps its usual
            // priority.
            let _ = sched::set_scheduling(self.tid, lowest(Policy::Idle));
        }
    }

    /// When the command ended, in nanoseconds, if that was noticed.
    pub(super) fn command_ended_ns(&self) -> Option<u64> {
        Some(self.noted.command_ended_ns.load(Ordering::SeqCst)).filter(|ns| *ns > 0)
    }
}

impl Drop for LowPriority {
    fn drop(&mut self) {
        // Restored first: otherwise, this thread might get no CPU while it waits for the second
        // one.
        restore(self.tid, self.before);
        self.alive = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // The second thread may have changed the scheduling in between.
        restore(self.tid, self.before);
    }
}

fn lowest(policy: Policy) -> Scheduling {
    Scheduling { policy, ..Scheduling::other(19) }
}

fn restore(tid: u32, before: Option<Scheduling>) {
    if let Some(before) = before {
        let _ = sched::set_scheduling(tid, before);
    }
}

struct Overseer {
    tid: u32,
    before: Option<Scheduling>,
    noted: Arc<Noted>,
    interrupts: &'static Interrupts,
    dead: PipeReader,
    /// The command, until it has ended.
    command: Option<OwnedFd>,
    /// When observing is to end, in nanoseconds.
    until_ns: Option<u64>,
}

impl Overseer {
    fn run(mut self) {
        let mut signalled = false;
        loop {
            let [dead, ended, signal] = self.wait(signalled);
            if dead {
                return;
            }
            if ended {
                self.noted.command_ended_ns.store(now_ns(), Ordering::SeqCst);
                self.command = None;
            }
            signalled |= signal;
            if ended || signal || self.until_ns.is_some_and(|until_ns| now_ns() >= until_ns) {
                self.noted.ends.store(true, Ordering::SeqCst);
            }
            if self.noted.ends.load(Ordering::SeqCst) {
                // Done each time, because the observer may just have lowered its own priority.
                restore(self.tid, self.before);
            } else if self.is_starved() {
                let _ = sched::set_scheduling(self.tid, lowest(Policy::Other));
            }
        }
    }

    /// Waits until something happens, or it is time to check. Returns whether the observer is gone,
    /// whether the command has ended, and whether a signal has arrived.
    fn wait(&self, signalled: bool) -> [bool; 3] {
        let mut waited = vec![PollFd::new(&self.dead, PollFlags::IN)];
        waited.extend(self.command.as_ref().map(|command| PollFd::new(command, PollFlags::IN)));
        // After a signal, this descriptor stays readable.
        waited.extend((!signalled).then(|| PollFd::new(self.interrupts, PollFlags::IN)));
        let every = Timespec { tv_sec: 0, tv_nsec: CHECKED_EVERY_NS };
        if poll(&mut waited, Some(&every)).is_err() {
            return [false; 3];
        }
        let mut happened = waited.iter().map(|one| !one.revents().is_empty());
        let mut next = |is_waited: bool| is_waited && happened.next().unwrap_or(false);
        [next(true), next(self.command.is_some()), next(!signalled)]
    }

    fn is_starved(&self) -> bool {
        let last_ns = self.noted.last_round_ns.load(Ordering::SeqCst);
        last_ns > 0 && now_ns().saturating_sub(last_ns) > STARVED_NS
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_end_of_a_command_is_noted_and_the_priority_given_back() {
        let interrupts = Interrupts::watch().unwrap();
        let policy = || sched::scheduling(0).unwrap().policy;
        let before = policy();
        let mut command = Command::new("sleep").arg("0.2").spawn().unwrap();
        let low_priority = LowPriority::begin(interrupts, Some(&command), None).unwrap();
        let begun_ns = now_ns();
        low_priority.turn(begun_ns);
        assert_eq!((policy(), low_priority.command_ended_ns()), (Policy::Idle, None));
        command.wait().unwrap();
        let begun = Instant::now();
        while low_priority.command_ended_ns().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(low_priority.command_ended_ns().unwrap() >= begun_ns + 100_000_000);
        low_priority.turn(now_ns());
        drop(low_priority);
        assert_eq!(policy(), before);
    }

    #[test]
    fn when_the_time_is_up_an_observer_competes_as_before() {
        let interrupts = Interrupts::watch().unwrap();
        let policy = || sched::scheduling(0).unwrap().policy;
        let before = policy();
        let low_priority = LowPriority::begin(interrupts, None, Some(now_ns())).unwrap();
        let begun = Instant::now();
        low_priority.turn(now_ns());
        while policy() != before {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(low_priority);
    }
}
