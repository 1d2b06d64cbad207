//! Finds which threads worked for a call, and what it waited for: from the application's thread to
//! the threads that woke it, and to the requests behind each wait. Makes claims on the call's time.
//! Must not know which claim wins.

mod requests;
mod workers;

use super::{Layer, Piece, Request, Write, Writes};
use crate::kernel_names;
use crate::timeline::{Current, Doing, Waking, WakingBy};
use workers::Workers;

/// The longest chain of threads that a wait is followed through: application, journal, and the
/// workers of each device on the path.
const DEEPEST: u32 = 8;

/// How many changes of a thread's state are followed for a call. The time after the last of them
/// stays unexplained.
const MOST_FOLLOWED: usize = 1 << 18;

/// An interrupt is cut out of at most this many claims, the most recent ones.
const MOST_CUT: usize = 1024;

/// The claims on a call's time.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) claims: Vec<Piece>,
    /// Claims that apply where there are no others: a stacked device has a request, and it is
    /// unknown what the devices below it did.
    pub(super) fallback: Vec<Piece>,
    /// When a thread that worked for the call waited for a CPU that another task used: start and
    /// end, in nanoseconds.
    pub(super) behind_others: Vec<(u64, u64)>,
    /// Indices of the completed requests, ascending.
    pub(super) requests: Vec<usize>,
}

struct Walk<'a, 't> {
    writes: &'a Writes<'t>,
    write: Write,
    found: Found,
    /// Each thread that worked for the call, with the start and end of that stretch in nanoseconds.
    workers: Workers,
}

pub(super) fn walk(writes: &Writes<'_>, write: Write) -> Found {
    let mut walk = Walk { writes, write, found: Found::default(), workers: Workers::default() };
    walk.system_calls();
    walk.thread(write.tid, write.start_ns, write.end_ns, 0);
    if let Some((worker, from_ns)) = writes.worker(write) {
        walk.thread(worker, from_ns, write.end_ns, 1);
    }
    walk.polled();
    walk.requests();
    walk.claim_requests();
    walk.found
}

