//! Binder calls of other programs, live: the recorder's pages are read several times a second,
//! while it goes on.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::{Child, Command};
use std::time::Duration;

use latency::Policy;
use run::Scheduling;
use run::ipc::observe::{ObservePlan, ObserveResult, Process, SlowCall, Subject, Unseen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracefs::{Body, CpuSnapshot, Recording, Snapshot, Stream};
use transactions::{Call, Matcher, Observed};

use super::flows::Flows;
use super::processes::Processes;
use super::slow::Slow;
use crate::clock::now_ns;
use crate::error::{Error, NotHere, Result};
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::scratch::Folder;
use crate::worker::Interrupts;
use crate::{sched, selection};

/// How often the buffers are emptied, in nanoseconds.
const EVERY_NS: u64 = 100_000_000;

/// From when on the observer has waited too long for a CPU, in nanoseconds.
const STARVED_NS: u64 = 5 * EVERY_NS;

/// How long an event may take until it can be read: it is written with interrupts off, or the
/// hypervisor has the CPU meanwhile.
const IN_FLIGHT_NS: u64 = 2_000_000;

/// For how long pages are kept, in nanoseconds, and how many bytes of them: a call that takes
/// longer has a recording of its end.
const KEEP_NS: u64 = 5_000_000_000;
const KEEP_BYTES: usize = 24 << 20;

/// The most transactions that are followed at a time.
const UNDER_WAY: usize = 100_000;

/// Observes until the plan's time is over, its command has ended, or a signal comes.
///
/// # Errors
/// [`Error::NotHere`] without binder's events; [`Error::Trace`] where this process may not record;
/// [`Error::System`] when the command cannot be started.
pub fn run(plan: &ObservePlan, report: &mut dyn FnMut(Progress<'_>)) -> Result<ObserveResult> {
    let interrupts = Interrupts::watch()?;
    let recorder =
        Recorder::of(plan.kilobytes, |tracefs| selection::transactions(|event| tracefs.has_event(event)))
            .map_err(without_binder)?;
    let folder = Folder::beside(&plan.directory)?;
    let recording = Recording::create(&folder.partial, recorder.instance.header(), recorder.tracefs.root())?;
    let mut observer = Observer {
        plan,
        stream: Stream::new(recording.parse_formats()?, KEEP_NS, KEEP_BYTES),
        matcher: Matcher::new(UNDER_WAY),
        processes: Processes::default(),
        flows: Flows::default(),
        slow: Slow::new(plan.limit, recording),
        recorder: &recorder,
        lost_events: 0,
    };
    let start_ns = recorder.instance.on()?;
    let mut command = Started::of(&plan.subject, &mut observer.processes)?;
    let mut gives_way = GivesWay::begin();
    let end_ns = loop {
        let now_ns = now_ns();
        let elapsed_ns = now_ns.saturating_sub(start_ns);
        let left_ns = plan.duration_ns.map_or(EVERY_NS, |most_ns| most_ns.saturating_sub(elapsed_ns));
        if let Some(total) = plan.duration_ns {
            report(Progress {
                what: "observing calls",
                done: elapsed_ns.min(total) / 1_000_000,
                total: total / 1_000_000,
            });
        }
        if left_ns == 0 || command.as_mut().is_some_and(Started::has_ended) {
            break now_ns;
        }
        gives_way.turn(now_ns);
        let paused = pause(interrupts, left_ns.min(EVERY_NS));
        observer.round()?;
        if paused.is_break() {
            break crate::clock::now_ns();
        }
    };
    drop(gives_way);
    recorder.instance.off()?;
    // What is still on its way into the buffers.
    std::thread::sleep(Duration::from_nanos(IN_FLIGHT_NS * 2));
    observer.round()?;
    Ok(observer.finish(end_ns - start_ns, &folder))
}

/// Whoever is observed comes first: the observer runs where a CPU would idle. Only when it has got
/// none for so long that events may be lost, it competes for one, as the last of all.
struct GivesWay {
    before: Option<Scheduling>,
    last_ns: Option<u64>,
    competes: Option<bool>,
}

impl Drop for GivesWay {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = sched::set_scheduling(sched::gettid(), before);
        }
    }
}

impl GivesWay {
    fn begin() -> Self {
        Self { before: sched::scheduling(sched::gettid()).ok(), last_ns: None, competes: None }
    }

    fn turn(&mut self, now_ns: u64) {
        let late = self.last_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) > STARVED_NS);
        self.last_ns = Some(now_ns);
        if self.competes != Some(late) {
            self.competes = Some(late);
            let policy = if late { Policy::Other } else { Policy::Idle };
            let scheduling = Scheduling { policy, ..Scheduling::other(19) };
            // It fails only where a policy forbids it: then the observer runs like everybody else.
            let _ = sched::set_scheduling(sched::gettid(), scheduling);
        }
    }
}

/// A kernel that has no events of binder mostly has no driver either.
fn without_binder(error: Error) -> Error {
    match error {
        Error::Trace(tracefs::Error::MissingEvent { event }) if event.starts_with("binder/") => {
            NotHere::BinderEvents.into()
        }
        other => other,
    }
}

/// Waits, or until a signal asks to end.
fn pause(interrupts: &Interrupts, ns: u64) -> ControlFlow<()> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: ns.min(EVERY_NS).cast_signed() };
    let _ = poll(&mut [PollFd::new(interrupts, PollFlags::IN)], Some(&timeout));
    if interrupts.check().is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The program that is observed, where it was started for that. It goes on when the observer ends
