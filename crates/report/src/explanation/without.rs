//! The predictions of what is left without a cause: a table, a sentence about the first cause, and
//! the limits of both. Pure: predictions in, text out.

use roundtrip_analysis::without::{Expected, Left};
use roundtrip_layers::reasons::ReasonKind;
use serde::Serialize;

use super::names;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The heading of the table. `what` names the operations in the plural: "calls".
pub(crate) fn heading(what: &str) -> String {
    format!("What fixing one cause would leave, in as many {what} again (95% intervals)")
}

/// The limits of the predictions.
pub(crate) fn caveat(what: &str) -> String {
    format!(
        "Not known: what {what} that met the deadline lost to it, and whether it hides another cause. Slow {what} \
         without a known cause count as the others."
    )
}

/// A line for each cause.
pub(crate) fn table(all: &[Left]) -> Table {
    let mut table = Table::new([
        Column::number("missed", ""),
        Column::number("p99.9", ""),
        Column::number("max", ""),
        Column::text("without"),
    ]);
    for left in all {
        let or_none = |of: Option<Expected>, text: fn(u64) -> String| {
            of.map_or_else(|| "-".to_owned(), |of| range(of, text))
        };
        table.row([
            or_none(left.missed, |count| count.to_string()),
            or_none(left.tail_ns, ns),
            range(left.worst_ns, ns),
            names::group(left.kind, &left.subject),
        ]);
    }
    table
}

/// The heading, the table and the caveat for a terminal; nothing if nothing is predicted.
pub(crate) fn text(all: &[Left], what: &str) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut rows = vec![["missed", "p99.9", "max", "without"].map(str::to_owned)];
    rows.extend(table(all).rows().iter().map(|row| std::array::from_fn(|column| row[column].clone())));
    let widths: Vec<usize> =
        (0..3).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut out = format!("{}:\n", heading(what));
    for [missed, tail, worst, cause] in &rows {
        out.push_str(&format!(
            "  {missed:>0$}  {tail:>1$}  {worst:>2$}  {cause}\n",
            widths[0], widths[1], widths[2]
        ));
    }
    out + "  " + &caveat(what) + "\n"
}

/// What fixing the first cause would bring, for a page, beside what can be done about it. `missed`
/// is how many operations missed the deadline.
pub(crate) fn sentence(all: &[Left], missed: Option<u64>, what: &str) -> Option<String> {
    let left = all.first()?;
    let mut parts = Vec::new();
    if let Some((of, before)) = left.missed.zip(missed) {
        parts.push(format!("{} would miss the deadline, not {before}", range(of, |count| count.to_string())));
    }
    parts.extend(left.tail_ns.map(|of| format!("p99.9 would be {}", range(of, ns))));
    parts.push(format!("the worst would take {}", range(left.worst_ns, ns)));
    let cause = names::group(left.kind, &left.subject);
    Some(format!("Without the first cause ({cause}), of as many {what} again {}.", parts.join("; ")))
}

fn range(Expected { estimate, low, high }: Expected, text: fn(u64) -> String) -> String {
    format!("{} ({} to {})", text(estimate), text(low), text(high))
}

fn ns(ns: u64) -> String {
    duration(ns as f64)
}

/// The same for programs.
#[derive(Serialize)]
pub(crate) struct Json {
    kind: ReasonKind,
    cause: String,
    process: Option<String>,
    class: Option<String>,
    missed: Option<Expected>,
    p99_9_ns: Option<Expected>,
    worst_ns: Expected,
}

impl From<&Left> for Json {
    fn from(left: &Left) -> Self {
        let (process, class) = names::process_of(&left.subject);
        Self {
            kind: left.kind,
            cause: names::group(left.kind, &left.subject),
            process,
            class,
            missed: left.missed,
            p99_9_ns: left.tail_ns,
            worst_ns: left.worst_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::reasons::{Class, Subject};

    use super::*;

    #[test]
    fn causes_are_lines_with_intervals_and_the_first_is_a_sentence() {
        let of = |estimate, low, high| Expected { estimate, low, high };
        let process = |name: &str| Subject::Process { name: name.into(), class: Class::Ordinary(0) };
        let all = [
            Left {
                kind: ReasonKind::Cpu,
                subject: process("rustc"),
                missed: Some(of(12, 4, 25)),
                tail_ns: Some(of(1_200_000, 1_000_000, 1_900_000)),
                worst_ns: of(9_000_000, 6_000_000, 12_000_000),
            },
            Left {
                kind: ReasonKind::OwnWork,
                subject: process("server"),
                missed: Some(of(100, 70, 130)),
                tail_ns: None,
                worst_ns: of(9_500_000, 6_000_000, 12_000_000),
            },
        ];
        let text = text(&all, "calls");
        let expected = "What fixing one cause would leave, in as many calls again (95% intervals):\n\
            \u{20}         missed                        p99.9                           max  without\n\
            \u{20}   12 (4 to 25)  1.20 ms (1.00 ms to 1.90 ms)  9.00 ms (6.00 ms to 12.0 ms)  behind rustc\n\
            \u{20} 100 (70 to 130)                           -  9.50 ms (6.00 ms to 12.0 ms)  ran long: server\n";
        assert_eq!(text.lines().count(), 5);
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&text).starts_with(&squeezed(expected)), "{text}");
        assert_eq!(
            sentence(&all, Some(34), "calls").unwrap(),
            "Without the first cause (behind rustc), of as many calls again 12 (4 to 25) would miss the deadline, not \
             34; p99.9 would be 1.20 ms (1.00 ms to 1.90 ms); the worst would take 9.00 ms (6.00 ms to 12.0 ms)."
        );
        assert_eq!((super::text(&[], "calls"), sentence(&[], None, "calls")), (String::new(), None));
    }
}