impl<'a> Walk<'a, '_> {
    fn claim(&mut self, begin_ns: u64, end_ns: u64, layer: Layer) {
        self.found.claims.push(Piece { begin_ns, end_ns, layer });
    }

    /// All time outside system calls belongs to the platform, whatever has the CPU. Every write
    /// makes system calls. If the recording has none, they were lost, and it is unknown which time
    /// was outside.
    fn system_calls(&mut self) {
        let Write { start_ns, end_ns, tid } = self.write;
        if !self.writes.timeline.knows.system_calls {
            return;
        }
        let calls = self.writes.timeline.thread(tid).map(|line| line.calls_within(start_ns, end_ns));
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else { return };
        let mut from_ns = start_ns;
        for call in calls {
            self.platform(from_ns, call.begin_ns);
            from_ns = call.end_ns;
        }
        self.platform(from_ns, end_ns);
    }

    /// Claims time outside system calls, as far as the application's activity is known.
    fn platform(&mut self, begin_ns: u64, end_ns: u64) {
        for during in self.writes.timeline.doing(self.write.tid, begin_ns, end_ns) {
            if during.what != Doing::Unknown {
                self.claim(during.begin_ns, during.end_ns, Layer::Platform);
            }
        }
    }

    /// Whether the application is in a system call during the whole stretch.
    fn in_system_call(&self, begin_ns: u64, end_ns: u64) -> bool {
        let line = self.writes.timeline.thread(self.write.tid);
        let calls = line.map(|line| line.calls_within(begin_ns, end_ns)).unwrap_or_default();
        self.is_of_a_ring() || calls.iter().any(|call| call.begin_ns <= begin_ns && end_ns <= call.end_ns)
    }

    /// Whether the kernel itself submitted the operation for the application: it polls for what to
    /// submit (`IORING_SETUP_SQPOLL`).
    fn is_of_a_ring(&self) -> bool {
        kernel_names::is_of_a_ring(self.writes.timeline.name_at(self.write.tid, self.write.start_ns))
    }

    /// Follows what a thread did for the call during a stretch.
    fn thread(&mut self, tid: u32, from_ns: u64, to_ns: u64, depth: u32) {
        let timeline = &self.writes.timeline;
        self.workers.add(tid, from_ns, to_ns);
        let (working, waiting) =
            if depth == 0 { (Layer::Fs, Layer::Preempted) } else { (Layer::Helper, Layer::Stolen) };
        for during in timeline.doing(tid, from_ns, to_ns).into_iter().take(MOST_FOLLOWED) {
            let (begin_ns, end_ns) = (during.begin_ns, during.end_ns);
            if let Doing::Runnable { cpu, preempted } = during.what {
                self.behind_others(cpu, preempted, begin_ns, end_ns);
            }
            match during.what {
                // Without switches, no event shows that the thread left its CPU.
                Doing::Running { .. } if !timeline.knows.switches => {}
                Doing::Running { cpu } => {
                    for (begin_ns, end_ns) in self.system_call_parts(begin_ns, end_ns, depth) {
                        self.claim(begin_ns, end_ns, working);
                    }
                    if depth > 0 {
                        self.stolen(cpu, begin_ns, end_ns);
                    }
                }
                Doing::Runnable { preempted: true, .. } => {
                    for (begin_ns, end_ns) in self.system_call_parts(begin_ns, end_ns, depth) {
                        self.claim(begin_ns, end_ns, waiting);
                    }
                }
                Doing::Runnable { .. } | Doing::Waking { .. } | Doing::Moved { .. } => {
                    if depth > 0 || self.in_system_call(begin_ns, end_ns) {
                        self.claim(begin_ns, end_ns, Layer::Wake);
                    }
                }
                Doing::Blocked { state } => {
                    let (since_ns, _) = timeline.doing_at(tid, begin_ns);
                    match timeline.stopped(tid, state, since_ns, None) {
                        Some(_) => self.claim(begin_ns, end_ns, Layer::Held),
                        None => self.blocked(tid, begin_ns, end_ns, depth),
                    }
                }
                Doing::Unknown | Doing::Left { .. } | Doing::Gone => {}
            }
        }
    }

    /// A thread waits on a CPU's run queue. It waits behind others while a thread that does not
    /// work for the call has that CPU. A preempted thread waits behind others even if its CPU is
    /// unknown.
    fn behind_others(&mut self, cpu: Option<u32>, preempted: bool, begin_ns: u64, end_ns: u64) {
        let Some(cpu) = cpu else {
            return self.found.behind_others.extend(preempted.then_some((begin_ns, end_ns)));
        };
        for during in self.writes.timeline.on_cpu(cpu, begin_ns, end_ns) {
            if let Current::Thread(other) = during.what
                && other != 0
                && !self.worked(other, during.begin_ns)
            {
                self.found.behind_others.push((during.begin_ns, during.end_ns));
            }
        }
    }

    /// The parts of a stretch within the application's system calls. The whole stretch for a
    /// helper, or if system calls were not recorded.
    fn system_call_parts(&self, begin_ns: u64, end_ns: u64, depth: u32) -> Vec<(u64, u64)> {
        if depth > 0 || !self.writes.timeline.knows.system_calls || self.is_of_a_ring() {
            return vec![(begin_ns, end_ns)];
        }
        let line = self.writes.timeline.thread(self.write.tid);
        let calls = line.map(|line| line.calls_within(begin_ns, end_ns)).unwrap_or_default();
        calls.iter().map(|call| (call.begin_ns.max(begin_ns), call.end_ns.min(end_ns))).collect()
    }

    /// Interrupts take a helper's time.
    fn stolen(&mut self, cpu: u32, begin_ns: u64, end_ns: u64) {
        let Some(line) = self.writes.timeline.cpu(cpu) else { return };
        let taken: Vec<(u64, u64)> = line
            .interrupts
            .within(begin_ns, end_ns)
            .iter()
            .map(|stretch| (stretch.begin_ns.max(begin_ns), stretch.end_ns.min(end_ns)))
            .collect();
        for (begin_ns, end_ns) in taken {
            // The helper's claim does not include the time of interrupts.
            cut(&mut self.found.claims, begin_ns, end_ns);
            self.claim(begin_ns, end_ns, Layer::Stolen);
        }
    }

    /// Follows a wait to a request if an interrupt ended it, or to a thread if a thread did.
    fn blocked(&mut self, tid: u32, begin_ns: u64, end_ns: u64, depth: u32) {
        let timeline = &self.writes.timeline;
        if self.writes.throttled.pauses(tid, begin_ns) {
            return self.claim(begin_ns, end_ns, Layer::Held);
        }
        let Some(waking) = timeline.wakings_of(tid, begin_ns, end_ns).last().copied() else { return };
        let request = self.writes.completed_before(waking.cpu, begin_ns, waking.time_ns);
        if let Some(index) = request {
            self.found.requests.push(index);
            let request = &self.writes.requests.done[index];
            self.claim(request.completed_ns.max(begin_ns), waking.time_ns, Layer::Irq);
            if request.completed_ns > begin_ns {
                self.queued_before(request, begin_ns);
            }
            if let Some((by, queued_ns)) = self.queued_by_another(request, begin_ns)
                && waking.by != WakingBy::Thread(by)
            {
                self.queuer(by, begin_ns, queued_ns, depth);
            }
        }
        if let WakingBy::Thread(waker) = waking.by
            && depth < DEEPEST
            && waker != 0
            && waker != tid
        {
            // A thread that does a stacked device's work received this request when it was queued.
            // Before that, the thread worked on other requests.
            let request = request.map(|index| &self.writes.requests.done[index]);
            let given = request.filter(|request| !request.leaf && request.completed_by == waker);
            // A softirq's or an interrupt's thread works for the call once it completes this
            // request.
            let name = timeline.name(waker);
            let handles = kernel_names::is_softirq_thread(name) || kernel_names::is_interrupt_thread(name);
            let handled = request.filter(|_| handles).map(|request| request.completed_ns);
            let from_ns =
                handled.or(given.map(|request| request.issued_ns)).unwrap_or(begin_ns).max(begin_ns);
            self.begun_before(waker, from_ns);
            self.thread(waker, from_ns, waking.time_ns, depth + 1);
        }
    }

    /// The awaited request may have been queued before the wait began, for another call or by the
    /// journal. It is in the block layer until it is issued: the thread that queued it may have
    /// lost its CPU before it issued its batch.
    fn queued_before(&mut self, request: &Request, begin_ns: u64) {
        if request.queued.iter().all(|queued| queued.0 > begin_ns) {
            return;
        }
        if request.queued.iter().any(|queued| queued.1 == request.issued_by) {
            self.late_issue(request.issued_by, begin_ns, request.issued_ns);
        }
        if request.leaf {
            self.claim(begin_ns, request.started_ns, Layer::Block);
        } else {
            let end_ns = request.issued_ns;
            self.found.fallback.push(Piece { begin_ns, end_ns, layer: Layer::Block });
        }
    }

    /// The awaited thread may have started its work before the wait: a thread that works for the
    /// call woke it, and then continued to run for a while. The awaited thread's requests to
    /// devices in that time belong to the call. Its own time does not, because the call does not
    /// wait for it yet.
    fn begun_before(&mut self, waker: u32, begin_ns: u64) {
        let earlier = self.writes.timeline.wakings_of(waker, self.write.start_ns, begin_ns);
        let by_us = |waking: &&Waking| match waking.by {
            WakingBy::Thread(by) => self.worked(by, waking.time_ns),
            WakingBy::Interrupt(_) | WakingBy::OtherCpu | WakingBy::Unknown => false,
        };
        if let Some(first) = earlier.iter().find(by_us) {
            self.workers.add(waker, first.time_ns, begin_ns);
        }
    }

    /// The thread that queued a request during the wait for it, and when; `None` if that thread is
    /// known to work for the call.
    fn queued_by_another(&self, request: &'a Request, begin_ns: u64) -> Option<(u32, u64)> {
        let within = request.queued.iter().filter(|queued| queued.0 > begin_ns);
        let &(queued_ns, by) = within.min()?;
        (!self.worked(by, queued_ns) && by != 0).then_some((by, queued_ns))
    }

    /// Whether a thread is known to have worked for the call at an instant.
    fn worked(&self, thread: u32, time_ns: u64) -> bool {
        self.workers.has(thread, time_ns)
    }

    /// Another thread queued the awaited request. If a thread that works for the call had woken it,
    /// it worked for the call during the whole wait. Otherwise the write was held, either until a
    /// timer woke that thread, or until the thread came to this write after other work. The latter
    /// happens if a worker was already awake when the timer expired.
    fn queuer(&mut self, tid: u32, begin_ns: u64, queued_ns: u64, depth: u32) {
        let waking = self.writes.timeline.wakings_of(tid, begin_ns, queued_ns).last().copied();
        let from_ns = match waking {
            Some(Waking { time_ns, by: WakingBy::Interrupt(Some(source)), .. })
                if source.is_timer(&self.writes.timeline.trace.names) =>
            {
                time_ns
            }
            _ if self.is_set_to_work(tid, queued_ns, 0) => begin_ns,
            _ => queued_ns,
        };
        if begin_ns < from_ns {
            self.claim(begin_ns, from_ns, Layer::Held);
        }
        if depth < DEEPEST && from_ns < queued_ns {
            self.thread(tid, from_ns, queued_ns, depth + 1);
        }
    }

    /// Whether a thread that works for the call had woken this one before an instant, directly or
    /// through its last waker. An unknown waker counts as one.
    fn is_set_to_work(&self, tid: u32, until_ns: u64, depth: u32) -> bool {
        let wakings = self.writes.timeline.wakings_of(tid, self.write.start_ns, until_ns);
        let by_us = |waking: &Waking| match waking.by {
            WakingBy::Thread(by) => self.worked(by, waking.time_ns),
            WakingBy::Interrupt(source) => source.is_none(),
            WakingBy::OtherCpu | WakingBy::Unknown => true,
        };
        let indirectly = |waking: &Waking| match waking.by {
            WakingBy::Thread(by) if depth < DEEPEST => self.is_set_to_work(by, waking.time_ns, depth + 1),
            _ => false,
        };
        wakings.iter().any(by_us) || wakings.last().is_some_and(indirectly)
    }
}

/// Removes a stretch from the helpers' claims.
fn cut(claims: &mut Vec<Piece>, begin_ns: u64, end_ns: u64) {
    let mut rests = Vec::new();
    // A claim that is left without time is no longer one.
    for claim in claims.iter_mut().rev().take(MOST_CUT) {
        if claim.layer != Layer::Helper || claim.end_ns <= begin_ns || end_ns <= claim.begin_ns {
            continue;
        }
        if claim.end_ns > end_ns {
            rests.push(Piece { begin_ns: end_ns, ..*claim });
        }
        claim.end_ns = begin_ns.max(claim.begin_ns);
    }
    claims.extend(rests);
}
