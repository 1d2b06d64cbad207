//! Derives causes from parts: what is to blame for each part, how much exceeds the usual time, and
//! which cause is the main one. Must not know how parts were found.

use crate::evidence::FIRST_ORDINARY_PRIO;
use tracefs::OffCpu;

use crate::explanation::{Cause, Flag, Interrupt, Kind, Owner, Part, State, Thread, Unknown, Waker, What};
use crate::kernel_names;
use crate::round_trip::RoundTrip;
use crate::system_calls::SystemCall;

/// The usual duration of a round trip if its run does not say, in nanoseconds.
const USUAL_NS: u64 = 100_000;

/// Up to this many tenths of the usual time, a call counts as undisturbed.
const ORDINARY_TENTHS: u64 = 15;

/// Unknown time up to this share of the excess cannot hide the main cause.
const NEGLIGIBLE_PERCENT: u64 = 5;

/// From this duration on, a wait behind a thread of lower priority is reported. Shorter ones are
/// normal in the kernel's context switches.
const HELD_OFF_NS: u64 = 50_000;

/// The blame for one part.
struct Blame {
    kind: Kind,
    thread: Option<Thread>,
    what: Option<What>,
    cpu: Option<u32>,
    via: Vec<Thread>,
    owner: Owner,
    ns: u64,
}

/// By owner: CPU time, in nanoseconds, that the events attribute to the owner's thread but that the
/// thread did not get.
pub(crate) type Missing = [(Owner, Option<u64>); 2];

/// What caused the delay, the main cause first.
pub(crate) fn causes(parts: &[Part], trip: &RoundTrip, missing: Missing) -> Vec<Cause> {
    let mut blames = Vec::new();
    for part in parts {
        collect(part, &[], &mut blames);
    }
    let usual_ns = trip.usual_ns.unwrap_or(USUAL_NS);
    let mut causes = grouped(blames);
    for (owner, missing_ns) in missing {
        take_missing(&mut causes, owner, missing_ns.unwrap_or(0));
    }
    for cause in &mut causes {
        // The usual time consists of work and wakeups, so only an excess of these is a cause.
        if matches!(cause.kind, Kind::Work | Kind::WakeUp) {
            cause.excess_ns = cause.excess_ns.saturating_sub(usual_ns);
        }
    }
    causes.retain(|cause| cause.excess_ns > 0);
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.excess_ns));
    lead_with_the_answer(&mut causes, trip, usual_ns);
    causes
}

/// Puts "ordinary" or "cannot tell" first if no other cause can be called the main one.
fn lead_with_the_answer(causes: &mut Vec<Cause>, trip: &RoundTrip, usual_ns: u64) {
    let ordinary = trip.usual_ns.is_some() && trip.duration_ns() * 10 <= usual_ns * ORDINARY_TENTHS;
    if causes.is_empty() || ordinary {
        causes.insert(
            0,
            Cause {
                kind: Kind::Ordinary,
                excess_ns: 0,
                owner: Owner::Client,
                thread: None,
                what: None,
                via: Vec::new(),
                cpu: None,
            },
        );
        return;
    }
    let total_ns: u64 = causes.iter().map(|cause| cause.excess_ns).sum();
    let unknown = |cause: &&Cause| cause.kind == Kind::CannotTell;
    let unknown_ns: u64 = causes.iter().filter(unknown).map(|cause| cause.excess_ns).sum();
    if unknown_ns * 100 <= total_ns * NEGLIGIBLE_PERCENT {
        return;
    }
    let mut named = causes.iter().filter(|cause| !unknown(cause)).map(|cause| cause.excess_ns);
    let (first_ns, second_ns) = (named.next().unwrap_or(0), named.next().unwrap_or(0));
    // The unknown time may belong to any cause. So the first cause is the main one only if it would
    // still lead when the second one gets all of that time.
    if first_ns <= second_ns + unknown_ns
        && let Some(index) = causes.iter().position(|cause| cause.kind == Kind::CannotTell)
    {
        let cause = causes.remove(index);
        causes.insert(0, cause);
    }
}

