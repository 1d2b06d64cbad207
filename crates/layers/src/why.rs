//! Why a call did not move in each of its parts. Must not know how parts were found, nor what adds
//! up the reasons.

use roundtrip_tracefs::OffCpu;

use crate::explanation::{Interrupt, Leg, Owner, Part, State, Thread, Unknown, Waker};
use crate::kernel_names;
use crate::reasons::{Class, Limit, Place, Process, Reason, Role, Stretch, WakeUpStep, Why};
use crate::system_calls::SystemCall;
use crate::timeline::Timeline;

/// When the call passed to the server and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Legs {
    pub(crate) request_ns: u64,
    pub(crate) reply_ns: u64,
}

/// The reasons of parts. They cover the same time, without gaps.
pub(crate) fn stretches(timeline: &Timeline<'_>, parts: &[Part], legs: Legs) -> Vec<Stretch> {
    let mut out = Vec::new();
    for part in parts {
        let leg = match part.begin_ns {
            ns if ns < legs.request_ns => Leg::Request,
            ns if ns < legs.reply_ns => Leg::Handling,
            _ => Leg::Reply,
        };
        let delayed = part.thread.as_ref();
        Find { timeline, owner: part.owner, delayed, leg }.collect(part, &[], &mut out);
    }
    out
}

/// The process of a thread at an instant. A thread of an unknown process is a process by itself.
pub(crate) fn process_of(timeline: &Timeline<'_>, thread: &Thread, time_ns: u64) -> Process {
    let pid = thread.pid.unwrap_or(thread.tid);
    let mut name = timeline.process_name_at(pid, time_ns);
    if name.is_empty() && pid == thread.tid {
        name = &thread.comm;
    }
    Process { pid, name: name.to_owned(), class: Class::of(thread.prio) }
}

/// Moves time from a role's own work to its CPU not running: time that events attribute to the
/// thread, but that its counters do not show. When it was is not known; the sum is.
pub(crate) fn take_missing(stretches: &mut Vec<Stretch>, owner: Owner, missing_ns: u64) {
    let mut left_ns = missing_ns;
    let mut index = stretches.len();
    while left_ns > 0 && index > 0 {
        index -= 1;
        let stretch = &mut stretches[index];
        if stretch.why.reason != Reason::OwnWork || stretch.why.role != role(owner) {
            continue;
        }
        let moved_ns = left_ns.min(stretch.duration_ns());
        let gone = Why { reason: Reason::CpuGone, process: None, thread: None, ..stretch.why.clone() };
        let from_ns = stretch.end_ns - moved_ns;
        let end_ns = std::mem::replace(&mut stretch.end_ns, from_ns);
        stretches.insert(index + 1, Stretch { begin_ns: from_ns, end_ns, why: gone });
        left_ns -= moved_ns;
    }
    stretches.retain(|stretch| stretch.begin_ns < stretch.end_ns);
}

pub(crate) fn role(owner: Owner) -> Role {
    match owner {
        Owner::Client => Role::Client,
        Owner::Server => Role::Server,
    }
}

/// Finds the reasons of one part of the call.
struct Find<'a, 't> {
    timeline: &'a Timeline<'t>,
    owner: Owner,
    delayed: Option<&'a Thread>,
    leg: Leg,
}

impl Find<'_, '_> {
    /// The reason of a part, or those of the thread that it waited for.
    fn collect(&self, part: &Part, chain: &[Thread], out: &mut Vec<Stretch>) {
        match &part.state {
            State::Blocked { waker: Waker::Thread { thread }, .. }
                if !part.because.is_empty() && !may_have_been_stopped(part, chain) =>
            {
                let chain: Vec<Thread> = chain.iter().chain([thread]).cloned().collect();
                part.because.iter().for_each(|part| self.collect(part, &chain, out));
            }
            _ => {
                let (reason, thread) = reason(part, chain);
                let why = Why {
                    reason,
                    process: thread.map(|thread| process_of(self.timeline, thread, part.begin_ns)),
                    thread: thread.cloned(),
                    role: role(self.owner),
                    delayed: self.delayed.cloned(),
                    chain: chain.to_vec(),
                    function: match &part.state {
                        State::Blocked { function, .. } => function.clone(),
                        _ => None,
                    },
                    cpu: part.cpu,
                    place: Some(Place::Leg(self.leg)),
                };
                out.push(Stretch { begin_ns: part.begin_ns, end_ns: part.end_ns, why });
            }
        }
    }
}

/// Whether an owner's wait may have been a stop by a signal, which looks the same if its start was
/// not recorded.
fn may_have_been_stopped(part: &Part, chain: &[Thread]) -> bool {
    chain.is_empty() && matches!(part.state, State::Blocked { off: None, .. })
}

