//! The parts of a call, a line each.

use std::fmt::Write as _;

use roundtrip_layers::{Boundary, Explanation, Flag, Part, State};

use super::{SHORT_PERCENT, state_text};
use crate::explanation::words::{comm, owner, thread};
use crate::text::table::{Column, Table};

/// A line for one part of a call, or for several short ones.
struct Row {
    at: String,
    took: String,
    of: &'static str,
    cpu: String,
    what: String,
}

/// The threads, then the parts, one line each.
pub(super) fn parts(explanation: &Explanation, limit: usize) -> String {
    let mut out = String::new();
    if let Some(threads) = threads(explanation) {
        let _ = writeln!(out, "  {threads}");
    }
    let _ = writeln!(out, "  {:>10}  {:>10}  {:<6}  {:>3}  what", "at us", "for us", "of", "CPU");
    let rows = rows(explanation);
    for Row { at, took, of, cpu, what } in rows.iter().take(limit) {
        let _ = writeln!(out, "  {at:>10}  {took:>10}  {of:<6}  {cpu:>3}  {what}");
    }
    if rows.len() > limit {
        let _ = writeln!(out, "  and {} more lines", rows.len() - limit);
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
