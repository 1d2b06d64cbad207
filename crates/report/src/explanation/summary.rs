//! What delayed a run's slow calls, by cause: time lost, share, worst. Pure: explanations in, text
//! out.

use roundtrip_analysis::slow_calls::{self, Explained, Kept};
use roundtrip_analysis::without::Left;
use roundtrip_layers::reasons::{Across, Row};

use super::{names, without};
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The most causes in a line.
const IN_LINE: usize = 5;

/// The most causes in a report. The others are summed up in one line.
const IN_REPORT: usize = 10;

/// What delayed all slow calls that are known: those with details, and the others that could be
/// classified.
pub(crate) fn across(explained: &[Explained], kept: &Kept) -> Across {
    slow_calls::across(explained, kept).in_words(&names::thing)
}

/// What would be left without each of the main causes.
pub(crate) fn left(explained: &[Explained], kept: &Kept) -> Vec<Left> {
    slow_calls::without(&across(explained, kept), kept)
}

/// "34 missed: 31 behind rustc (91.0% of 112 ms lost, worst 17.5 ms), 2 ran long …", or a line that
/// says that there were none.
pub(crate) fn line(explained: &[Explained], kept: &Kept) -> String {
    if explained.is_empty() {
        return none(kept);
    }
    let across = across(explained, kept);
    let lost_ns = across.lost_ns();
    let rows = across.rows();
    let main: Vec<&&Row> = rows.iter().filter(|row| row.operations > 0).collect();
    let mut groups: Vec<String> = main
        .iter()
        .take(IN_LINE)
        .enumerate()
        .map(|(index, row)| {
            let of =
                if index == 0 { format!(" of {} lost", duration(lost_ns as f64)) } else { String::new() };
            let worst = duration(row.worst_ns as f64);
            format!("{} {} ({}{of}, worst {worst})", row.operations, cause(row), share(row.lost_ns, lost_ns))
        })
        .collect();
    let more: u64 = main.iter().skip(IN_LINE).map(|row| row.operations).sum();
    groups.extend((more > 0).then(|| format!("{more} for other causes")));
    groups.extend((across.ordinary() > 0).then(|| format!("{} took the usual time", across.ordinary())));
    format!("{}: {}\n", head(kept, &across), groups.join(", "))
}

/// The causes as lines: a head, and a line for each of the largest.
pub(super) fn report(explained: &[Explained], kept: &Kept) -> String {
    if explained.is_empty() {
        return none(kept);
    }
    let across = across(explained, kept);
    let left = slow_calls::without(&across, kept);
    of_operations(&head(kept, &across), &across, "calls") + &without::text(&left, "calls")
}

/// The causes of many operations as lines, below this head. `what` they are, in the plural.
pub(crate) fn of_operations(head: &str, across: &Across, what: &str) -> String {
    let lost_ns = across.lost_ns();
    let mut out = format!("{head}; {} lost to:\n", duration(lost_ns as f64));
    let mut line = |[count, lost, share, worst, cause]: [&str; 5]| {
        out.push_str(&format!("  {count:>6}  {lost:>9}  {share:>6}  {worst:>9}  {cause}\n"));
    };
    line([what, "time lost", "share", "worst", "cause"]);
    let rows = across.rows();
    for row in rows.iter().take(IN_REPORT) {
        let [count, lost, share, worst, cause] = cells(row, lost_ns);
        line([&count, &lost, &share, &worst, &cause]);
    }
    let rest = rows.get(IN_REPORT..).unwrap_or_default();
    if !rest.is_empty() {
        let sum_ns: u64 = rest.iter().map(|row| row.lost_ns).sum();
        let count: u64 = rest.iter().map(|row| row.operations).sum();
        let worst_ns = rest.iter().map(|row| row.worst_ns).max().unwrap_or(0);
        let (lost, worst) = (duration(sum_ns as f64), duration(worst_ns as f64));
        let cause = format!("{} other causes", rest.len());
        line([&main_of(count), &lost, &share(sum_ns, lost_ns), &worst, &cause]);
    }
    if across.ordinary() > 0 {
        line([&across.ordinary().to_string(), "-", "-", "-", "took the usual time"]);
    }
    if rows.iter().any(|row| row.operations == 0) {
        out.push_str(&format!("  -: a part of the delay of some {what}, and the main cause of none\n"));
    }
    out
}

/// The causes as a table.
pub(crate) fn table(explained: &[Explained], kept: &Kept) -> Table {
    table_of(&across(explained, kept), "calls")
}

/// The causes of many operations as a table. `what` they are, in the plural.
pub(crate) fn table_of(across: &Across, what: &str) -> Table {
    let mut table = Table::new([
        Column::number(what, ""),
        Column::number("time lost", ""),
        Column::number("share", ""),
        Column::number("worst", ""),
        Column::text("cause"),
    ]);
    for row in across.rows() {
        table.row(cells(row, across.lost_ns()));
    }
    table
}

/// The number of operations that a cause was the main one of: "-" if it only added to others.
fn main_of(operations: u64) -> String {
    if operations == 0 { "-".to_owned() } else { operations.to_string() }
}

