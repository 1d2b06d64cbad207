//! The parts of explanations in words: causes, threads and interrupts, and why something is
//! unknown. Pure: explanations in, text out. Must not know which report the words are for.

use roundtrip_layers::{Interrupt, Leg, Owner, Softirq, SystemCall, Thread, Unknown, What};

/// What is to blame if it is not a thread, or why it is unknown.
pub(crate) fn what(what: &What) -> String {
    match what {
        What::Interrupt(by) => interrupt(by),
        What::SoftirqThread(comm) => format!("softirqs in {comm}"),
        What::SystemCall(call) => system_call(*call),
        What::Timer => "timer".into(),
        What::BlockDevice => "block device".into(),
        What::Slept => "slept".into(),
        What::Stopped(comm) | What::Frozen(comm) => comm.clone(),
        What::Unknown(reason) => unknown(reason),
    }
}

/// Why something is unknown.
pub(crate) fn unknown(reason: &Unknown) -> String {
    let text = match reason {
        Unknown::Server => "the serving thread is not known",
        Unknown::Queue => "runnable, but no event shows on which CPU",
        Unknown::NoThread => "the thread did not exist",
        Unknown::EventsLost => "events were lost",
        Unknown::OutsideRecording => "the recording does not cover this time",
        Unknown::NoEvent => "no event shows what the thread did",
        Unknown::CpuOwner => "no event shows which thread had the CPU",
        Unknown::Contradiction => "the events contradict each other",
        Unknown::BehindOrThrottled => "behind other threads, or throttled by its control group's CPU quota",
        Unknown::Waker => "no event shows what ended a wait",
        Unknown::Queued => "it was in a queue of many threads, each of which ended the wait of the next",
        Unknown::OtherCpu => {
            "another CPU or an interrupt ended a wait; sched/sched_waking, which shows which thread, was not recorded"
        }
        Unknown::WakingInterrupt => {
            "an interrupt of a timer or a device ended a wait; irq/irq_handler_entry, which names it, was not recorded"
        }
        Unknown::TooManyParts => "the call has more parts than are told apart",
        Unknown::RequestQueue => "a request stayed in its queue although the device had no earlier one",
        Unknown::RunnableOnIdle => {
            "a thread was runnable while its CPU was idle: a CPU quota, or a hypervisor that did not run the \
             CPU"
        }
        Unknown::SinceBefore { owner: of, thread: other } => {
            let (of, other) = (owner(*of), thread(other));
            return format!("the {of} was already waiting when the recording began; {other} ended the wait");
        }
        Unknown::NoEventsFor(of) => return format!("no kernel events for the {}", leg(*of)),
        // A reason that this report does not know yet.
        _ => "no reason given",
    };
    text.into()
}

/// One leg of a round trip.
pub(crate) fn leg(leg: Leg) -> &'static str {
    match leg {
        Leg::Request => "request",
        Leg::Handling => "handling",
        Leg::Reply => "reply",
        Leg::WholeCall => "whole call",
    }
}

/// A system call's name, or its number if the name is unknown.
pub(crate) fn system_call(call: SystemCall) -> String {
    call.name.map_or_else(|| format!("system call {}", call.number), str::to_owned)
}

/// Whose time it was.
pub(crate) fn owner(owner: Owner) -> &'static str {
    match owner {
        Owner::Client => "client",
        Owner::Server => "server",
    }
}

/// A thread with its id and its priority: "hog (7) [real-time 50]".
pub(crate) fn thread(thread: &Thread) -> String {
    let name = match (thread.tid, thread.comm.is_empty()) {
        (0, _) => return "the idle thread".into(),
        (tid, true) => format!("thread {tid}"),
        (tid, false) => format!("{} ({tid})", thread.comm),
    };
    match thread.prio {
        Some(prio) => format!("{name} [{}]", priority(prio)),
        None => name,
    }
}

/// A thread's name, or its id if it has no name.
pub(crate) fn comm(thread: &Thread) -> String {
    if thread.comm.is_empty() { format!("thread {}", thread.tid) } else { thread.comm.clone() }
}

/// A kernel priority in terms of sched(7).
fn priority(prio: i32) -> String {
    match prio {
        ..=-1 => "deadline".into(),
        // 99 would be a real-time thread with sched_priority 0, which does not exist.
        0..=98 => format!("real-time {}", 99 - prio),
        120 => "other".into(),
        prio => format!("nice {}", prio - 120),
    }
}

/// An interrupt by name.
pub(crate) fn interrupt(interrupt: &Interrupt) -> String {
    match interrupt {
        Interrupt::Timer => "timer interrupt".into(),
        Interrupt::Device { irq, name } => format!("interrupt {irq} {name}"),
        Interrupt::Softirq(softirq) => format!("softirq {}", softirq_name(*softirq)),
        Interrupt::Vector { name } => format!("interrupt {name}"),
        Interrupt::Unnamed => "an interrupt".into(),
    }
}

/// The kernel's name for a softirq, or its number if the name is unknown.
pub(crate) fn softirq_name(softirq: Softirq) -> String {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    let Softirq(number) = softirq;
    NAMES.get(number as usize).map_or_else(|| number.to_string(), |&name| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hog(prio: Option<i32>) -> Thread {
        Thread { tid: 7, pid: None, comm: "hog".into(), prio }
    }

    #[test]
    fn threads_are_named_with_their_priority_in_the_terms_of_users() {
        for (prio, text) in [
            (Some(-1), "hog (7) [deadline]"),
            (Some(49), "hog (7) [real-time 50]"),
            (Some(100), "hog (7) [nice -20]"),
            (Some(120), "hog (7) [other]"),
            (None, "hog (7)"),
        ] {
            assert_eq!(thread(&hog(prio)), text);
        }
    }

    #[test]
    fn interrupts_are_named() {
        let device = Interrupt::Device { irq: 9, name: "virtio0".into() };
        assert_eq!(interrupt(&device), "interrupt 9 virtio0");
        assert_eq!(interrupt(&Interrupt::Softirq(Softirq(3))), "softirq NET_RX");
        assert_eq!(interrupt(&Interrupt::Softirq(Softirq(77))), "softirq 77");
    }
}
