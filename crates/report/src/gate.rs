//! A violated gate as one line. Must not know how gates are evaluated.

use roundtrip_analysis::figures::{Figure, Unit};
use roundtrip_analysis::gate::{Gate, Requirement, Violation};

use crate::text::inert;
use crate::text::quantity::{byte_rate, duration, three_digits};

/// The line for a violated gate: `p99>200us: 312 us; test latency, stack binder, caller other (1 of
/// 4 figures)`.
#[must_use]
pub fn gate(gate: &Gate, violation: &Violation) -> String {
    format!("{}: {}", inert::line(gate.text()), why(violation))
}

/// The line for a requirement that the run does not meet.
#[must_use]
pub fn requirement(requirement: Requirement, violation: &Violation) -> String {
    format!("{} is required: {}", requirement.name(), why(violation))
}

fn why(violation: &Violation) -> String {
    match violation {
        Violation::Beyond { worst, beyond, of } => {
            let more = if *of > 1 { format!(" ({beyond} of {of} figures)") } else { String::new() };
            format!("{}; {}{more}", value(worst), of_what(worst))
        }
        Violation::NoFigure => "the run has no such figure".to_owned(),
        Violation::TooFew(samples) => {
            format!("too few samples to distinguish it from the maximum: at most {samples}")
        }
        Violation::Inheritance { series, reason } if series.is_empty() => inert::name(reason),
        Violation::Inheritance { series, reason } => format!("{series}: {}", inert::line(reason)),
        Violation::Warnings(1) => "the run has 1 warning".to_owned(),
        Violation::Warnings(count) => format!("the run has {count} warnings"),
        Violation::Missing(reason) | Violation::Rate(reason) => inert::name(reason),
    }
}

fn value(figure: &Figure) -> String {
    let Some(value) = figure.value else { return "-".to_owned() };
    match figure.unit {
        Unit::Nanoseconds => duration(value),
        Unit::Count => format!("{value:.0}"),
        Unit::Percent => format!("{value}%"),
        Unit::PerSecond => format!("{}/s", three_digits(value)),
        Unit::BytesPerSecond => byte_rate(value),
        Unit::Ratio => format!("{value:.3}"),
    }
}

fn of_what(figure: &Figure) -> String {
    let labels: Vec<String> =
        figure.of.iter().map(|(key, value)| format!("{key} {}", inert::line(value))).collect();
    labels.join(", ")
}

#[cfg(test)]
mod tests {
    use roundtrip_analysis::figures::Better;
    use roundtrip_run::NAMES;

    use super::*;

    #[test]
    fn a_violation_is_one_line_with_the_value_and_its_labels() {
        let figure = |value, unit| Figure {
            name: "p99".into(),
            of: vec![("test", "latency".into()), ("caller", "other\n".into())],
            value: Some(value),
            unit,
            better: Better::Lower,
            samples: 9,
            bounds: None,
            in_clumps: None,
        };
        let p99 = Gate::parse("p99>200us", NAMES).unwrap();
        let beyond = |figure, of| Violation::Beyond { worst: Box::new(figure), beyond: 1, of };
        assert_eq!(
            gate(&p99, &beyond(figure(312_000.0, Unit::Nanoseconds), 2)),
            "p99>200us: 312 us; test latency, caller other\\u000a (1 of 2 figures)"
        );
        assert_eq!(gate(&p99, &Violation::NoFigure), "p99>200us: the run has no such figure");
        let few = "p99>200us: too few samples to distinguish it from the maximum: at most 20";
        assert_eq!(gate(&p99, &Violation::TooFew(20)), few);
        for (value, unit, text) in [
            (8.0, Unit::Count, "8"),
            (0.25, Unit::Percent, "0.25%"),
            (1234.0, Unit::PerSecond, "1234/s"),
            (2.4e9, Unit::BytesPerSecond, "2.40 GB/s"),
            (1.0625, Unit::Ratio, "1.062"),
        ] {
            let line = gate(&p99, &beyond(figure(value, unit), 1));
            assert_eq!(line, format!("p99>200us: {text}; test latency, caller other\\u000a"));
        }
        let missing = Violation::Missing("no CAP_SYS_NICE".into());
        assert_eq!(requirement(Requirement::Realtime, &missing), "realtime is required: no CAP_SYS_NICE");
    }
}
