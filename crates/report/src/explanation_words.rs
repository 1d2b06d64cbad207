//! An explanation in words: the answer, causes, threads and interrupts, and why something is
//! unknown. Pure: explanations in, text out. Must not know which report the words are for.

use layers::{
    Cause, Explanation, Flag, Interrupt, Kind, Leg, Owner, Softirq, SystemCall, Thread, Unknown, What,
};

/// The answer in one or two sentences.
pub(crate) fn answer(explanation: &Explanation) -> String {
    let sentence = sentence(explanation);
    if explanation.flags.contains(&Flag::NoEvents) {
        format!("without kernel events: {sentence}")
    } else {
        sentence
    }
}

fn sentence(explanation: &Explanation) -> String {
    let causes = &explanation.causes;
    let Some(cause) = causes.first() else { return "nothing is known about it".into() };
    let text = long(cause, explanation);
    let rest =
        causes.get(1).filter(|next| next.excess_ns * 3 > cause.excess_ns && cause.kind != Kind::Ordinary);
    match rest {
        Some(next) => format!("{text}; next, {} ({})", brief(next), milliseconds(next.excess_ns)),
        None => text,
    }
}

/// A cause, with the thread that it delayed and for how long.
fn long(cause: &Cause, explanation: &Explanation) -> String {
    let (of, took) = (owner(cause.owner), milliseconds(cause.excess_ns));
    let on_cpu = cause.cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let via: Vec<String> = cause.via.iter().map(thread).collect();
    let who = if via.is_empty() {
        format!("the {of}")
    } else {
        format!("the {of} waited for {}, which", via.join(", which waited for "))
    };
    let what = what_or_nothing(cause);
    let other = thread_or_nothing(cause);
    match cause.kind {
        Kind::Ordinary => "nothing took longer than usual".into(),
        Kind::Work => {
            let caveat = if explanation.virtualised {
                "; on a virtual machine the hypervisor may not have run the CPU for part of this time"
            } else {
                ""
            };
            let than = if explanation.usual_ns.is_some() { " longer than a usual round trip" } else { "" };
            format!("the {of} itself ran {took}{than}{on_cpu}{caveat}")
        }
        Kind::Competitor => format!("{who} waited {took} for the CPU behind {other}{on_cpu}"),
        Kind::Interrupt => format!("{who} lost {took} of CPU time to {what}{on_cpu}"),
        Kind::Sleep => format!("the {of} slept for {took} ({what})"),
        Kind::Io => format!("{who} waited {took} for a device ({what})"),
        Kind::WaitedFor => {
            let slept = if cause.what == Some(What::Slept) { ", which slept" } else { "" };
            format!("the {of} waited {took} for {other}{slept}")
        }
        Kind::Stopped if other.is_empty() => format!("a signal stopped the {of} for {took}"),
        Kind::Stopped => format!("a signal stopped the {of} for {took}; {other} continued it"),
        Kind::WakeUp => {
            format!("waking the threads took {took}: interrupts between CPUs, idle exit, hand-over")
        }
        Kind::Throttled => {
            format!("the {of}'s control group had used up its CPU quota: throttled for {took}")
        }
        Kind::Gap => {
            format!("the CPU did not run for {took}{on_cpu}: the hypervisor had it, or interrupts were off")
        }
        Kind::CannotTell => format!("cannot tell: {what} ({took})"),
    }
}

/// A cause in a few words.
fn brief(cause: &Cause) -> String {
    let what = what_or_nothing(cause);
    let other = thread_or_nothing(cause);
    let of = owner(cause.owner);
    match cause.kind {
        Kind::Ordinary => "the usual".into(),
        Kind::Work => format!("the {of}'s own work"),
        Kind::Competitor => format!("{other} on the CPU"),
        Kind::Interrupt => what,
        Kind::Sleep => format!("the {of}'s sleep"),
        Kind::Io => format!("a device ({what})"),
        Kind::WaitedFor => format!("waiting for {other}"),
        Kind::Stopped => "a signal".into(),
        Kind::WakeUp => "waking the threads".into(),
        Kind::Throttled => "the CPU quota".into(),
        Kind::Gap => "a CPU that did not run".into(),
        Kind::CannotTell => format!("unknown time: {what}"),
    }
}

fn what_or_nothing(cause: &Cause) -> String {
    cause.what.as_ref().map(what).unwrap_or_default()
}

fn thread_or_nothing(cause: &Cause) -> String {
    cause.thread.as_ref().map(thread).unwrap_or_default()
}