/// The reason that a thread's state is by itself, and the thread that names it; `None` for states
/// whose reason depends on what else is known.
pub(crate) fn of_state(state: &State) -> Option<(Reason, Option<&Thread>)> {
    let reason = match state {
        // The softirq thread runs softirqs when there are too many of them.
        State::Behind { thread } | State::Preempted { thread }
            if kernel_names::is_softirq_thread(&thread.comm) =>
        {
            Reason::SoftirqThread { name: thread.comm.clone() }
        }
        State::Behind { thread } | State::Preempted { thread } => return Some((Reason::Cpu, Some(thread))),
        State::Stolen { interrupt } => Reason::Interrupted { by: interrupt.clone() },
        State::WakeUpPending => Reason::WakeUp { step: WakeUpStep::Interrupt },
        State::IdleExit { state } => Reason::WakeUp { step: WakeUpStep::IdleExit { state: *state } },
        State::HandOver { .. } => Reason::WakeUp { step: WakeUpStep::HandOver },
        State::Throttled => Reason::Throttled { limit: Limit::CpuQuota, cgroup: None },
        State::Gap => Reason::CpuGone,
        State::RunnableOnIdle => Reason::Unknown { why: Unknown::RunnableOnIdle },
        State::Unknown { reason } => Reason::Unknown { why: reason.clone() },
        State::User
        | State::Running
        | State::Spinning
        | State::SystemCall { .. }
        | State::Blocked { .. }
        | State::Stopped { .. }
        | State::Leg { .. } => return None,
    };
    Some((reason, None))
}

/// The reason of a single part, and the thread that names it.
fn reason<'a>(part: &'a Part, chain: &'a [Thread]) -> (Reason, Option<&'a Thread>) {
    let unknown = |why| (Reason::Unknown { why }, None);
    // The thread that the owner waited for, perhaps through others.
    let waited_for = chain.last();
    let by_thread = |waker: &'a Waker| match waker {
        Waker::Thread { thread } => Some(thread),
        _ => None,
    };
    if let Some(found) = of_state(&part.state) {
        return match (found, waited_for) {
            ((Reason::WakeUp { .. }, _), Some(thread)) => (Reason::Thread { but: None }, Some(thread)),
            (found, _) => found,
        };
    }
    match &part.state {
        State::Stopped { how, by, waker } => {
            (Reason::Stopped { how: *how }, by_thread(waker).or(by.as_ref()))
        }
        State::Blocked { waker: Waker::Thread { thread }, .. } if may_have_been_stopped(part, chain) => {
            unknown(Unknown::SinceBefore { owner: part.owner, thread: thread.clone() })
        }
        State::Blocked { waker: Waker::Thread { thread }, .. } => {
            (Reason::Thread { but: None }, Some(thread))
        }
        // The kernel itself says that the thread waited for a device.
        State::Blocked { io_wait: true, .. } => {
            (Reason::Device { device: None, operation: None, interrupt: None }, None)
        }
        State::Blocked { off, system_call, waker: Waker::Interrupt { interrupt, completed_io }, .. } => {
            match (ended_by(*off, *system_call, interrupt, *completed_io), waited_for) {
                (reason @ Reason::Sleep { .. }, _) => (reason, part.thread.as_ref()),
                (Reason::Unknown { why }, Some(thread)) => (Reason::Thread { but: Some(why) }, Some(thread)),
                (reason, _) => (reason, None),
            }
        }
        // A chain of threads that ends here still says which thread the owner waited for.
        State::Blocked { waker, .. } => {
            let why = if *waker == Waker::OtherCpu { Unknown::OtherCpu } else { Unknown::Waker };
            match waited_for {
                Some(thread) => (Reason::Thread { but: Some(why) }, Some(thread)),
                None => unknown(why),
            }
        }
        State::Leg { leg } => unknown(Unknown::NoEventsFor(*leg)),
        // The thread runs.
        _ => match waited_for {
            None => (Reason::OwnWork, part.thread.as_ref()),
            Some(thread) => (Reason::Thread { but: None }, Some(thread)),
        },
    }
}

/// What a wait was for, if an interrupt ended it.
fn ended_by(
    off: Option<OffCpu>,
    system_call: Option<SystemCall>,
    interrupt: &Interrupt,
    completed_io: bool,
) -> Reason {
    let sleep = || Reason::Sleep { call: system_call };
    let device = |interrupt| Reason::Device { device: None, operation: None, interrupt };
    match interrupt {
        _ if completed_io => device(None),
        Interrupt::Timer => sleep(),
        Interrupt::Softirq(softirq) if softirq.is_timer() => sleep(),
        Interrupt::Unnamed if system_call.is_some_and(SystemCall::is_sleep) => sleep(),
        Interrupt::Unnamed if off != Some(OffCpu::Uninterruptible) => {
            Reason::Unknown { why: Unknown::WakingInterrupt }
        }
        interrupt => device(Some(interrupt.clone())),
    }
}
