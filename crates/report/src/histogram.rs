//! Histograms for a terminal: one line for each range of times, a mark for the limit, and both axes
//! logarithmic. Pure: a run in, text out.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use roundtrip_latency::Histogram;
use roundtrip_run::Run;
use roundtrip_run::figures::{Limit, Times};
use roundtrip_sorting::SmallSort as _;

use crate::text::inert;
use crate::text::look::Look;
use crate::text::quantity::duration;
use crate::text::style::styled;

/// The maximum number of lines of a histogram, not counting that of the limit.
const MOST_ROWS: usize = 20;

/// The maximum number of histograms of a test: those of the groups that took the most time.
const MOST_HISTOGRAMS: usize = 16;

/// The width of a histogram if the terminal's width is unknown.
const USUAL_WIDTH: usize = 80;

/// The width of everything except the bars: time, count, share, and the spaces between them.
const BESIDE: usize = 31;

/// The histograms of the calls that a run counted; empty if it counted none.
#[must_use]
pub fn page(run: &Run, look: Look) -> String {
    let mut out = String::new();
    for part in run.results.parts() {
        // A group's legs are parts of its calls.
        let shown = |times: &&Times<'_>| times.prefix.is_empty() || times.limit.is_some();
        let groups = part.groups();
        let mut all: Vec<(String, &Times<'_>)> = Vec::new();
        for group in &groups {
            let times = group.times.iter().filter(shown).filter(|times| !times.histogram.is_empty());
            all.extend(times.map(|times| (title(&group.name(), times.prefix), times)));
        }
        all.small_sort_by_key(|(_, times)| std::cmp::Reverse(times.histogram.sum_ns()));
        for (title, times) in all.iter().take(MOST_HISTOGRAMS) {
            let _ = write!(out, "\n{}", text(title, &times.histogram, times.limit, (look, MOST_ROWS)));
        }
        if let Some(more) = all.len().checked_sub(MOST_HISTOGRAMS).filter(|&more| more > 0) {
            let _ = writeln!(out, "\n{more} more groups of calls are not drawn: they took less time.");
        }
    }
    if !out.is_empty() {
        out.push_str(
            "\nEach line counts the calls up to its time; the percentage is cumulative. The bars are \
             logarithmic.\n",
        );
    }
    out
}

/// The title of a group's durations: "binder, stack, other, response".
fn title(name: &str, prefix: &str) -> String {
    let name = inert::line(name);
    if prefix.is_empty() { name.into_owned() } else { format!("{name}, {}", prefix.trim_end_matches('.')) }
}

/// One histogram with its title, in about `most_rows` lines.
pub(crate) fn text(
    title: &str,
    histogram: &Histogram,
    limit: Option<Limit>,
    (look, most_rows): (Look, usize),
) -> String {
    let calls = format!("{title}: {} calls\n", histogram.count());
    let mut out = styled(&calls, Style::new().bold(), look.colour);
    let rows = rows(histogram, limit.map(|limit| limit.ns), most_rows);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1);
    let room = look.width.unwrap_or(USUAL_WIDTH).min(USUAL_WIDTH).saturating_sub(BESIDE).max(5);
    let mut so_far = 0;
    // The limit is shown once, before the first row that exceeds it, or after all rows.
    let mut limit = limit;
    for row in &rows {
        if let Some(passed) = limit.take_if(|limit| row.from_ns >= limit.ns) {
            mark(&mut out, passed, look);
        }
        so_far += row.count;
        let is_beyond = limit.is_none() && so_far > 0 && row.beyond;
        let share = (so_far as f64 / histogram.count() as f64 * 10_000.0).floor() / 100.0;
        let bar = "#".repeat(bar_length(row.count, most, room));
        let bar = if is_beyond { styled(&bar, red(), look.colour) } else { bar };
        let blanks = " ".repeat(room - bar_length(row.count, most, room));
        let up_to = duration(row.to_ns as f64);
        let _ = writeln!(out, "{up_to:>9} |{bar}{blanks}| {:>10} {share:>6.2}%", row.count);
    }
    if let Some(limit) = limit {
        mark(&mut out, limit, look);
    }
    out
}

fn red() -> Style {
    AnsiColor::Red.on_default()
}

fn mark(out: &mut String, Limit { name, ns, beyond }: Limit, look: Look) {
    let longer = match beyond {
        0 => "no call took longer".to_owned(),
        1 => "1 call took longer".to_owned(),
        some => format!("{some} calls took longer"),
    };
    let line = format!("{:>9} +-- {name}: {longer}", duration(ns as f64));
    let style = if beyond > 0 { red() } else { Style::new() };
    let _ = writeln!(out, "{}", styled(&line, style, look.colour));
}

/// The length of a bar, by the logarithm of its count. The largest count fills `room`. Every count
/// except 0 has a visible length.
fn bar_length(count: u64, most: u64, room: usize) -> usize {
    let share = (count as f64).ln_1p() / (most as f64).ln_1p();
    ((share * room as f64).round() as usize).clamp(usize::from(count > 0), room)
}

/// A range of times, with the number of durations in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    /// Exclusive lower end, in nanoseconds.
    from_ns: u64,
    /// Inclusive upper end, in nanoseconds.
    to_ns: u64,
    count: u64,
    /// Whether these durations exceed the limit.
    beyond: bool,
}