/// What is to blame if it is not a thread, or why it is unknown.
pub(crate) fn what(what: &What) -> String {
    match what {
        What::Interrupt(by) => interrupt(by),
        What::SoftirqThread(comm) => format!("softirqs in {comm}"),
        What::SystemCall(call) => system_call(*call),
        What::Timer => "timer".into(),
        What::BlockDevice => "block device".into(),
        What::Slept => "slept".into(),
        What::Stopped(comm) => comm.clone(),
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
        Unknown::NoEvent => "no event shows what the thread did",
        Unknown::CpuOwner => "no event shows which thread had the CPU",
        Unknown::Contradiction => "the events contradict each other",
        Unknown::BehindOrThrottled => "behind other threads, or throttled by its control group's CPU quota",
        Unknown::Waker => "no event shows what ended a wait",
        Unknown::WakingInterrupt => "an unrecorded interrupt ended a wait: a timer or a device",
        Unknown::RunnableOnIdle => {
            "a thread was runnable while its CPU was idle: a CPU quota, or a hypervisor that did not run the \
             CPU"
        }
        Unknown::SinceBefore { owner: of, thread: other } => {
            let (of, other) = (owner(*of), thread(other));
            return format!("the {of} was already waiting when the recording began; {other} ended the wait");
        }
        Unknown::NoEventsFor(of) => return format!("no kernel events for the {}", leg(*of)),
        Unknown::WaitedForCpu(of) => {
            let of = owner(*of);
            return format!("{of}: a thread waited for a CPU; only kernel events show behind which thread");
        }
        Unknown::LongestLeg(of) => {
            return format!("the {} took longest; only kernel events show why", leg(*of));
        }
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

fn milliseconds(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{}.{} us", ns / 1000, ns % 1000 / 100)
    } else {
        format!("{}.{:02} ms", ns / 1_000_000, ns % 1_000_000 / 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hog(prio: Option<i32>) -> Thread {
        Thread { tid: 7, pid: None, comm: "hog".into(), prio }
    }

    fn cause(kind: Kind, excess_ns: u64) -> Cause {
        let (thread, what, via, cpu) = (None, None, Vec::new(), None);
        Cause { kind, excess_ns, owner: Owner::Server, thread, what, via, cpu }
    }

    /// An explanation with only these causes.
    fn of(causes: Vec<Cause>, virtualised: bool) -> Explanation {
        let trip = layers::RoundTrip { virtualised, ..layers::RoundTrip::default() };
        Explanation { causes, ..layers::explain_without_events(&trip) }
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
    fn an_answer_names_the_thread_the_cpu_and_the_next_cause_if_that_took_a_third() {
        let behind =
            Cause { thread: Some(hog(Some(110))), cpu: Some(1), ..cause(Kind::Competitor, 5_000_000) };
        let text = "the server waited 5.00 ms for the CPU behind hog (7) [nice -10] on CPU 1";
        assert_eq!(sentence(&of(vec![behind.clone()], false)), text);
        let short = cause(Kind::WakeUp, 1_000_000);
        assert_eq!(sentence(&of(vec![behind.clone(), short], false)), text);
        let long = cause(Kind::WakeUp, 2_000_000);
        assert_eq!(
            sentence(&of(vec![behind, long], false)),
            format!("{text}; next, waking the threads (2.00 ms)")
        );
    }

    #[test]
    fn an_answer_names_those_that_were_held_up_themselves() {
        let holder = Thread { tid: 40, pid: None, comm: "holder".into(), prio: Some(120) };
        let behind =
            Cause { thread: Some(hog(None)), via: vec![holder], ..cause(Kind::Competitor, 3_780_000) };
        assert_eq!(
            sentence(&of(vec![behind], false)),
            "the server waited for holder (40) [other], which waited 3.78 ms for the CPU behind hog (7)"
        );
    }

    #[test]
    fn on_a_virtual_machine_work_may_be_the_hypervisors_time() {
        let work = || vec![cause(Kind::Work, 2_900_000)];
        assert!(sentence(&of(work(), true)).contains("hypervisor"));
        assert_eq!(sentence(&of(work(), false)), "the server itself ran 2.90 ms");
        let usual = Explanation { usual_ns: Some(1), ..of(work(), false) };
        assert!(sentence(&usual).ends_with("ran 2.90 ms longer than a usual round trip"));
    }

    #[test]
    fn unknown_time_and_stops_by_a_signal_are_reported() {
        let lost = What::Unknown(Unknown::EventsLost);
        let lost = Cause { what: Some(lost), ..cause(Kind::CannotTell, 8_900_000) };
        assert_eq!(sentence(&of(vec![lost], false)), "cannot tell: events were lost (8.90 ms)");
        let stopped = vec![cause(Kind::Stopped, 2_890_000)];
        assert_eq!(sentence(&of(stopped, false)), "a signal stopped the server for 2.89 ms");
    }

    #[test]
    fn interrupts_are_named() {
        let device = Interrupt::Device { irq: 9, name: "virtio0".into() };
        assert_eq!(interrupt(&device), "interrupt 9 virtio0");
        assert_eq!(interrupt(&Interrupt::Softirq(Softirq(3))), "softirq NET_RX");
        assert_eq!(interrupt(&Interrupt::Softirq(Softirq(77))), "softirq 77");
    }
}