/// Moves time from a thread's work to the CPU not running.
fn take_missing(causes: &mut Vec<Cause>, owner: Owner, missing_ns: u64) {
    let work = causes.iter_mut().find(|cause| cause.kind == Kind::Work && cause.owner == owner);
    let Some(work) = work.filter(|_| missing_ns > 0) else { return };
    let moved_ns = missing_ns.min(work.excess_ns);
    work.excess_ns -= moved_ns;
    let cpu = work.cpu;
    match causes.iter_mut().find(|cause| cause.kind == Kind::Gap) {
        Some(gap) => gap.excess_ns += moved_ns,
        None => causes.push(Cause {
            kind: Kind::Gap,
            excess_ns: moved_ns,
            owner,
            thread: None,
            what: None,
            via: Vec::new(),
            cpu,
        }),
    }
}

/// Combines all blame on the same thing into one cause.
fn grouped(blames: Vec<Blame>) -> Vec<Cause> {
    let mut causes: Vec<(Cause, u64)> = Vec::new();
    for blame in blames {
        let Blame { kind, thread, what, cpu, via, owner, ns } = blame;
        let by_owner = matches!(kind, Kind::Work | Kind::Sleep);
        let same = |cause: &Cause| {
            cause.kind == kind
                && cause.thread.as_ref().map(|thread| thread.tid) == thread.as_ref().map(|thread| thread.tid)
                && (thread.is_some() || kind == Kind::WakeUp || cause.what == what)
                && (!by_owner || cause.owner == owner)
        };
        match causes.iter_mut().find(|(cause, _)| same(cause)) {
            Some((cause, longest_ns)) => {
                cause.excess_ns += ns;
                // The longest part determines how the cause is described.
                if ns > *longest_ns {
                    (cause.owner, cause.via, cause.cpu, *longest_ns) = (owner, via, cpu, ns);
                    (cause.thread, cause.what) = (thread, what);
                }
            }
            None => causes.push((Cause { kind, excess_ns: ns, owner, thread, what, via, cpu }, ns)),
        }
    }
    causes.into_iter().map(|(cause, _)| cause).collect()
}

/// Blames a part, or the parts of the thread that it waited for.
fn collect(part: &Part, via: &[Thread], blames: &mut Vec<Blame>) {
    match &part.state {
        State::Blocked { waker: Waker::Thread { thread }, .. }
            if !part.because.is_empty() && !may_have_been_stopped(part, via) =>
        {
            let via: Vec<Thread> = via.iter().chain([thread]).cloned().collect();
            part.because.iter().for_each(|part| collect(part, &via, blames));
        }
        _ => {
            let (kind, thread, what) = blamed(part, via);
            let (thread, via) = (thread.cloned(), via.to_vec());
            let (cpu, owner, ns) = (part.cpu, part.owner, part.duration_ns());
            blames.push(Blame { kind, thread, what, cpu, via, owner, ns });
        }
    }
}

/// Whether an owner's wait may have been a stop by a signal, which looks the same if its start was
/// not recorded.
fn may_have_been_stopped(part: &Part, via: &[Thread]) -> bool {
    via.is_empty() && matches!(part.state, State::Blocked { off: None, .. })
}

/// What a single part is blamed on: the kind, the thread, and further details.
fn blamed<'a>(part: &'a Part, via: &'a [Thread]) -> (Kind, Option<&'a Thread>, Option<What>) {
    let cannot_tell = |reason| (Kind::CannotTell, None, Some(What::Unknown(reason)));
    // The thread that the owner waited for, and those in between.
    let waited_for = via.last();
    match &part.state {
        State::User | State::Running | State::Spinning | State::SystemCall { .. } => match waited_for {
            None => (Kind::Work, part.thread.as_ref(), None),
            Some(thread) => (Kind::WaitedFor, Some(thread), None),
        },
        State::Stolen { interrupt } => (Kind::Interrupt, None, Some(What::Interrupt(interrupt.clone()))),
        State::WakeUpPending | State::IdleExit | State::HandOver { .. } => match waited_for {
            None => (Kind::WakeUp, None, None),
            Some(thread) => (Kind::WaitedFor, Some(thread), None),
        },
        // The softirq thread runs softirqs when there are too many of them.
        State::Behind { thread } | State::Preempted { thread }
            if kernel_names::is_softirq_thread(&thread.comm) =>
        {
            (Kind::Interrupt, None, Some(What::SoftirqThread(thread.comm.clone())))
        }
        State::Behind { thread } | State::Preempted { thread } => (Kind::Competitor, Some(thread), None),
        State::Stopped { waker } => {
            let by = match waker {
                Waker::Thread { thread } => Some(thread),
                _ => None,
            };
            (Kind::Stopped, by, part.thread.as_ref().map(|thread| What::Stopped(thread.comm.clone())))
        }
        State::Blocked { waker: Waker::Thread { thread }, .. } if may_have_been_stopped(part, via) => {
            cannot_tell(Unknown::SinceBefore { owner: part.owner, thread: thread.clone() })
        }
        State::Blocked { waker: Waker::Thread { thread }, .. } => (Kind::WaitedFor, Some(thread), None),
        State::Blocked { off, system_call, waker: Waker::Interrupt { interrupt, completed_io }, .. } => {
            match (waited_for, ended_by(*off, *system_call, interrupt, *completed_io)) {
                // A thread that sleeps while others wait for it is to blame, not its timer.
                (Some(thread), (Kind::Sleep, _)) => (Kind::WaitedFor, Some(thread), Some(What::Slept)),
                (_, (kind, what)) => (kind, None, Some(what)),
            }
        }
        State::Blocked { .. } => cannot_tell(Unknown::Waker),
        State::RunnableOnIdle => cannot_tell(Unknown::RunnableOnIdle),
        State::Throttled => (Kind::Throttled, None, None),
        State::Gap => (Kind::Gap, None, None),
        State::Leg { leg } => cannot_tell(Unknown::NoEventsFor(*leg)),
        State::Unknown { reason } => cannot_tell(reason.clone()),
    }
}