/// before it.
struct Started(Child);

impl Started {
    fn of(subject: &Subject, processes: &mut Processes) -> Result<Option<Self>> {
        let Subject::Command(words) = subject else { return Ok(None) };
        let [program, arguments @ ..] = &words[..] else {
            return Ok(None);
        };
        let child = Command::new(program).args(arguments).spawn();
        let child = child.map_err(|cause| Error::system(format!("start {program}"), cause))?;
        processes.follow(child.id());
        Ok(Some(Self(child)))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

struct Observer<'a> {
    plan: &'a ObservePlan,
    stream: Stream,
    matcher: Matcher,
    processes: Processes,
    flows: Flows,
    slow: Slow,
    recorder: &'a Recorder,
    lost_events: u64,
}

impl Observer<'_> {
    /// Reads what was recorded since the last time.
    fn round(&mut self) -> Result<()> {
        let until_ns = now_ns().saturating_sub(IN_FLIGHT_NS);
        let cpus = self.recorder.instance.take()?;
        self.lost_events = lost(&cpus);
        let trace = self.stream.take_in(cpus, until_ns)?;
        self.processes.learn(&trace);
        let mut ended = Vec::new();
        let mut exits = Vec::new();
        for event in &trace.events {
            self.matcher.add(event, &mut |observed| ended.push(observed));
            if matches!(event.body, Body::Exit) {
                exits.push(event.tid);
            }
        }
        // Only if somebody asks: it has a line for each thread.
        let mut saved: Option<BTreeMap<u32, u32>> = None;
        for observed in ended {
            self.count(&observed, &mut saved);
        }
        exits.into_iter().for_each(|tid| self.processes.forget(tid));
        let (stream, instance) = (&self.stream, &self.recorder.instance);
        self.slow.keep(|from_ns| {
            let (processes, comms) = instance.who_is_who();
            Snapshot { processes, comms, ..stream.snapshot(from_ns) }
        });
        Ok(())
    }

    fn process(&mut self, tid: u32, saved: &mut Option<BTreeMap<u32, u32>>) -> Process {
        let instance = &self.recorder.instance;
        let mut pid_of = |tid| saved.get_or_insert_with(|| instance.who_is_who().0).get(&tid).copied();
        self.processes.of_thread(tid, &mut pid_of)
    }

    fn count(&mut self, observed: &Observed, saved: &mut Option<BTreeMap<u32, u32>>) {
        let (to_process, node, code) =
            observed.sent().map_or((0, 0, 0), |sent| (sent.to_process, sent.node, sent.code));
        let client = self.process(observed.client(), saved);
        let server = self.processes.of_process(to_process);
        let subject = &self.plan.subject;
        if ![&client, &server].into_iter().any(|process| self.processes.is_observed(subject, process)) {
            return;
        }
        match observed {
            Observed::Call(call) => {
                if let Some(flow) = self.flows.call(&client, &server, call, self.plan.deadline)
                    && call.latency_ns() > self.plan.deadline.ns
                {
                    self.slow.add(slow_call(flow, call));
                }
            }
            Observed::Oneway(oneway) => self.flows.oneway(&client, &server, oneway),
            Observed::Failed(_) => self.flows.failed(&client, &server, node, code),
        }
    }

    fn finish(self, elapsed_ns: u64, folder: &Folder) -> ObserveResult {
        let Observer { plan, matcher, flows, slow, recorder, lost_events, .. } = self;
        let unmatched = matcher.unmatched();
        let unseen = Unseen {
            lost_events,
            begun_before: unmatched.received + unmatched.replies,
            not_ended: unmatched.ended,
            forgotten: unmatched.forgotten,
            other_flows: flows.others,
        };
        let (flows, places) = flows.finish();
        let (mut slow_calls, over_limit, mut not_recorded) = slow.finish();
        for call in &mut slow_calls {
            call.flow = places[call.flow];
        }
        // An empty recording tells nothing.
        if slow_calls.iter().any(|call| call.snapshot.is_some())
            && let Err(error) = folder.keep()
        {
            slow_calls.iter_mut().for_each(|call| call.snapshot = None);
            not_recorded.get_or_insert(format!("the recording is lost: {error}"));
        }
        ObserveResult {
            plan: plan.clone(),
            elapsed_ns,
            flows,
            slow_calls,
            over_limit,
            unseen,
            recorder: recorder.info(),
            not_recorded,
        }
    }
}

/// How many events the kernel has overwritten or dropped so far, on all CPUs.
fn lost(cpus: &[CpuSnapshot]) -> u64 {
    cpus.iter().map(|cpu| cpu.stats.overrun + cpu.stats.commit_overrun + cpu.stats.dropped).sum()
}

fn slow_call(flow: usize, call: &Call) -> SlowCall {
    SlowCall {
        flow,
        id: call.sent.id,
        node: call.sent.node,
        client: call.sent.client,
        server: call.server,
        start_ns: call.sent.start_ns,
        received_ns: call.received_ns,
        replied_ns: call.replied_ns,
        end_ns: call.end_ns,
        behind_pool_ns: call.behind_pool_ns,
        parent: call.sent.parent,
        snapshot: None,
    }
}
