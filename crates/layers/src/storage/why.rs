//! Why a write does not move at each instant: starts at the application's thread and follows
//! whatever the write is with, from thread to thread and to the requests behind each wait. Must not
//! know how layers are found.

mod requests;

use super::{Piece, Request, Write, Writes};
use crate::explanation::{Interrupt, Owner, Part, State, Thread, Unknown, Waker};
use crate::frequency;
use crate::kernel_names;
use crate::partition::{interrupt, shallow, thread_at};
use crate::reasons::{Class, Io, Limit, Place, Process, Reason, ReasonKind, Role, Stretch, Why};
use crate::timeline::{Timeline, Waking, WakingBy};

/// The longest chain of threads that a wait is followed through.
const DEEPEST: usize = 8;

/// Why a write does not move.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// The thread that the write is with runs.
    Work,
    /// This state of the thread that the write is with: it waits for a CPU, is interrupted, stopped
    /// or woken, or its state is unknown.
    State(State),
    /// A reason that no thread's state shows.
    Reason(Reason),
}

/// A stretch of a write with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stay {
    begin_ns: u64,
    end_ns: u64,
    cause: Cause,
    /// The thread that the write is with, if a thread.
    owner: Option<Thread>,
    /// The thread whose request, commit or other work the write waits for, if known.
    of: Option<Thread>,
    /// The CPU that the thread ran on or waited for, if meaningful.
    cpu: Option<u32>,
    /// The threads of other programs from the application to the one that the write is with: each
    /// waited for the next.
    others: Vec<Thread>,
}

/// The reasons of a call, contiguous from its start to its end, within its layers. `own` are the
/// indices of its requests.
pub(super) fn stretches(writes: &Writes<'_>, write: Write, own: &[usize], pieces: &[Piece]) -> Vec<Stretch> {
    let mut follow = Follow { writes, write, own, out: Vec::new(), chain: Vec::new() };
    match writes.worker(write) {
        // From then on, the write is with the worker, whatever the submitter does.
        Some((worker, from_ns)) => {
            follow.thread(write.tid, write.start_ns, from_ns);
            follow.chain.push(write.tid);
            follow.thread(worker, from_ns, write.end_ns);
            follow.chain.pop();
        }
        None => follow.thread(write.tid, write.start_ns, write.end_ns),
    }
    let stays = std::mem::take(&mut follow.out);
    let mut pieces = pieces.iter().peekable();
    let mut out = Vec::with_capacity(stays.len());
    for stay in stays {
        let why = follow.why(&stay);
        while let Some(piece) = pieces.peek() {
            let (begin_ns, end_ns) = (stay.begin_ns.max(piece.begin_ns), stay.end_ns.min(piece.end_ns));
            if begin_ns < end_ns {
                let place = Some(Place::Layer(piece.layer.name()));
                out.push(Stretch { begin_ns, end_ns, why: Why { place, ..why.clone() } });
            }
            if piece.end_ns > stay.end_ns {
                break;
            }
            pieces.next();
        }
    }
    // Only work has one of these reasons and a CPU.
    let is_work =
        |stretch: &Stretch| matches!(stretch.why.reason, Reason::OwnWork | Reason::Thread { but: None });
    let _ = frequency::divide(&writes.timeline, &mut out, is_work);
    out
}

/// The most parts of a call that are told apart.
const MOST_STAYS: usize = 1 << 14;

/// One of the call's own requests is with the device.
fn device(request: &Request) -> Cause {
    let operation = match request {
        Request { flush: true, .. } => "flush",
        Request { write: true, .. } => "write",
        _ => "read",
    };
    Cause::Reason(Reason::Device { device: None, operation: Some(operation), interrupt: None })
}

/// The I/O of others is before the call's.
fn behind(what: Io) -> Cause {
    Cause::Reason(Reason::BehindIo { device: None, what })
}

/// A limit holds the call back.
fn held(limit: Limit) -> Cause {
    Cause::Reason(Reason::Throttled { limit, cgroup: None })
}

struct Follow<'a, 't> {
    writes: &'a Writes<'t>,
    write: Write,
    own: &'a [usize],
    out: Vec<Stay>,
    /// The threads from the application to the one that is followed.
    chain: Vec<u32>,
}

