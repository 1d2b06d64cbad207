//! Explanations for a terminal: for each slow call the answer, circumstances to know, and the parts
//! of its time. Pure: explanations in, text out.

pub mod json;
pub(crate) mod names;
mod parts;
pub mod rows;
pub(crate) mod sentence;
pub(crate) mod summary;
pub mod tracks;
pub(crate) mod without;
pub(crate) mod words;

use std::fmt::Write as _;

use roundtrip_layers::reasons::Stop;
use roundtrip_layers::{Flag, Interrupt, State, Waker};
use roundtrip_tracefs::OffCpu;

pub use crate::explanation::names::thing;
use crate::explanation::parts::parts;
pub(crate) use crate::explanation::parts::{parts_table, threads};
use crate::explanation::sentence::answer;
use crate::explanation::words::{interrupt, leg, system_call, thread, unknown};
use crate::text::inert;
use crate::text::quantity::duration;
use roundtrip_analysis::slow_calls::{Explained, Kept};

/// Parts shorter than this percentage of the call are combined.
const SHORT_PERCENT: u64 = 1;

/// How many calls a report shows if it is not asked for all.
const WORST: usize = 3;

/// The most lines with parts of a call that was not asked for.
const PARTS: usize = 20;

/// What a report shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// All calls with all of their parts, rather than the worst three.
    pub all: bool,
    /// Whether what matters most comes last, where the eye is on a terminal.
    pub last: bool,
    /// How to see the rest, if there is more.
    pub rest: &'a str,
}

/// The explanations of some slow calls, and how many more the run had. If they are all calls that
/// the run kept, it sums up their causes.
#[must_use]
pub fn text(explained: &[Explained], kept: &Kept, shown: Shown<'_>) -> String {
    let mut blocks = Vec::new();
    if explained.len() == kept.calls.len() {
        blocks.push(summary::report(explained, kept));
    }
    let count = if shown.all { explained.len() } else { explained.len().min(WORST) };
    let limit = match (shown.all, explained.len()) {
        (true, _) => Some(usize::MAX),
        (false, 1) => Some(PARTS),
        (false, _) => None,
    };
    blocks.extend(explained.iter().take(count).map(|one| one_call(one, limit)));
    let mut notes: String = notes(explained).iter().map(|line| format!("{line}\n")).collect();
    notes.extend(over_limit(kept).map(|line| line + "\n"));
    let more = explained.len() > count || limit != Some(usize::MAX);
    if more && !explained.is_empty() && !shown.rest.is_empty() {
        let of = explained.len();
        notes.push_str(&format!("Shown: {count} of {of} slow calls. {}\n", shown.rest));
    }
    blocks.push(notes);
    blocks.retain(|block| !block.is_empty());
    if shown.last {
        blocks.reverse();
    }
    blocks.join("\n")
}

/// The call, what delayed it, and its parts if there are lines for them.
fn one_call(one: &Explained, limit: Option<usize>) -> String {
    let explanation = &one.explanation;
    let mut out = format!("{}\n  {}\n", heading(one), answer(explanation));
    for flag in explanation.flags.iter().filter(|flag| !is_note(flag)) {
        let _ = writeln!(out, "  {}", flag_text(flag));
    }
    if let Some(limit) = limit {
        out.push_str(&parts(explanation, limit));
    }
    out
}

/// Whether a circumstance is about the recording rather than the call. Then it is said once for all
/// calls.
fn is_note(flag: &Flag) -> bool {
    matches!(
        flag,
        Flag::SwitchesUnrecorded { .. } | Flag::EventsLost | Flag::OutsideRecording | Flag::NoEvents
    )
}

