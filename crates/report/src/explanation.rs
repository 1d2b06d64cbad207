//! Explanations for a terminal: for each slow call the answer, circumstances to know, and the parts
//! of its time. Pure: explanations in, text out.

use std::fmt::Write as _;

use layers::{Boundary, Explanation, Flag, Interrupt, Part, State, Waker};
use tracefs::OffCpu;

use super::explanation_summary;
use super::explanation_words::{answer, comm, interrupt, leg, owner, system_call, thread, unknown};
use super::quantity::duration;
use super::table::{Column, Table};
use analysis::slow_calls::{Explained, Kept};

/// Parts shorter than this percentage of the call are combined.
const SHORT_PERCENT: u64 = 1;

/// The explanations of some slow calls, and how many more the run had. If they are all calls that
/// the run kept, a line before them summarises the causes.
#[must_use]
pub fn text(explained: &[Explained], kept: &Kept) -> String {
    let mut out = String::new();
    if explained.len() == kept.calls.len() {
        out.push_str(&explanation_summary::line(explained, kept));
    }
    for one in explained {
        if !out.is_empty() {
            out.push('\n');
        }
        let explanation = &one.explanation;
        let _ = writeln!(out, "{}", heading(one));
        let _ = writeln!(out, "  {}", answer(explanation));
        for line in besides(one) {
            let _ = writeln!(out, "  {line}");
        }
        out.push_str(&parts(explanation));
    }
    if let Some(line) = over_limit(kept) {
        let _ = writeln!(out, "{}{line}", if out.is_empty() { "" } else { "\n" });
    }
    out
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
    (over_limit > 0)
        .then(|| format!("Not explained: {over_limit} more slow {calls}, beyond --explain-limit {limit}."))
}

fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// A circumstance in words.
pub(super) fn flag_text(flag: &Flag) -> String {
    match flag {
        Flag::PriorityInversion { thread: other } => {
            let other = thread(other);
            format!("Priority inversion: the client is a real-time thread, and its call waited for {other}")
        }
        Flag::RealTimeHeldOff { waited, thread: other } => format!(
            "Held off: {} was runnable, but {} kept running: non-preemptible kernel code, real-time \
             throttling, or the kernel's share for ordinary threads",
            thread(waited),
            thread(other)
        ),
        Flag::Throttled => "CPU quota: the control group was throttled during the call".into(),
        Flag::Gap => "A CPU did not run for a while: the hypervisor had it, or interrupts were off".into(),
        Flag::EventsLost => {
            "Events were lost during the call: time that only they could explain is shown as unknown".into()
        }
        Flag::SwitchesUnrecorded { count } => {
            let switches = if *count == 1 { "switch" } else { "switches" };
            format!(
                "Not recorded by the kernel: at least {count} context {switches} on a CPU, possibly during \
                 this call; which thread had that CPU until its next event is inferred or unknown"
            )
        }
        Flag::NoEvents => {
            "Only from the programs' time stamps and the two threads' counters, which show no other thread"
                .into()
        }
    }
}

/// A line for one part of a call, or for several short ones.
struct Row {
    at: String,
    took: String,
    of: &'static str,
    cpu: String,
    what: String,
}

/// The threads, then the parts, one line each.
fn parts(explanation: &Explanation) -> String {
    let mut out = String::new();
    if let Some(threads) = threads(explanation) {
        let _ = writeln!(out, "  {threads}");
    }
    let _ = writeln!(out, "  {:>10}  {:>10}  {:<6}  {:>3}  what", "at us", "for us", "of", "CPU");
    for Row { at, took, of, cpu, what } in rows(explanation) {
        let _ = writeln!(out, "  {at:>10}  {took:>10}  {of:<6}  {cpu:>3}  {what}");
    }
    out
}

/// The client and the server, and how the call passed between them; `None` if no event shows that.
pub(crate) fn threads(explanation: &Explanation) -> Option<String> {
    let server =
        explanation.server.as_ref().map_or_else(String::new, |server| format!(", server {}", thread(server)));
    (!explanation.flags.contains(&Flag::NoEvents)).then(|| {
        format!(
            "client {}{server}; request {}, reply {}",
            thread(&explanation.client),
            boundary(explanation.request_by),
            boundary(explanation.reply_by)
        )
    })
}

/// The parts as a table.
pub(crate) fn parts_table(explanation: &Explanation) -> Table {
    let mut table = Table::new([
        Column::number("at", "us"),
        Column::number("for", "us"),
        Column::text("of"),
        Column::number("CPU", ""),
        Column::text("what"),
    ]);
    for Row { at, took, of, cpu, what } in rows(explanation) {
        table.row([at, took, of.to_owned(), cpu, what]);
    }
    table
}

/// The parts, with consecutive short ones combined.
fn rows(explanation: &Explanation) -> Vec<Row> {
    let mut out = Vec::new();
    let short_ns = explanation.duration_ns() * SHORT_PERCENT / 100;
    let mut short: Vec<&Part> = Vec::new();
    for part in &explanation.parts {
        if part.duration_ns() < short_ns {
            short.push(part);
            continue;
        }
        out.extend(together(explanation.start_ns, &mut short));
        out.push(row(explanation.start_ns, part, 0));
        inner(&mut out, explanation.start_ns, part, 1, short_ns);
    }
    out.extend(together(explanation.start_ns, &mut short));
    out
}

