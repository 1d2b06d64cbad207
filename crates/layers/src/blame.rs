//! The reasons of a call thread by thread, and circumstances to know. Must not know how parts or
//! reasons were found.

use roundtrip_sorting::SmallSort as _;

use crate::evidence::FIRST_ORDINARY_PRIO;
use crate::explanation::{Cause, Flag, Kind, Owner, Part, State, Thread, What};
use crate::reasons::{Reason, ReasonKind, Reasons, Role, Stop, Why};
use crate::round_trip::RoundTrip;

/// The usual duration of a round trip if its run does not say, in nanoseconds.
pub(crate) const USUAL_NS: u64 = 100_000;

/// From this duration on, a wait behind a thread of lower priority is reported. Shorter ones are
/// normal in the kernel's context switches.
const HELD_OFF_NS: u64 = 50_000;

/// The causes in the order of the reasons: by kind, process and thread. The unknown ones come first
/// if they are more than half.
pub(crate) fn causes(reasons: &Reasons, ordinary: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let cannot_tell = reasons.unknown_ns() * 2 > reasons.delay_ns();
    let mut kinds: Vec<_> = reasons.kinds.iter().collect();
    kinds.small_sort_by_key(|of| (of.kind == ReasonKind::Unknown) != cannot_tell);
    for of in kinds {
        for process in &of.processes {
            // All time of a process that is lost, thread by thread.
            let mut left_ns = process.lost_ns;
            for thread in &process.threads {
                let Some((why, _)) = thread.why.first() else { continue };
                let excess_ns = thread.sum_ns.min(left_ns);
                left_ns -= excess_ns;
                causes.push(cause(why, excess_ns));
            }
        }
    }
    causes.retain(|cause| cause.excess_ns > 0);
    if ordinary {
        let (thread, what, via, cpu, function) = (None, None, Vec::new(), None, None);
        let kind = Kind::Ordinary;
        causes
            .insert(0, Cause { kind, excess_ns: 0, owner: Owner::Client, thread, what, via, cpu, function });
    }
    causes
}

fn cause(why: &Why, excess_ns: u64) -> Cause {
    let (kind, what) = blamed(why);
    // The last thread of a chain is what it waited for.
    let via = match why.reason {
        Reason::Thread { .. } | Reason::Sleep { .. } => why.chain.split_last().map(|(_, via)| via),
        _ => Some(&why.chain[..]),
    };
    Cause {
        kind,
        excess_ns,
        owner: if why.role == Role::Client { Owner::Client } else { Owner::Server },
        thread: if kind == Kind::Sleep { None } else { why.thread.clone() },
        what,
        via: via.unwrap_or_default().to_vec(),
        cpu: why.cpu,
        function: why.function.clone(),
    }
}

fn blamed(why: &Why) -> (Kind, Option<What>) {
    let stopped = || why.chain.last().or(why.delayed.as_ref()).map_or_else(String::new, |of| of.comm.clone());
    match &why.reason {
        Reason::OwnWork => (Kind::Work, None),
        Reason::SlowCpu { .. } => (Kind::SlowCpu, None),
        Reason::Cpu => (Kind::Competitor, None),
        Reason::Interrupted { by } => (Kind::Interrupt, Some(What::Interrupt(by.clone()))),
        Reason::SoftirqThread { name } => (Kind::Interrupt, Some(What::SoftirqThread(name.clone()))),
        Reason::Thread { but } => (Kind::WaitedFor, but.clone().map(What::Unknown)),
        Reason::BusyPool { .. } => (Kind::BusyPool, None),
        Reason::Device { interrupt: Some(by), .. } => (Kind::Io, Some(What::Interrupt(by.clone()))),
        Reason::Device { .. } | Reason::BehindIo { .. } => (Kind::Io, Some(What::BlockDevice)),
        Reason::Throttled { .. } => (Kind::Throttled, None),
        // A thread that sleeps while others wait for it is to blame, not its timer.
        Reason::Sleep { .. } if !why.chain.is_empty() => (Kind::WaitedFor, Some(What::Slept)),
        Reason::Sleep { call } => (Kind::Sleep, Some(call.map_or(What::Timer, What::SystemCall))),
        Reason::Stopped { how: Stop::Frozen } => (Kind::Stopped, Some(What::Frozen(stopped()))),
        Reason::Stopped { how: Stop::Signal } => (Kind::Stopped, Some(What::Stopped(stopped()))),
        Reason::WakeUp { .. } => (Kind::WakeUp, None),
        Reason::CpuGone => (Kind::Gap, None),
        Reason::Unknown { why } => (Kind::CannotTell, Some(What::Unknown(why.clone()))),
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
    let (mut held_off, mut inverted) = (Waits::default(), Waits::default());
    for (waited, thread, ns) in waits {
        let Some(prio) = thread.prio else { continue };
        match (waited.prio, client_prio) {
            (Some(own), _) if own < FIRST_ORDINARY_PRIO && own < prio => held_off.add(waited, thread, ns),
            (_, Some(client)) if client < FIRST_ORDINARY_PRIO && client < prio => {
                inverted.add(waited, thread, ns);
            }
            _ => {}
        }
    }
    if let Some((waited, thread, others, sum_ns)) = held_off.all() {
        let (waited, thread) = (waited.clone(), thread.clone());
        flags.push(Flag::RealTimeHeldOff { waited, thread, others, sum_ns });
    }
    if let Some((_, thread, others, sum_ns)) = inverted.all() {
        flags.push(Flag::PriorityInversion { thread: thread.clone(), others, sum_ns });
    }
    if parts.iter().any(|part| part.state == State::Throttled) {
        flags.push(Flag::Throttled);
    }
    if parts.iter().any(|part| part.state == State::Gap) {
        flags.push(Flag::Gap);
    }
    flags
}

/// Which threads waited behind which others, and how long.
#[derive(Default)]
struct Waits<'a>(Vec<(&'a Thread, &'a Thread, u64)>);

impl<'a> Waits<'a> {
    fn add(&mut self, waited: &'a Thread, thread: &'a Thread, ns: u64) {
        let same = |of: &&mut (&Thread, &Thread, u64)| (of.0.tid, of.1.tid) == (waited.tid, thread.tid);
        match self.0.iter_mut().find(same) {
            Some((_, _, sum_ns)) => *sum_ns += ns,
            None => self.0.push((waited, thread, ns)),
        }
    }

    /// The longest of them, how many others there are, and the sum; `None` if that is short.
    fn all(&self) -> Option<(&'a Thread, &'a Thread, u64, u64)> {
        let &(waited, thread, _) = self.0.iter().max_by_key(|wait| wait.2)?;
        let sum_ns = self.0.iter().map(|wait| wait.2).sum();
        (sum_ns >= HELD_OFF_NS).then_some((waited, thread, self.0.len() as u64 - 1, sum_ns))
    }
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