/// What the recording lacks, one line for each subject.
fn notes(explained: &[Explained]) -> Vec<String> {
    let mut out: Vec<(String, usize)> = Vec::new();
    let mut add = |text: String| match out.iter_mut().find(|(known, _)| *known == text) {
        Some((_, calls)) => *calls += 1,
        None => out.push((text, 1)),
    };
    let mut unrecorded = 0;
    for one in explained {
        for flag in one.explanation.flags.iter().filter(|flag| is_note(flag)) {
            match flag {
                Flag::SwitchesUnrecorded { count } => unrecorded += count,
                flag => add(flag_text(flag)),
            }
        }
        one.without_events.iter().for_each(|reason| add(format!("No kernel events: {reason}")));
    }
    let about = |calls: usize| match (calls, explained.len()) {
        (_, 1) => String::new(),
        (1, _) => " (1 call)".to_owned(),
        (calls, _) => format!(" ({calls} calls)"),
    };
    let mut lines: Vec<String> =
        out.into_iter().map(|(text, calls)| format!("{text}{}", about(calls))).collect();
    if unrecorded > 0 {
        let of = |one: &&Explained| {
            one.explanation.flags.iter().any(|flag| matches!(flag, Flag::SwitchesUnrecorded { .. }))
        };
        let calls = explained.iter().filter(of).count();
        lines.push(flag_text(&Flag::SwitchesUnrecorded { count: unrecorded }) + &about(calls));
    }
    lines
}

/// The call, and its duration.
pub(crate) fn heading(one: &Explained) -> String {
    let took = time(one.explanation.duration_ns());
    let usual = one.call.trip.usual_ns.map_or_else(String::new, |ns| format!(", usually {}", time(ns)));
    format!(
        "Slow call {}: {}, {took} (deadline {}{usual})",
        one.call.number,
        one.call.what,
        time(one.deadline_ns)
    )
}

/// Circumstances of a call besides the answer, one line each.
pub(crate) fn besides(one: &Explained) -> Vec<String> {
    let flags = one.explanation.flags.iter().map(flag_text);
    flags.chain(one.without_events.iter().map(|reason| format!("No kernel events: {reason}"))).collect()
}

/// A line that says that there were more slow calls than were kept.
pub(crate) fn over_limit(kept: &Kept) -> Option<String> {
    let Kept { over_limit, limit, .. } = *kept;
    let calls = if over_limit == 1 { "call" } else { "calls" };
    let counted = match kept.classified() {
        0 => String::new(),
        count if count == over_limit => "; what delayed them is counted".into(),
        count => format!("; what delayed {count} of them is counted"),
    };
    (over_limit > 0).then(|| {
        format!("Not explained: {over_limit} more slow {calls}, beyond --explain-limit {limit}{counted}.")
    })
}

fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// A circumstance in words.
pub(super) fn flag_text(flag: &Flag) -> String {
    match flag {
        Flag::PriorityInversion { thread: other, others, sum_ns } => format!(
            "Priority inversion: the client is a real-time thread, and its call waited {} for {}{}",
            time(*sum_ns),
            thread(other),
            and_others(*others, "thread")
        ),
        Flag::RealTimeHeldOff { waited, thread: other, others, sum_ns } => format!(
            "Held off for {}: {} was runnable, but {} kept running{}: non-preemptible kernel code, real-time \
             throttling, or the kernel's share for ordinary threads",
            time(*sum_ns),
            thread(waited),
            thread(other),
            and_others(*others, "such wait")
        ),
        Flag::Throttled => "CPU quota: the control group was throttled during the call".into(),
        Flag::Gap => "A CPU did not run for a while: the hypervisor had it, or interrupts were off".into(),
        Flag::EventsLost => {
            "Events were lost during the call: time that only they could explain is shown as unknown".into()
        }
        Flag::OutsideRecording => {
            "The recording covers only a part of the call: time outside it is shown as unknown".into()
        }
        Flag::SwitchesUnrecorded { count } => {
            let switches = if *count == 1 { "switch" } else { "switches" };
            format!(
                "Not recorded by the kernel: at least {count} context {switches} on a CPU, possibly during \
                 this call; which thread had that CPU until its next event is inferred or unknown"
            )
        }
        Flag::SlowCpu { cpu, khz, most_khz, lost_ns } => format!(
            "Slow CPU: work took {} longer than at the highest frequencies; CPU {cpu} ran at {} of {} MHz",
            time(*lost_ns),
            khz / 1000,
            most_khz / 1000
        ),
        Flag::Moved { thread: of, group, by, after_ns } => {
            let by = if by.tid == of.tid { "itself".into() } else { thread(by) };
            let when = if *after_ns < 0 { "before the call" } else { "after the call began" };
            format!(
                "Control group: {} was moved to {} by {by}, {} {when}; its CPUs, or its share of them, may be others \
                 there",
                thread(of),
                inert::name(group),
                time(after_ns.unsigned_abs())
            )
        }
        Flag::NoEvents => {
            "Only from the programs' time stamps and the two threads' counters, which show no other thread"
                .into()
        }
    }
}