fn boundary(by: Boundary) -> &'static str {
    match by {
        Boundary::WakeUp => "at the wakeup",
        Boundary::Binder => "by binder's own event",
        Boundary::Sleep => "when the thread went to sleep",
        Boundary::Stamp => "by the server's time stamp",
        Boundary::Unknown => "at an unknown time",
    }
}

fn us(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

fn row(start_ns: u64, part: &Part, depth: usize) -> Row {
    let whose = match (&part.thread, depth) {
        (Some(of), 1..) => format!("{}{}: ", "  ".repeat(depth), thread(of)),
        _ => String::new(),
    };
    Row {
        at: us(part.begin_ns - start_ns),
        took: us(part.duration_ns()),
        of: owner(part.owner),
        cpu: part.cpu.map_or_else(String::new, |cpu| cpu.to_string()),
        what: format!("{whose}{}", state_text(&part.state)),
    }
}

/// What the awaited threads did during a part.
fn inner(out: &mut Vec<Row>, start_ns: u64, part: &Part, depth: usize, short_ns: u64) {
    for inside in part.because.iter().filter(|inside| inside.duration_ns() >= short_ns) {
        out.push(row(start_ns, inside, depth));
        inner(out, start_ns, inside, depth + 1, short_ns);
    }
}

/// Combines consecutive short parts into one line.
fn together(start_ns: u64, short: &mut Vec<&Part>) -> Option<Row> {
    let row = match short[..] {
        [] => None,
        [part] => Some(row(start_ns, part, 0)),
        [first, .., last] => {
            let mut names: Vec<String> = Vec::new();
            for part in short.iter() {
                let name = brief(&part.state);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names.truncate(5);
            Some(Row {
                at: us(first.begin_ns - start_ns),
                took: us(last.end_ns - first.begin_ns),
                of: if first.owner == last.owner { owner(first.owner) } else { "both" },
                cpu: String::new(),
                what: format!("{} short parts: {}", short.len(), names.join(", ")),
            })
        }
    };
    short.clear();
    row
}

fn brief(state: &State) -> String {
    match state {
        State::Behind { thread } | State::Preempted { thread } | State::HandOver { thread } => {
            format!("behind {}", comm(thread))
        }
        State::Blocked { .. } => "blocked".into(),
        other => state_text(other),
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
        State::IdleExit => "runnable, its CPU was leaving idle".into(),
        State::HandOver { thread: other } => format!("runnable, {} was handing over the CPU", thread(other)),
        State::Behind { thread: other } => format!("runnable behind {}", thread(other)),
        State::Preempted { thread: other } => format!("preempted by {}", thread(other)),
        State::Blocked { off, system_call: call, function, waker } => {
            let letter = off_letter(*off);
            let call = call.map_or_else(String::new, |call| format!(" in {}", system_call(call)));
            let function = function.as_ref().map_or_else(String::new, |function| format!(" at {function}"));
            format!("blocked ({letter}){call}{function}, {}", woken_by(waker))
        }
        State::Stopped { waker } => format!("stopped by a signal, {}", woken_by(waker)),
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
        Waker::Unknown => "woken by an unrecorded event".into(),
    }
}

#[cfg(test)]
mod tests {
    use analysis::slow_calls::Kept;
    use layers::{Owner, RoundTrip, explain_without_events};

    use super::{Part, State, parts, text};

    fn part(begin_ns: u64, end_ns: u64, state: State) -> Part {
        Part {
            begin_ns,
            end_ns,
            owner: Owner::Server,
            thread: None,
            cpu: Some(1),
            state,
            because: Vec::new(),
        }
    }

    #[test]
    fn slow_calls_that_are_not_kept_are_counted() {
        let mut kept = Kept { limit: 3, ..Kept::default() };
        assert!(text(&[], &kept).starts_with("No call was slow: "), "{}", text(&[], &kept));
        kept.over_limit = 2;
        assert_eq!(text(&[], &kept), "Not explained: 2 more slow calls, beyond --explain-limit 3.\n");
    }

    #[test]
    fn short_parts_are_combined_and_long_ones_have_their_time_and_cpu() {
        let trip = RoundTrip {
            start_ns: 1_000,
            received_ns: Some(2_000),
            replied_ns: Some(3_000),
            end_ns: 1_001_000,
            ..RoundTrip::default()
        };
        let mut explanation = explain_without_events(&trip);
        explanation.parts = vec![
            part(1_000, 2_000, State::Running),
            part(2_000, 3_000, State::WakeUpPending),
            part(3_000, 901_000, State::RunnableOnIdle),
            part(901_000, 1_001_000, State::User),
        ];
        let expected = "       at us      for us  of      CPU  what\n\u{20}        0.0         2.0  server       \
                        2 short parts: running, woken, not on a run queue yet\n\u{20}        2.0       898.0  \
                        server    1  runnable while its CPU was idle\n\u{20}      900.0       100.0  server    \
                        1  running in user code\n";
        assert_eq!(parts(&explanation), expected);
    }
}