impl<'a> Follow<'a, '_> {
    fn push(&mut self, begin_ns: u64, end_ns: u64, cause: Cause, owner: Option<Thread>, of: Option<Thread>) {
        self.push_on(None, begin_ns, end_ns, cause, (owner, of));
    }

    fn push_on(
        &mut self,
        cpu: Option<u32>,
        begin_ns: u64,
        end_ns: u64,
        cause: Cause,
        (owner, of): (Option<Thread>, Option<Thread>),
    ) {
        if begin_ns >= end_ns {
            return;
        }
        let others = self.others(begin_ns);
        let stay = Stay { begin_ns, end_ns, cause, owner, of, cpu, others };
        match self.out.last_mut() {
            Some(last)
                if *last == (Stay { begin_ns: last.begin_ns, end_ns: last.end_ns, ..stay.clone() }) =>
            {
                last.end_ns = end_ns;
            }
            _ => self.out.push(stay),
        }
    }

    /// The threads of other programs in the chain. Kernel threads work for the write itself.
    fn others(&self, time_ns: u64) -> Vec<Thread> {
        let timeline = &self.writes.timeline;
        let chain = self.chain.iter().skip(1).filter(|&&tid| self.is_holder(tid, time_ns));
        chain.map(|&tid| thread_at(timeline, tid, time_ns)).collect()
    }

    /// Whether a thread that the write waits for is another program's, for example the holder of a
    /// lock.
    fn is_holder(&self, tid: u32, time_ns: u64) -> bool {
        // A new worker of io_uring has its program's name for a moment.
        self.writes.worker(self.write).is_none_or(|(worker, _)| worker != tid)
            && !kernel_names::works_for_writes(self.writes.timeline.name_at(tid, time_ns))
    }

    fn done(&self) -> &'a [Request] {
        &self.writes.requests.done
    }

    fn thread_at(&self, tid: u32, time_ns: u64) -> Thread {
        thread_at(&self.writes.timeline, tid, time_ns)
    }

    /// What a thread did for the call during a stretch.
    fn thread(&mut self, tid: u32, from_ns: u64, to_ns: u64) {
        if from_ns >= to_ns {
            return;
        }
        self.chain.push(tid);
        // The journal may first have to finish a commit of another thread.
        let others = self.writes.commits.of_another(tid, self.write).filter(|_| self.chain.len() > 1);
        let until_ns = others.map_or(from_ns, |(end_ns, _)| end_ns.clamp(from_ns, to_ns));
        // Another program's thread, for example the holder of a lock, does its own I/O.
        let holder = self.chain.len() > 1 && self.is_holder(tid, from_ns);
        let holder = holder.then(|| self.thread_at(tid, from_ns));
        let first = self.out.len();
        self.parts(tid, from_ns, until_ns);
        if let Some((_, by)) = others {
            let of = by.map(|by| self.thread_at(by, from_ns));
            for stay in self.out.get_mut(first..).unwrap_or_default() {
                let served = match &stay.cause {
                    Cause::Work => true,
                    Cause::Reason(reason) => {
                        matches!(reason.kind(), ReasonKind::Device | ReasonKind::Interrupted)
                    }
                    Cause::State(_) => false,
                };
                if served {
                    (stay.cause, stay.of) = (behind(Io::Commit), of.clone());
                }
            }
        }
        self.parts(tid, until_ns, to_ns);
        if let Some(holder) = holder {
            for stay in self.out.get_mut(first..).unwrap_or_default() {
                match &stay.cause {
                    Cause::Reason(Reason::Device { .. }) => {
                        (stay.cause, stay.of) = (behind(Io::Requests), Some(holder.clone()));
                    }
                    // Its priority and its name may have changed.
                    Cause::Work if stay.owner.as_ref().is_some_and(|owner| owner.tid == holder.tid) => {
                        stay.of = stay.owner.clone();
                    }
                    _ => {}
                }
            }
        }
        self.chain.pop();
    }

    fn parts(&mut self, tid: u32, from_ns: u64, to_ns: u64) {
        // Without switches, no event shows that a thread left its CPU.
        if !self.writes.timeline.knows.switches {
            return self.unknown(tid, from_ns, to_ns, State::Unknown { reason: Unknown::NoEvent });
        }
        for part in shallow(&self.writes.timeline, Owner::Client, tid, from_ns, to_ns) {
            if self.out.len() >= MOST_STAYS {
                let state = State::Unknown { reason: Unknown::TooManyParts };
                return self.push(part.begin_ns, to_ns, Cause::State(state), None, None);
            }
            self.part(tid, part);
        }
    }

    fn part(&mut self, tid: u32, part: Part) {
        let Part { begin_ns, end_ns, thread, cpu, state, .. } = part;
        match state {
            State::User | State::Running | State::SystemCall { .. } => {
                self.push_on(cpu, begin_ns, end_ns, Cause::Work, (thread, None));
            }
            // Another thread ends it, at whatever frequency the CPU runs.
            State::Spinning => self.push(begin_ns, end_ns, Cause::Work, thread, None),
            State::Blocked { .. } => self.blocked(tid, begin_ns, end_ns),
            State::Unknown { reason: Unknown::Queue } => {
                self.push_on(cpu, begin_ns, end_ns, Cause::State(state), (thread, None));
            }
            State::Unknown { .. } => self.unknown(tid, begin_ns, end_ns, state),
            state => self.push_on(cpu, begin_ns, end_ns, Cause::State(state), (thread, None)),
        }
    }

    /// Where no event shows what a thread did, its write may still be known to be with the device.
    fn unknown(&mut self, tid: u32, begin_ns: u64, end_ns: u64, state: State) {
        let owner = self.thread_at(tid, begin_ns);
        for (begin_ns, end_ns) in self.cut(begin_ns, end_ns, None) {
            match self.own_at_device(begin_ns) {
                Some(request) => self.push(begin_ns, end_ns, device(request), None, None),
                None => self.push(begin_ns, end_ns, Cause::State(state.clone()), Some(owner.clone()), None),
            }
        }
    }

    /// What a wait was for: a request if its completion ended the wait, a thread if a thread did.
    fn blocked(&mut self, tid: u32, begin_ns: u64, end_ns: u64) {
        let timeline = &self.writes.timeline;
        let owner = self.thread_at(tid, begin_ns);
        if self.writes.throttled.pauses(tid, begin_ns) {
            return self.push(begin_ns, end_ns, held(Limit::Dirty), Some(owner), None);
        }
        let missing = |reason| State::Unknown { reason };
        let Some(waking) = timeline.wakings_of(tid, begin_ns, end_ns).last().copied() else {
            return self.unknown(tid, begin_ns, end_ns, missing(Unknown::Waker));
        };
        let request = self.writes.completed_before(waking.cpu, begin_ns, waking.time_ns);
        let request = request.map(|index| &self.done()[index]);
        let by = match waking.by {
            WakingBy::Thread(by) if by != 0 && !self.chain.contains(&by) => Some(by),
            _ => None,
        };
        match (request, by) {
            // In a long queue, for example for a lock, each thread ends the wait of the next.
            (_, Some(by)) if self.chain.len() >= DEEPEST => {
                let of = Some(self.thread_at(by, begin_ns));
                let queued = Cause::Reason(Reason::Thread { but: Some(Unknown::Queued) });
                self.push(begin_ns, waking.time_ns, queued, Some(owner), of);
            }
            // A worker may do other work until the request completes. The journal, or another
            // program's thread, waits for the request itself.
            (Some(request), Some(by)) if self.completes(by, request) => {
                self.request(tid, request, begin_ns);
                let from_ns = request.completed_ns.max(begin_ns);
                self.thread(by, from_ns, waking.time_ns);
            }
            (_, Some(by)) => self.thread(by, begin_ns, waking.time_ns),
            (Some(request), None) => {
                self.request(tid, request, begin_ns);
                let from_ns = request.completed_ns.max(begin_ns);
                // A thread may have come between the completion and the wakeup.
                match waking.by {
                    WakingBy::Interrupt(_) => {
                        self.push(
                            from_ns,
                            waking.time_ns,
                            self.completed(waking.cpu, waking.time_ns),
                            None,
                            None,
                        );
                    }
                    _ => self.unknown(tid, from_ns, waking.time_ns, missing(Unknown::Waker)),
                }
            }
            (None, None) => self.without_request(tid, begin_ns, waking),
        }
        // The waking may precede the end of the wait.
        let state = State::WakeUpPending;
        let owner = self.thread_at(tid, begin_ns);
        self.push(waking.time_ns, end_ns, Cause::State(state), Some(owner), None);
    }

    /// A wait that neither a request nor a thread ended.
    fn without_request(&mut self, tid: u32, begin_ns: u64, waking: Waking) {
        let reason = match waking.by {
            WakingBy::Interrupt(Some(source)) if source.is_timer(&self.writes.timeline.trace.names) => {
                let owner = Some(self.thread_at(tid, begin_ns));
                let sleep = Cause::Reason(Reason::Sleep { call: None });
                return self.push(begin_ns, waking.time_ns, sleep, owner.clone(), owner);
            }
            WakingBy::Interrupt(_) => Unknown::WakingInterrupt,
            WakingBy::OtherCpu => Unknown::OtherCpu,
            WakingBy::Thread(_) | WakingBy::Unknown => Unknown::Waker,
        };
        self.unknown(tid, begin_ns, waking.time_ns, State::Unknown { reason });
    }

    /// A stay as a reason, with who names it.
    fn why(&self, stay: &Stay) -> Why {
        let Stay { begin_ns, owner, of, cpu, .. } = stay;
        let (reason, thread) = match &stay.cause {
            Cause::Work => match owner {
                Some(thread) if self.handles_interrupts(thread.tid) => {
                    (Reason::SoftirqThread { name: thread.comm.clone() }, None)
                }
                thread if of.is_some() => (Reason::Thread { but: None }, thread.clone()),
                thread => (Reason::OwnWork, thread.clone()),
            },
            Cause::Reason(reason) => (reason.clone(), of.clone()),
            Cause::State(state) => of_state(state),
        };
        let writer =
            !stay.others.is_empty() || owner.as_ref().is_none_or(|thread| thread.tid == self.write.tid);
        let delayed = match stay.others.is_empty() {
            true => owner.clone(),
            false => Some(self.thread_at(self.write.tid, *begin_ns)),
        };
        // What names the reason is not said twice.
        let named = thread.as_ref().filter(|_| reason.kind() == ReasonKind::Thread).map(|thread| thread.tid);
        let chain = stay.others.iter().take_while(|thread| Some(thread.tid) != named).cloned().collect();
        Why {
            process: thread.as_ref().map(|thread| process_of(&self.writes.timeline, thread, *begin_ns)),
            thread,
            delayed,
            cpu: *cpu,
            chain,
            ..Why::of(reason, if writer { Role::Writer } else { Role::Worker })
        }
    }
}

/// The reason that a thread's state is, and the thread that names it.
fn of_state(state: &State) -> (Reason, Option<Thread>) {
    match (state, crate::why::of_state(state)) {
        // Whoever continued it is known.
        (State::Stopped { how, waker: Waker::Thread { thread }, .. }, _) => {
            (Reason::Stopped { how: *how }, Some(thread.clone()))
        }
        (State::Stopped { how, by, .. }, _) => (Reason::Stopped { how: *how }, by.clone()),
        (State::Unknown { reason: Unknown::Queue }, _) => (Reason::Cpu, None),
        (_, Some((reason, thread))) => (reason, thread.cloned()),
        // The other states have reasons of their own.
        (_, None) => (Reason::Unknown { why: Unknown::NoEvent }, None),
    }
}

/// The process of a thread at an instant.
fn process_of(timeline: &Timeline<'_>, thread: &Thread, time_ns: u64) -> Process {
    let pid = thread.pid.unwrap_or(thread.tid);
    let name = timeline.name_at(pid, time_ns);
    let name = if name.is_empty() { thread.comm.clone() } else { name.to_owned() };
    Process { pid, name, class: Class::of(thread.prio) }
}
