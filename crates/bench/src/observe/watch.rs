//! The loop of an observer: reads a recorder's pages several times a second while it records, until
//! the time is up, a command has ended, or a signal arrives. Must not know what is looked for in
//! the events.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use roundtrip_run::observe::{Process, Subject};
use roundtrip_tracefs::{CpuSnapshot, Recording, Selection, Snapshot, Stream, Trace, Tracefs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::following::{self, Headless};
use super::low_priority::LowPriority;
use super::processes::Processes;
use crate::clock::now_ns;
use crate::conditions;
use crate::directory::scratch::Folder;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::worker::{Interrupts, keep};

/// How often the buffers are emptied, in nanoseconds.
const EVERY_NS: u64 = 100_000_000;

/// How long after its timestamp an event may become readable, in nanoseconds: its CPU may have
/// interrupts off, or the hypervisor may take that CPU.
const IN_FLIGHT_NS: u64 = 20_000_000;

/// How long pages are kept, in nanoseconds, and how many bytes of them. If a call takes longer,
/// only its end is recorded.
const KEEP_NS: u64 = 5_000_000_000;
const KEEP_BYTES: usize = 24 << 20;

/// A running recorder, and what is known of the processes in it.
pub(super) struct Watch {
    pub(super) recorder: Recorder,
    pub(super) stream: Stream,
    pub(super) processes: Processes,
    pub(super) lost_events: u64,
    /// What another program changed, after which events are missing.
    pub(super) changed: Option<String>,
    /// How many bytes of events arrived in this round.
    pub(super) taken_bytes: usize,
    /// The kernel's list of threads and their processes, read at most once a round: it is long.
    saved: Option<std::collections::BTreeMap<u32, u32>>,
    /// If the kernel records only the observed threads: which of their processes lost the first
    /// one.
    headless: Option<Headless>,
    pub(super) folder: Folder,
}

/// What to watch, how long, and what to call it in a progress line.
pub(super) struct Watched<'a> {
    pub(super) subject: &'a Subject,
    pub(super) duration_ns: Option<u64>,
    pub(super) what: &'static str,
}

/// Consumes the events.
pub(super) trait Observer {
    /// Processes the events since the last round.
    fn round(&mut self, watch: &mut Watch, trace: &Trace) -> Result<()>;

    /// Whether it has seen enough.
    fn has_enough(&self) -> bool {
        false
    }
}

impl Watch {
    /// A recorder of these events, not yet on, and a recording beside `directory` for the snapshots
    /// of slow calls.
    pub(super) fn open(
        directory: &Path,
        kilobytes: u64,
        select: impl FnOnce(&Tracefs) -> roundtrip_tracefs::Result<Selection>,
    ) -> Result<(Self, Recording)> {
        let mut followed_only = false;
        let recorder = Recorder::of(kilobytes, |tracefs| {
            select(tracefs).inspect(|selection| followed_only = selection.followed_only)
        })?;
        let folder = Folder::beside(directory)?;
        let recording =
            Recording::create(&folder.partial, recorder.instance.header(), recorder.tracefs.root())?;
        let stream = Stream::new(recording.parse_formats()?, KEEP_NS, KEEP_BYTES);
        let processes = Processes::default();
        Ok((
            Self {
                recorder,
                stream,
                processes,
                lost_events: 0,
                changed: None,
                taken_bytes: 0,
                saved: None,
                headless: followed_only.then(Headless::default),
                folder,
            },
            recording,
        ))
    }