/// What a wait was for, if an interrupt ended it.
fn ended_by(
    off: Option<OffCpu>,
    system_call: Option<SystemCall>,
    interrupt: &Interrupt,
    completed_io: bool,
) -> (Kind, What) {
    let timer = || (Kind::Sleep, system_call.map_or(What::Timer, What::SystemCall));
    match interrupt {
        _ if completed_io => (Kind::Io, What::BlockDevice),
        Interrupt::Timer => timer(),
        Interrupt::Softirq(softirq) if softirq.is_timer() => timer(),
        Interrupt::Unnamed if system_call.is_some_and(SystemCall::is_sleep) => timer(),
        Interrupt::Unnamed if off != Some(OffCpu::Uninterruptible) => {
            (Kind::CannotTell, What::Unknown(Unknown::WakingInterrupt))
        }
        interrupt => (Kind::Io, What::Interrupt(interrupt.clone())),
    }
}

/// Real-time threads that waited for threads of lower priority.
pub(crate) fn flags(parts: &[Part], trip: &RoundTrip) -> Vec<Flag> {
    let mut waits = Vec::new();
    parts.iter().for_each(|part| waiting(part, &mut waits));
    let client_prio = trip.client.prio.or_else(|| {
        let of_client = parts.iter().find(|part| part.owner == Owner::Client);
        of_client.and_then(|part| part.thread.as_ref()?.prio)
    });
    let mut flags = Vec::new();
    let mut held: Vec<(Flag, u64)> = Vec::new();
    for (waited, thread, ns) in waits {
        let Some(prio) = thread.prio else { continue };
        let flag = match (waited.prio, client_prio) {
            (Some(own), _) if own < FIRST_ORDINARY_PRIO && own < prio => {
                Flag::RealTimeHeldOff { waited: waited.clone(), thread: thread.clone() }
            }
            (_, Some(client)) if client < FIRST_ORDINARY_PRIO && client < prio => {
                Flag::PriorityInversion { thread: thread.clone() }
            }
            _ => continue,
        };
        match held.iter_mut().find(|(known, _)| *known == flag) {
            Some((_, sum_ns)) => *sum_ns += ns,
            None => held.push((flag, ns)),
        }
    }
    flags.extend(held.into_iter().filter(|(_, ns)| *ns >= HELD_OFF_NS).map(|(flag, _)| flag));
    if parts.iter().any(|part| part.state == State::Throttled) {
        flags.push(Flag::Throttled);
    }
    if parts.iter().any(|part| part.state == State::Gap) {
        flags.push(Flag::Gap);
    }
    flags
}

/// Which thread waited for a CPU behind which other, and how long.
fn waiting<'a>(part: &'a Part, out: &mut Vec<(&'a Thread, &'a Thread, u64)>) {
    if let (State::Behind { thread } | State::Preempted { thread }, Some(waited)) =
        (&part.state, &part.thread)
    {
        out.push((waited, thread, part.duration_ns()));
    }
    part.because.iter().for_each(|part| waiting(part, out));
}
