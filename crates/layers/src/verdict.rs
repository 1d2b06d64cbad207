//! The answer in words. Must not know how it was found.

use std::fmt;

use crate::explanation::{Cause, Interrupt, Kind, Owner, Thread};
use crate::round_trip::RoundTrip;

/// One sentence, or two.
pub(crate) fn sentence(causes: &[Cause], trip: &RoundTrip) -> String {
    let Some(cause) = causes.first() else { return "nothing is known of it".into() };
    let (owner, took) = (cause.owner, milliseconds(cause.excess_ns));
    let on_cpu = cause.cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let via: Vec<String> = cause.via.iter().map(ToString::to_string).collect();
    let for_whom = if via.is_empty() {
        format!("the {owner}")
    } else {
        format!("{}, for which the {owner} waited,", via.join(", for which waited "))
    };
    let name = cause.name.as_deref().unwrap_or_default();
    let thread = cause.thread.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = match cause.kind {
        Kind::Ordinary => "nothing took longer than it usually does".into(),
        Kind::Work => {
            let caveat = if trip.virtualised {
                "; on a virtual machine this may also be time in which the hypervisor did not run the CPU"
            } else {
                ""
            };
            format!("the {owner} itself ran {took} longer than a round trip usually takes{on_cpu}{caveat}")
        }
        Kind::Competitor => format!("{for_whom} waited {took} for the CPU behind {thread}{on_cpu}"),
        Kind::Interrupt => format!("{name} took {took} of the CPU from {for_whom}{on_cpu}"),
        Kind::Sleep => format!("the {owner} slept for {took} ({name})"),
        Kind::Io => format!("{for_whom} waited {took} for a device ({name})"),
        Kind::WaitedFor => {
            let slept = if name == "slept" { ", which slept" } else { "" };
            format!("the {owner} waited {took} for {thread}{slept}")
        }
        Kind::Stopped if thread.is_empty() => format!("a signal stopped the {owner} for {took}"),
        Kind::Stopped => format!("a signal stopped the {owner} for {took}; {thread} made it go on"),
        Kind::WakeUp => {
            format!("waking the threads up took {took}: interrupts between CPUs, idle exit, hand-over")
        }
        Kind::Throttled => {
            format!("the {owner}'s control group had used up its CPU quota: throttled for {took}")
        }
        Kind::Gap => {
            format!("the CPU did not run for {took}{on_cpu}: the hypervisor had it, or interrupts were off")
        }
        Kind::CannotTell => format!("cannot tell: {name} ({took})"),
    };
    let rest =
        causes.get(1).filter(|next| next.excess_ns * 3 > cause.excess_ns && cause.kind != Kind::Ordinary);
    match rest {
        Some(next) => format!("{text}; next, {} ({})", brief(next), milliseconds(next.excess_ns)),
        None => text,
    }
}

/// A cause in a few words.
fn brief(cause: &Cause) -> String {
    let name = cause.name.clone().unwrap_or_default();
    let thread = cause.thread.as_ref().map(ToString::to_string).unwrap_or_default();
    let owner = cause.owner;
    match cause.kind {
        Kind::Ordinary => "the usual".into(),
        Kind::Work => format!("the {owner}'s own work"),
        Kind::Competitor => format!("{thread} on the CPU"),
        Kind::Interrupt => name,
        Kind::Sleep => format!("the {owner}'s sleep"),
        Kind::Io => format!("a device ({name})"),
        Kind::WaitedFor => format!("waiting for {thread}"),
        Kind::Stopped => "a signal".into(),
        Kind::WakeUp => "waking up".into(),
        Kind::Throttled => "the CPU quota".into(),
        Kind::Gap => "a CPU that did not run".into(),
        Kind::CannotTell => format!("unknown time: {name}"),
    }
}

fn milliseconds(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{}.{} us", ns / 1000, ns % 1000 / 100)
    } else {
        format!("{}.{:02} ms", ns / 1_000_000, ns % 1_000_000 / 10_000)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Owner::Client => "client",
            Owner::Server => "server",
        })
    }
}

/// "fifo:50", "nice:-20", "deadline": a kernel priority in the terms of sched(7).
struct Priority(i32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..=-1 => f.write_str("deadline"),
            // 99 is a real-time thread of sched_priority 0, which there is none of.
            prio @ 0..=98 => write!(f, "real-time {}", 99 - prio),
            120 => f.write_str("other"),
            prio => write!(f, "nice {}", prio - 120),
        }
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tid, self.comm.is_empty()) {
            (0, _) => return f.write_str("the idle thread"),
            (tid, true) => write!(f, "thread {tid}")?,
            (tid, false) => write!(f, "{} ({tid})", self.comm)?,
        }
        match self.prio {
            Some(prio) => write!(f, " [{}]", Priority(prio)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interrupt::Timer => f.write_str("timer interrupt"),
            Interrupt::Device { irq, name } => write!(f, "interrupt {irq} {name}"),
            Interrupt::Softirq { name } => write!(f, "softirq {name}"),
            Interrupt::Vector { name } => write!(f, "interrupt {name}"),
            Interrupt::Unnamed => f.write_str("an interrupt"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_named_with_their_priority_in_the_terms_of_users() {
        let thread = |prio| Thread { tid: 7, pid: None, comm: "hog".into(), prio };
        for (prio, text) in [
            (Some(-1), "hog (7) [deadline]"),
            (Some(49), "hog (7) [real-time 50]"),
            (Some(100), "hog (7) [nice -20]"),
            (Some(120), "hog (7) [other]"),
            (None, "hog (7)"),
        ] {
            assert_eq!(thread(prio).to_string(), text);
        }
    }
}