    /// Observes until the end, and returns how long, in nanoseconds. A failure of the recorder ends
    /// it, and what was observed until then is kept.
    pub(super) fn run(
        &mut self,
        interrupts: &'static Interrupts,
        watched: &Watched<'_>,
        observer: &mut dyn Observer,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<u64> {
        let (start_ns, command) = self.start(watched.subject)?;
        let mut until_ns = start_ns;
        let ended = self.rounds(interrupts, (watched, command), (start_ns, &mut until_ns), observer, report);
        let ended = ended.and_then(|()| self.last_round(observer));
        if let Err(error) = ended {
            self.changed.get_or_insert(format!("recording ended: {error}"));
            keep(error, until_ns > start_ns)?;
        }
        Ok(until_ns - start_ns)
    }

    /// Reads the buffers until the end. Notes in `until_ns` until when everything was observed.
    fn rounds(
        &mut self,
        interrupts: &'static Interrupts,
        (watched, mut command): (&Watched<'_>, Option<Started>),
        (start_ns, until_ns): (u64, &mut u64),
        observer: &mut dyn Observer,
        report: &mut dyn FnMut(Progress<'_>),
    ) -> Result<()> {
        let ends_ns = watched.duration_ns.map(|most_ns| start_ns.saturating_add(most_ns));
        let low_priority =
            LowPriority::begin(interrupts, command.as_ref().map(|started| &started.0), ends_ns)?;
        loop {
            let now_ns = now_ns();
            let elapsed_ns = now_ns.saturating_sub(start_ns);
            let left_ns = watched.duration_ns.map_or(EVERY_NS, |most_ns| most_ns.saturating_sub(elapsed_ns));
            if let Some(total) = watched.duration_ns {
                let done = elapsed_ns.min(total) / 1_000_000;
                report(Progress { what: watched.what, done, total: total / 1_000_000 });
            }
            if left_ns == 0 {
                *until_ns = now_ns;
                return Ok(());
            }
            if command.as_mut().is_some_and(Started::has_ended) {
                *until_ns = low_priority.command_ended_ns().unwrap_or(now_ns);
                return Ok(());
            }
            low_priority.turn(now_ns);
            let paused = pause(interrupts, left_ns.min(EVERY_NS));
            self.round(observer)?;
            self.check(true);
            conditions::look(&[]);
            *until_ns = crate::clock::now_ns();
            if paused?.is_break() || observer.has_enough() {
                return Ok(());
            }
        }
    }

    /// Stops the recorder, and reads what is left.
    fn last_round(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.check(true);
        self.recorder.instance.off()?;
        // Waits for events that are still being written.
        std::thread::sleep(Duration::from_nanos(IN_FLIGHT_NS * 2));
        self.round(observer)?;
        self.check(false);
        Ok(())
    }

    /// Notes if another program has disturbed the recorder since the last round. `is_on` says
    /// whether the recorder is on.
    fn check(&mut self, is_on: bool) {
        if self.changed.is_none() {
            self.changed = self.recorder.changed(is_on);
        }
    }

    fn round(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let until_ns = now_ns().saturating_sub(IN_FLIGHT_NS);
        let cpus = self.recorder.instance.take()?;
        self.lost_events = lost(&cpus);
        self.taken_bytes = cpus.iter().map(|cpu| cpu.pages.len()).sum();
        let trace = self.stream.take_in(cpus, until_ns)?;
        self.processes.learn(&trace);
        self.saved = None;
        observer.round(self, &trace)?;
        self.processes.forget_ended(&trace);
        let replaced = match &mut self.headless {
            Some(headless) => headless.follow_again(&self.recorder.instance, &trace)?,
            None => None,
        };
        if self.changed.is_none() {
            self.changed = replaced.map(|pid| {
                format!(
                    "a thread of process {pid} other than its first one started another program in it: what \
                     followed shortly after that is missing"
                )
            });
        }
        Ok(())
    }

    /// Begins to record, and starts the command if there is one. If only the subject is recorded,
    /// lets the kernel follow it. Returns when recording began, in nanoseconds.
    fn start(&mut self, subject: &Subject) -> Result<(u64, Option<Started>)> {
        let (instance, processes) = (&self.recorder.instance, &mut self.processes);
        match (subject, &self.headless) {
            (Subject::Command(words), Some(_)) => {
                let (start_ns, started) = following::what(instance, || Started::of(words, processes))?;
                Ok((start_ns, Some(started)))
            }
            (Subject::Command(words), None) => Ok((instance.on()?, Some(Started::of(words, processes)?))),
            (Subject::Process(pid), Some(_)) => {
                following::process(instance, *pid)?;
                Ok((instance.on()?, None))
            }
            _ => Ok((instance.on()?, None)),
        }
    }

    /// The process of a thread.
    pub(super) fn process_of(&mut self, tid: u32) -> Process {
        let pid = self.pid_of(tid);
        self.processes.of_process(pid)
    }

    fn pid_of(&mut self, tid: u32) -> u32 {
        let Self { recorder, saved, processes, .. } = self;
        let mut pid_of = |tid| saved.get_or_insert_with(|| recorder.instance.processes()).get(&tid).copied();
        processes.pid_of(tid, &mut pid_of)
    }

    /// Whether a thread belongs to an observed process.
    pub(super) fn process_is_observed(&mut self, subject: &Subject, tid: u32) -> bool {
        let pid = self.pid_of(tid);
        self.processes.is_observed(subject, pid)
    }

    /// The events since an instant, in nanoseconds, for this machine's system calls. With the names
    /// of all processes if `named`: reading them takes time.
    pub(super) fn window(&self, from_ns: u64, named: bool) -> Result<Trace> {
        let kept = self.stream.snapshot(from_ns);
        let mut trace = self.stream.read(&kept)?;
        std::env::consts::ARCH.clone_into(&mut trace.machine);
        if named {
            (trace.processes, trace.comms) = self.recorder.instance.who_is_who(&kept.cpus);
        }
        Ok(trace)
    }

    /// Everything recorded since an instant, in nanoseconds, with the names of threads.
    pub(super) fn snapshot(&self, from_ns: u64) -> Snapshot {
        let mut snapshot = self.stream.snapshot(from_ns);
        (snapshot.processes, snapshot.comms) = self.recorder.instance.who_is_who(&snapshot.cpus);
        snapshot
    }
}

/// Waits for `ns` nanoseconds, or until a signal asks to end.
///
/// # Errors
/// [`Error::Interrupted`] by SIGHUP if the result is not kept. It is kept as a partial one; the end
/// by any other signal is what the user asked for.
fn pause(interrupts: &Interrupts, ns: u64) -> Result<ControlFlow<()>> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: ns.min(EVERY_NS).cast_signed() };
    let from_ns = now_ns();
    let _ = poll(&mut [PollFd::new(interrupts, PollFlags::IN)], Some(&timeout));
    conditions::waited(from_ns, ns);
    match interrupts.check() {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error @ Error::Interrupted { signal: libc::SIGHUP }) => {
            keep(error, true).map(|()| ControlFlow::Break(()))
        }
        Err(_) => Ok(ControlFlow::Break(())),
    }
}

/// The program that was started to be observed. It continues if the observer ends before it.
struct Started(Child);

impl Started {
    fn of(words: &[String], processes: &mut Processes) -> Result<Self> {
        let (program, arguments) =
            words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let child = Command::new(program).args(arguments).spawn();
        let child = child.map_err(|cause| Error::system(format!("start {program}"), cause))?;
        processes.follow(child.id());
        Ok(Self(child))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

/// Events that the kernel has overwritten or dropped so far, on all CPUs.
fn lost(cpus: &[CpuSnapshot]) -> u64 {
    cpus.iter().map(|cpu| cpu.stats.overrun + cpu.stats.commit_overrun + cpu.stats.dropped).sum()
}
