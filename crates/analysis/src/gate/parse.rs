//! Parses a gate: `NAME>LIMIT` or `NAME<LIMIT`, `inheritance`, `rate`, `warnings`. An error says
//! what was expected. The caller adds where the gate was given.

use roundtrip_run::{NAMES, Test};

use super::metrics::{self, unit};
use super::{Gate, What};
use crate::figures::Unit;

/// Keys with their values.
type Labels = Vec<(String, String)>;

impl Gate {
    /// Parses a gate for a command whose result has figures of `tests`, which are names in
    /// [`roundtrip_run::TESTS`].
    ///
    /// # Errors
    /// One line that says what was expected, with the valid names, labels or units.
    pub fn parse(text: &str, tests: &[&'static str]) -> Result<Self, String> {
        let gate = |what| Ok(Self { text: text.to_owned(), what });
        match text {
            "warnings" => return gate(What::Warnings),
            "inheritance" if tests.contains(&"latency") => return gate(What::Inheritance),
            "rate" if tests.contains(&"latency") => return gate(What::Rate),
            _ => {}
        }
        let Some(at) = text.find(['>', '<']) else { return Err(expected(tests)) };
        let (left, limit) = (&text[..at], text[at + 1..].trim());
        let (typed, labels) = labels(left.trim())?;
        let name = full_name(typed);
        let known: Vec<(&Test, Unit)> =
            metrics::of(tests).filter_map(|test| Some((test, unit(test, &name)?))).collect();
        if known.is_empty() {
            return Err(format!("there is no figure '{typed}'; {}", expected(tests)));
        }
        for (key, _) in &labels {
            let legal: Vec<&str> = known.iter().flat_map(|(test, _)| test.labels).copied().collect();
            if key != "test" && !legal.contains(&key.as_str()) {
                let mut legal = legal;
                legal.sort_unstable();
                legal.dedup();
                return Err(format!("{name} has no label '{key}'; it has test, {}", legal.join(", ")));
            }
        }
        let fitting: Vec<(&'static str, f64)> =
            known.iter().filter_map(|(test, unit)| Some((test.name, value(limit, *unit)?))).collect();
        let Some(&(_, value)) = fitting.first() else {
            let mut forms: Vec<&str> = known.iter().map(|(_, unit)| form(*unit)).collect();
            forms.sort_unstable();
            forms.dedup();
            return Err(format!("expected after {name} {}", forms.join(", or ")));
        };
        let tests = fitting.iter().map(|(test, _)| *test).collect();
        gate(What::Figure { name, labels, tests, above: text.as_bytes()[at] == b'>', limit: value })
    }
}

/// Replaces `miss`, which users type, with the figure's name `missed`.
fn full_name(typed: &str) -> String {
    match typed.split_once("miss") {
        Some((before, after)) if !after.starts_with("ed") => format!("{before}missed{after}"),
        _ => typed.to_owned(),
    }
}

/// The full name of a figure of any run, from what was typed.
///
/// # Errors
/// One line with the valid names.
pub fn figure_name(typed: &str) -> Result<String, String> {
    let name = full_name(typed);
    if metrics::of(NAMES).any(|test| unit(test, &name).is_some()) {
        return Ok(name);
    }
    Err(format!("there is no figure '{typed}'; expected one of {}", metrics::names(NAMES)))
}

/// An error message that says what is expected, with all names.
fn expected(tests: &[&str]) -> String {
    let inheritance = if tests.contains(&"latency") { "inheritance, rate, " } else { "" };
    match metrics::names(tests).as_str() {
        "" => "expected warnings".to_owned(),
        names => {
            format!("expected {inheritance}warnings, or NAME>LIMIT or NAME<LIMIT with a NAME of {names}")
        }
    }
}

/// Splits a name from the labels in brackets after it: `p99[stack=binder,caller=other]`.
fn labels(text: &str) -> Result<(&str, Labels), String> {
    let Some((name, rest)) = text.split_once('[') else { return Ok((text, Vec::new())) };
    let expected = || "expected labels as in p99[stack=binder,caller=other]".to_owned();
    let inside = rest.strip_suffix(']').ok_or_else(expected)?;
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').ok_or_else(expected)?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    Ok((name.trim(), inside.split(',').map(pair).collect::<Result<_, String>>()?))
}

/// The format of a limit with this unit.
fn form(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "a time with its unit, as in 200us (ns, us, ms, s)",
        Unit::Count => "a whole number, as in 0",
        Unit::Percent => "a share in percent, as in 0.1%",
        Unit::PerSecond => "a rate, as in 1000/s (or 1k/s, 1M/s)",
        Unit::BytesPerSecond => "a rate, as in 100MB/s (B/s, kB/s, MB/s, GB/s)",
        Unit::Ratio => "a ratio, as in 1.5",
    }
}

/// Converts a limit to the unit of figures; `None` if it has another unit.
fn value(text: &str, unit: Unit) -> Option<f64> {
    let (number, suffix) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let units: &[(&str, f64)] = match unit {
        Unit::Nanoseconds => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
        Unit::Count if !number.contains('.') => &[("", 1.0)],
        Unit::Count => &[],
        Unit::Percent => &[("%", 1.0)],
        Unit::PerSecond => &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)],
        Unit::BytesPerSecond => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
        Unit::Ratio => &[("", 1.0)],
    };
    let scale = units.iter().find(|(name, _)| *name == suffix)?.1;
    number.parse::<f64>().ok().map(|value| value * scale)
}