fn cells(row: &Row, lost_ns: u64) -> [String; 5] {
    [
        main_of(row.operations),
        duration(row.lost_ns as f64),
        share(row.lost_ns, lost_ns),
        duration(row.worst_ns as f64),
        cause(row),
    ]
}

fn cause(row: &Row) -> String {
    names::group(row.kind, &row.subject)
}

fn share(ns: u64, of_ns: u64) -> String {
    format!("{:.1}%", ns as f64 * 100.0 / of_ns.max(1) as f64)
}

fn none(kept: &Kept) -> String {
    let deadline = duration(kept.deadline_ns as f64);
    match (kept.over_limit, kept.slowest) {
        (0, false) => {
            format!("No call was slow: none of {} took longer than {deadline}.\n", kept.all_calls())
        }
        (0, true) => "No slow call was kept: there were too few calls to compare.\n".into(),
        _ => String::new(),
    }
}

/// How many calls there are, and how many of them are classified.
fn head(kept: &Kept, across: &Across) -> String {
    let count = across.operations();
    let others = kept.over_limit.saturating_sub(kept.classified());
    match (kept.slowest, others) {
        (true, _) => format!("{count} slowest"),
        (false, 0) => format!("{count} missed"),
        (false, _) => {
            let all = count + others;
            format!("{all} missed, {count} of them recorded ({})", share(count, all))
        }
    }
}

/// What delayed a call, in a few words.
pub(crate) fn cause_of(one: &Explained) -> String {
    match one.explanation.reasons.main() {
        Some((kind, subject)) => names::group(kind, &subject),
        None => "took the usual time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_analysis::slow_calls::SlowCall;
    use roundtrip_layers::reasons::{Class, Process, Reason, Reasons, Role, Stretch, Why};
    use roundtrip_layers::{RoundTrip, Unknown, explain_without_events};

    use super::*;

    fn explained(reason: Reason, name: Option<&str>, ns: u64) -> Explained {
        let trip = RoundTrip { start_ns: 1, end_ns: 2, ..RoundTrip::default() };
        let mut explanation = explain_without_events(&trip);
        let process = name.map(|name| Process { pid: 7, name: name.into(), class: Class::Ordinary(0) });
        let why = Why { process, ..Why::of(reason, Role::Server) };
        explanation.reasons = Reasons::of(&[Stretch { begin_ns: 0, end_ns: ns, why }], 0);
        let call = SlowCall {
            number: 1,
            kind: (0, 0),
            kind_name: String::new(),
            what: String::new(),
            trip,
            snapshot: None,
        };
        Explained { call, deadline_ns: 1, explanation, without_events: None, damage: None }
    }

    #[test]
    fn causes_are_rows_by_time_lost_and_what_was_not_recorded_is_one() {
        let mut kept = Kept { deadline_ns: 2_500_000, ..Kept::default() };
        (0..12).for_each(|_| kept.durations.record(1));
        let lost = || Reason::Unknown { why: Unknown::EventsLost };
        let mut all = vec![explained(lost(), None, 1_000_000), explained(lost(), None, 1_000_000)];
        all.push(explained(Reason::OwnWork, Some("server"), 1_700_000));
        all.extend([9_000_000, 3_300_000, 1_000_000].map(|ns| explained(Reason::Cpu, Some("rustc"), ns)));
        assert_eq!(
            line(&all, &kept),
            "6 missed: 3 behind rustc (78.2% of 17.0 ms lost, worst 9.00 ms), 2 not recorded (11.8%, worst 1.00 \
             ms), 1 ran long: server (10.0%, worst 1.70 ms)\n"
        );
        let expected = "6 missed; 17.0 ms lost to:\n\u{20}  calls  time lost   share      worst  cause\n\
                        \u{20}      3    13.3 ms   78.2%    9.00 ms  behind rustc\n\
                        \u{20}      2    2.00 ms   11.8%    1.00 ms  not recorded\n\
                        \u{20}      1    1.70 ms   10.0%    1.70 ms  ran long: server\n";
        let said = report(&all, &kept);
        assert!(said.starts_with(expected), "{said}");
        let left = said.strip_prefix(expected).unwrap();
        assert!(left.starts_with("What fixing one cause would leave, in as many calls again"), "{left}");
        assert_eq!(line(&[], &kept), "No call was slow: none of 12 took longer than 2.50 ms.\n");
        kept.over_limit = 2;
        assert!(line(&all, &kept).starts_with("8 missed, 6 of them recorded (75.0%): 3 behind"));
        kept.others.add(&all[0].explanation.reasons);
        kept.others.add(&all[2].explanation.reasons);
        assert!(line(&all, &kept).starts_with("8 missed: 3 behind rustc ("), "{}", line(&all, &kept));
        kept.slowest = true;
        assert!(line(&all, &kept).starts_with("8 slowest: 3 behind rustc"));
        assert!(line(&[], &Kept { slowest: true, ..Kept::default() }).starts_with("No slow call was kept"));
    }
}
