//! A running latency test: as a picture for a terminal ([`draw`]) and as plain lines. Pure: a
//! session in, cells or text out. Must not know the terminal.

pub mod calls;
mod picture;
pub mod view;

use std::fmt::Write as _;

use roundtrip_analysis::compare::{Compared, Verdict};
use roundtrip_analysis::figures::Unit;
use roundtrip_analysis::live::{Line, NOISE, Session};

pub use picture::{Chosen, draw};

use crate::comparison::verdict;
use crate::text::quantity::{duration, duration_or_dash};

/// "binder, other". Includes the inheritance setting if the lines differ in it.
fn name(line: &Line, session: &Session) -> String {
    let inheritance = |line: &Line| line.of.iter().find(|(key, _)| *key == "inheritance").cloned();
    let alike = session.lines.iter().all(|other| inheritance(other) == inheritance(line));
    let values = line.of.iter().filter(|(key, _)| match *key {
        "test" => false,
        "inheritance" => !alike,
        _ => true,
    });
    values
        .map(
            |(key, value)| if *key == "inheritance" { format!("inheritance {value}") } else { value.clone() },
        )
        .collect::<Vec<_>>()
        .join(", ")
}

/// The last interval as plain lines: one for each caller over each stack.
#[must_use]
pub fn interval(session: &Session, elapsed_ns: u64) -> String {
    let mut out = String::new();
    for line in &session.lines {
        let _ = write!(out, "{:>8.1} s  {}: ", elapsed_ns as f64 / 1e9, name(line, session));
        let _ = match line.points.back().copied().flatten() {
            Some(point) => {
                let [p50, p99, max] = [point.p50_ns, point.p99_ns, Some(point.max_ns)].map(duration_or_dash);
                writeln!(out, "p50 {p50}, p99 {p99}, max {max}, missed {} of {}", point.missed, point.calls)
            }
            None => writeln!(out, "no call returned"),
        };
    }
    out
}

/// What has changed since the last mark: a sentence, and a line for each figure. Empty without a
/// mark.
#[must_use]
pub fn changes(session: &Session) -> Vec<(Option<Verdict>, String)> {
    let Some([before, after]) = session.halves() else { return Vec::new() };
    let compared = session.compare();
    let mut lines = vec![(
        None,
        format!(
            "Since the mark: {after} against {before} intervals; 95% intervals with {:.0}% for drift",
            NOISE * 100.0
        ),
    )];
    lines.extend(compared.iter().map(|one| (Some(one.verdict), change(one, &compared))));
    lines
}

fn change(one: &Compared, all: &[Compared]) -> String {
    let varies = |key: &str| {
        let value =
            |of: &Compared| of.of.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        all.iter().any(|other| value(other) != value(one))
    };
    let of = one.of.iter().filter(|(key, _)| ["stack", "caller"].contains(key) || varies(key));
    let of: Vec<&str> = of.map(|(_, value)| value.as_str()).collect();
    let show = |value: f64| match one.unit {
        Unit::Nanoseconds => duration(value),
        _ => format!("{value:.0}"),
    };
    let bounds = match one.bounds {
        Some(bounds) => format!(" ({:.2}-{:.2})", bounds.low, bounds.high),
        None => String::new(),
    };
    let ratio = one.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    format!(
        "{}: {} {} to {}, ratio {ratio}{bounds}: {}",
        of.join(", "),
        one.name,
        show(one.base),
        show(one.new),
        verdict(one.verdict)
    )
}

/// The summary at the end.
#[must_use]
pub fn summary(session: &Session, interval_ns: u64) -> String {
    let mut out = format!(
        "\nWatched for {} interval{} of {}.\n",
        session.intervals,
        if session.intervals == 1 { "" } else { "s" },
        duration(interval_ns as f64)
    );
    let changes = changes(session);
    for (_, line) in &changes {
        let _ = writeln!(out, "{line}");
    }
    if !changes.is_empty() {
        out.push_str(
            "The halves were measured one after the other, so the machine may have changed for another \
             reason.\n",
        );
    }
    if changes.iter().any(|(verdict, _)| *verdict == Some(Verdict::CannotTell)) {
        out.push_str(
            "Cannot tell: watch longer before and after the change, or measure both settings alternately with \
             `roundtrip ab`.\n",
        );
    }
    out
}

#[cfg(test)]
mod tests;
