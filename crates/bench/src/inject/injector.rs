//! Disturbances from outside the server: a process that now and then uses a CPU, holds a lock,
//! stops the server or sends packets. It ends with its group. Must not know what it disturbs.

use std::fs::File;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::log::Log;
use crate::clock::now_ns;
use crate::error::{Disturbance, Error, Result};
use crate::sched::{self, gettid};
use crate::worker::{Link, Work};
use roundtrip_run::Scheduling;
use roundtrip_run::injection::{Cause, Injection};

/// The injector's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct InjectorJob {
    pub(super) injection: Injection,
    pub(super) log: Option<PathBuf>,
    pub(super) lock: Option<PathBuf>,
    pub(super) servers: Vec<u32>,
    pub(super) cpus: Vec<u32>,
}

impl Work for InjectorJob {
    const NAME: &'static str = "injector";

    /// Disturbs until the process is killed.
    fn run(self, link: &mut Link) -> Result<()> {
        sched::set_allowed_cpus(0, &self.cpus)?;
        let log = Log::open(self.log.as_deref())?;
        let lock = self.lock.as_ref().map(|path| {
            let opened = File::options().read(true).write(true).open(path);
            opened.map_err(|source| Error::file("open", path, source))
        });
        let lock = lock.transpose()?;
        let hog = (self.injection.cause == Cause::LockPreempted).then(|| self.hog_beside()).transpose()?;
        let flood = (self.injection.cause == Cause::Flood).then(flood).transpose()?;
        if matches!(self.injection.cause, Cause::Hog | Cause::Flood) {
            sched::set_scheduling(0, self.injection.scheduling)?;
        }
        // The holder of a lock should not compete with its waiters for a CPU more than needed.
        if self.injection.cause == Cause::LockPreempted {
            sched::set_scheduling(0, Scheduling::other(0))?;
        }
        link.ready()?;
        loop {
            std::thread::sleep(Duration::from_nanos(self.injection.every_ns - self.injection.for_ns));
            let begin_ns = now_ns();
            match (self.injection.cause, &lock, &hog, &flood) {
                (Cause::Hog, ..) => spin_until(begin_ns + self.injection.for_ns),
                (Cause::Flood, _, _, Some(socket)) => {
                    while now_ns() < begin_ns + self.injection.for_ns {
                        // A full queue is the intended effect.
                        let _ = socket.send(&[0; PACKET_BYTES]);
                    }
                }
                (Cause::Stop, ..) => self.stop(),
                (Cause::Lock, Some(lock), ..) => {
                    hold(lock, || std::thread::sleep(Duration::from_nanos(self.injection.for_ns)));
                }
                (Cause::LockPreempted, Some(lock), Some(hog), _) => hold(lock, || hog.once()),
                _ => {}
            }
            let tid = hog.as_ref().map_or_else(gettid, |hog| hog.tid);
            log.note(self.injection.cause, tid, begin_ns, now_ns());
        }
    }
}

impl InjectorJob {
    /// Whether the cause of the injection needs the injector.
    pub(super) fn has_work(&self) -> bool {
        !matches!(self.injection.cause, Cause::Work | Cause::Sleep | Cause::Fsync)
    }

    /// Stops every server for a while (SIGSTOP).
    fn stop(&self) {
        let all = |signal| {
            for pid in self.servers.iter().filter_map(|&pid| Pid::from_raw(pid.cast_signed())) {
                // If a server has exited, the run ends anyway.
                let _ = kill_process(pid, signal);
            }
        };
        all(Signal::STOP);
        std::thread::sleep(Duration::from_nanos(self.injection.for_ns));
        all(Signal::CONT);
    }

    /// Starts a thread that takes this thread's only CPU on request.
    fn hog_beside(&self) -> Result<Hog> {
        let (cpu, for_ns, scheduling) =
            (self.cpus[..1].to_vec(), self.injection.for_ns, self.injection.scheduling);
        sched::set_allowed_cpus(0, &cpu)?;
        let wanted = Arc::new(AtomicBool::new(false));
        let (sender, started) = std::sync::mpsc::channel();
        let shared = Arc::clone(&wanted);
        let body = move || {
            let ready = sched::set_allowed_cpus(0, &cpu).and_then(|()| sched::set_scheduling(0, scheduling));
            if let Err(error) = ready {
                // If the receiver no longer exists, the error is not needed.
                let _ = sender.send(Err(error));
                return;
            }
            let _ = sender.send(Ok(gettid()));
            loop {
                while !shared.swap(false, Ordering::Acquire) {
                    std::thread::park();
                }
                spin_until(now_ns() + for_ns);
            }
        };
        let thread = std::thread::Builder::new()
            .spawn(body)
            .map_err(|cause| Error::system("start the CPU hog that preempts the lock holder", cause))?;
        let tid = started.recv().map_err(|_| Error::from(Disturbance::HogEnded))??;
        Ok(Hog { tid, wanted, thread: thread.thread().clone() })
    }
}

/// A thread that takes a CPU for a while.
struct Hog {
    tid: u32,
    wanted: Arc<AtomicBool>,
    thread: std::thread::Thread,
}

impl Hog {
    /// Runs the hog once. The caller, on the same CPU, continues when the hog has finished.
    fn once(&self) {
        self.wanted.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn hold(lock: &File, while_held: impl FnOnce()) {
    if rustix::fs::flock(lock, FlockOperation::LockExclusive).is_ok() {
        while_held();
        let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
    }
}

fn spin_until(until_ns: u64) {
    while now_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// The length of a packet in bytes.
pub(crate) const PACKET_BYTES: usize = 1024;

/// A socket that sends packets to this machine. No process receives them.
pub(crate) fn flood() -> Result<UdpSocket> {
    let failed = |cause: std::io::Error| Error::system("send packets to this machine", cause);
    let receiver = UdpSocket::bind(("127.0.0.1", 0)).map_err(failed)?;
    let sender = UdpSocket::bind(("127.0.0.1", 0)).map_err(failed)?;
    sender.connect(receiver.local_addr().map_err(failed)?).map_err(failed)?;
    // The receiving socket stays open for the life of this process.
    std::mem::forget(receiver);
    Ok(sender)
}