fn and_others(others: u64, what: &str) -> String {
    match others {
        0 => String::new(),
        1 => format!(", and 1 other {what}"),
        others => format!(", and {others} other {what}s"),
    }
}

/// The state of a part in words.
pub(super) fn state_text(state: &State) -> String {
    match state {
        State::User => "running in user code".into(),
        State::Running => "running".into(),
        State::SystemCall { call } => format!("running in {}", system_call(*call)),
        State::Spinning => "spinning on a kernel lock".into(),
        State::Stolen { interrupt: by } => match by {
            Interrupt::Unnamed => "interrupted".into(),
            by => format!("interrupted: {}", interrupt(by)),
        },
        State::WakeUpPending => "woken, not on a run queue yet".into(),
        State::IdleExit { state: None } => "runnable, its CPU was leaving idle".into(),
        State::IdleExit { state: Some(state) } => format!("runnable, its CPU was leaving idle state {state}"),
        State::HandOver { thread: other } => format!("runnable, {} was handing over the CPU", thread(other)),
        State::Behind { thread: other } => format!("runnable behind {}", thread(other)),
        State::Preempted { thread: other } => format!("preempted by {}", thread(other)),
        State::Blocked { off, system_call: call, function, waker, io_wait: _ } => {
            let letter = off_letter(*off);
            let call = call.map_or_else(String::new, |call| format!(" in {}", system_call(call)));
            let function = function.as_ref().map_or_else(String::new, |function| format!(" at {function}"));
            format!("blocked ({letter}){call}{function}, {}", woken_by(waker))
        }
        State::Stopped { how: Stop::Signal, waker, .. } => {
            format!("stopped by a signal, {}", woken_by(waker))
        }
        State::Stopped { how: Stop::Frozen, by, waker } => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(" by {}", thread(by)));
            format!("frozen{by}, {}", woken_by(waker))
        }
        State::RunnableOnIdle => "runnable while its CPU was idle".into(),
        State::Throttled => "throttled: the control group's CPU quota was used up".into(),
        State::Gap => "the CPU did not run: hypervisor, or interrupts off".into(),
        State::Leg { leg: of } => format!("{} leg", leg(*of)),
        State::Unknown { reason } => format!("unknown: {}", unknown(reason)),
    }
}

/// The kernel's letter for a state off the CPU.
pub(super) fn off_letter(off: Option<OffCpu>) -> &'static str {
    off.map_or("?", OffCpu::letter)
}

fn woken_by(waker: &Waker) -> String {
    match waker {
        Waker::Thread { thread: by } => format!("woken by {}", thread(by)),
        Waker::Interrupt { completed_io: true, .. } => "woken by a block I/O completion".into(),
        Waker::Interrupt { interrupt: by, .. } => format!("woken by {}", interrupt(by)),
        Waker::OtherCpu => "woken by another CPU or an interrupt".into(),
        Waker::Unknown => "woken by an unrecorded event".into(),
    }
}

#[cfg(test)]
mod tests;