/// Ranges that are equally long on a logarithmic scale, from the shortest duration to the longest,
/// without gaps. The limit splits the range that contains it.
fn rows(histogram: &Histogram, limit_ns: Option<u64>, most_rows: usize) -> Vec<Row> {
    let (Some(min_ns), Some(max_ns)) = (histogram.min_ns(), histogram.max_ns()) else { return Vec::new() };
    let octaves = (max_ns.max(1) as f64 / min_ns.max(1) as f64).log2();
    // As many lines per doubling as fit. If none fit, lines that cover several doublings.
    let steps =
        [4.0, 2.0, 1.0, 0.5, 0.25, 0.125].into_iter().find(|steps| octaves * steps + 2.0 <= most_rows as f64);
    let steps = steps.unwrap_or(0.125);
    let step_of = |ns: u64| ((ns.max(1) as f64).log2() * steps).ceil() as i64;
    let end_of = |step: i64| (step as f64 / steps).exp2().floor() as u64;
    let is_beyond = |ns: u64| limit_ns.is_some_and(|limit_ns| ns > limit_ns);
    let mut rows: Vec<Row> = Vec::new();
    for step in step_of(min_ns)..=step_of(max_ns) {
        let (from_ns, to_ns) = (end_of(step - 1), end_of(step));
        match limit_ns.filter(|limit_ns| (from_ns + 1..to_ns).contains(limit_ns)) {
            Some(limit_ns) => {
                rows.push(Row { from_ns, to_ns: limit_ns, count: 0, beyond: false });
                rows.push(Row { from_ns: limit_ns, to_ns, count: 0, beyond: true });
            }
            None => rows.push(Row { from_ns, to_ns, count: 0, beyond: is_beyond(to_ns) }),
        }
    }
    for (ns, count) in histogram.buckets() {
        // A bucket's upper bound may be slightly above the longest duration.
        let ns = ns.min(max_ns);
        let at = rows.partition_point(|row| row.to_ns < ns).min(rows.len() - 1);
        rows[at].count += count;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(durations_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        durations_ns.into_iter().for_each(|ns| histogram.record(ns));
        histogram
    }

    #[test]
    fn every_call_is_in_one_row_and_the_rows_follow_each_other() {
        for durations in [vec![7], vec![1, 1_000_000_000_000], (1..5000).map(|n| n * n).collect(), vec![0, 1]]
        {
            let histogram = histogram(durations);
            for limit_ns in [None, Some(1), Some(1000), Some(2_500_000)] {
                let rows = rows(&histogram, limit_ns, MOST_ROWS);
                assert!(rows.len() <= MOST_ROWS + 2, "{}", rows.len());
                assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), histogram.count());
                assert!(rows.windows(2).all(|two| two[0].to_ns == two[1].from_ns), "{rows:?}");
                assert!(rows.iter().all(|row| row.beyond == limit_ns.is_some_and(|ns| row.to_ns > ns)));
            }
        }
    }

    #[test]
    fn the_limit_is_between_the_calls_that_met_it_and_those_that_missed_it() {
        let histogram = histogram((0..1000).map(|_| 10_000).chain([30_000, 2_400_000, 2_600_000, 9_000_000]));
        let limit = Limit { name: "deadline", ns: 2_500_000, beyond: 2 };
        let text = text("binder, other", &histogram, Some(limit), (Look::PLAIN, MOST_ROWS));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "binder, other: 1004 calls");
        let at =
            lines.iter().position(|line| line.contains("deadline: 2 calls took longer")).expect("a mark");
        let count = |line: &&str| {
            line.rsplit("| ").next().unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let counted = |lines: &[&str]| lines.iter().map(count).sum::<u64>();
        assert_eq!((counted(&lines[1..at]), counted(&lines[at + 1..])), (1002, 2), "{text}");
        assert!(lines[at].trim_start().starts_with("2.50 ms +--"), "{text}");
        assert!(lines[at - 1].trim_start().starts_with("2.50 ms |"), "{text}");
        assert!(lines.last().unwrap().ends_with("100.00%"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= USUAL_WIDTH), "{text}");
    }

    #[test]
    fn a_limit_that_all_calls_meet_is_last_and_one_that_none_meets_is_first() {
        let histogram = histogram([1000, 2000]);
        let shown = |ns, beyond| {
            text("x", &histogram, Some(Limit { name: "deadline", ns, beyond }), (Look::PLAIN, MOST_ROWS))
        };
        assert!(
            shown(5000, 0).trim_end().ends_with("5.00 us +-- deadline: no call took longer"),
            "{}",
            shown(5000, 0)
        );
        assert!(shown(500, 2).lines().nth(1).unwrap().contains("500 ns +-- deadline: 2 calls took longer"));
    }

    #[test]
    fn bars_fill_the_width_and_no_call_is_without_one() {
        let histogram = histogram((0..100_000).map(|_| 10_000).chain([90_000]));
        for width in [40, 60, 80] {
            let text = text(
                "x",
                &histogram,
                None,
                (Look { colour: false, width: Some(width), is_terminal: false }, MOST_ROWS),
            );
            assert!(text.lines().all(|line| line.len() <= width), "{width}: {text}");
            let bars: Vec<usize> = text
                .lines()
                .skip(1)
                .map(|line| line.matches('#').count())
                .filter(|&length| length > 0)
                .collect();
            assert_eq!(bars, [width - BESIDE, bars[1]], "{text}");
            assert!((1..(width - BESIDE) / 4).contains(&bars[1]), "{text}");
        }
    }
}
