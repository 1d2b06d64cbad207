//! Other programs' synchronous writes as tables: how long they took, and where the time was spent.
//! Pure: a result in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roundtrip_analysis::observed_writes::{Slow, without};
use roundtrip_layers::reasons::Across;
use roundtrip_layers::storage::Layer;
use roundtrip_run::OTHERS;
use roundtrip_run::storage::observe::{Divided, Durable, ObserveWritesResult, WriteRow};
use roundtrip_sorting::SmallSort as _;

use crate::ipc::observed_calls::{count, others_note, process, shown, subject};
use crate::storage::{why, words};
use crate::text::inert;
use crate::text::look::Look;
use crate::text::quantity::{duration, percentiles, three_digits};
use crate::text::table::{Column, Table};

/// The maximum number of rows shown: those with the most total time. JSON contains all rows.
pub(crate) const MOST_ROWS: usize = 40;

/// The most slow writes on a terminal: the slowest.
const MOST_SLOW: usize = 3;

/// "1200 synchronous writes of postgres in 10.0 s, 3 longer than 20.0 ms; 71% of their time is the
/// device's".
#[must_use]
pub fn answer(result: &ObserveWritesResult) -> String {
    let missed = result.missed();
    let failed: u64 = result.rows.iter().map(|row| row.failed).sum();
    let mut out = format!(
        "{} of {} in {}, {missed} longer than {}",
        count(result.calls(), "synchronous write"),
        subject(&result.plan.subject),
        duration(result.elapsed_ns as f64),
        duration(result.plan.deadline.ns as f64)
    );
    if let Some((layer, share)) = most(result) {
        let _ = write!(out, "; {:.0}% of their time went to {}", share * 100.0, words(layer));
    }
    if failed > 0 {
        let _ = write!(out, "; {} failed", count(failed, "call"));
    }
    out
}

/// The rows with the most total time, one line each: the thread, the call, the file, and durations.
pub(crate) fn most_time(result: &ObserveWritesResult, most: usize) -> impl Iterator<Item = (String, String)> {
    result.rows.iter().take(most).filter(|row| !row.latency.is_empty()).map(|row| {
        let times = percentiles(&row.latency, &[50.0, 99.0]);
        let text = format!("{}, {times}; {} missed", count(row.latency.count(), "call"), row.missed);
        (name(row), text)
    })
}

/// "postgres (812), fdatasync of /srv/pg_wal/1".
pub(crate) fn name(row: &WriteRow) -> String {
    if row.stands_for > 0 {
        return OTHERS.to_owned();
    }
    let of = if row.file.is_empty() { String::new() } else { format!(" of {}", inert::name(&row.file)) };
    format!("{}, {}{of}", process(&row.process), call(row))
}

/// The layer with the most time, and its share, 0 to 1.
fn most(result: &ObserveWritesResult) -> Option<(Layer, f64)> {
    let mut sums: BTreeMap<Layer, u64> = BTreeMap::new();
    let divided = || result.rows.iter().filter_map(|row| row.divided.as_ref());
    for divided in divided() {
        for (layer, ns) in times(divided) {
            *sums.entry(layer).or_default() += ns;
        }
    }
    let all_ns: u64 = divided().map(|divided| divided.sum_ns).sum();
    let (layer, ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    (all_ns > 0).then(|| (layer, ns as f64 / all_ns as f64))
}

/// A layer in words.
fn words(layer: Layer) -> &'static str {
    match layer {
        Layer::Device => "the device",
        Layer::Irq => "interrupts",
        Layer::Block => "the block layer",
        Layer::Held => "throttling, before a request was queued",
        Layer::Wake => "waiting for a CPU after a wake-up",
        Layer::Helper => "the journal and other threads",
        Layer::Stolen => "other work on the CPUs of those threads",
        Layer::Fs => "the file system",
        Layer::Preempted => "other tasks on the CPU",
        Layer::Platform => "the program",
        Layer::Unexplained => "what no event explains",
    }
}

/// The time of each layer, in nanoseconds. Unknown names, from newer versions, are left out.
fn times(divided: &Divided) -> impl Iterator<Item = (Layer, u64)> {
    divided.layers.iter().filter_map(|(name, time)| {
        let layer = Layer::ALL.into_iter().find(|layer| layer.name() == name)?;
        Some((layer, time.sum_ns))
    })
}

/// The tables, and notes below them.
#[must_use]
pub fn tables(result: &ObserveWritesResult, slow: &[Slow<'_>], look: Look) -> String {
    let Parts { calls, layers, notes } = parts(result, look.rows(MOST_ROWS));
    let mut out = String::new();
    if !result.rows.is_empty() {
        let _ = write!(out, "{}\n{}\n", calls.render(look), layers.render(look));
    }
    if let Some(causes) = causes(result) {
        let left = without(&causes, result, false);
        let _ = writeln!(out, "{}", why::by_cause(&causes, Some(result.missed()), &left));
    }
    let mut lines = slow_lines(result, slow);
    let more = lines.len().saturating_sub(MOST_SLOW);
    if look.is_terminal && more > 0 {
        lines.truncate(MOST_SLOW);
        lines.push(format!(
            "{more} more slow writes were kept: 'roundtrip explain' of the run (--out) shows each."
        ));
    }
    for line in lines.iter().chain(&notes) {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// What delayed the slow writes, kept or not; `None` if there were none.
pub(crate) fn causes(result: &ObserveWritesResult) -> Option<Across> {
    let causes = result.causes.as_ref().filter(|causes| causes.operations > 0);
    causes.map(roundtrip_analysis::causes::read)
}

/// The parts of the report.
pub(crate) struct Parts {
    /// One row per thread, system call and file, at most as many as wanted.
    pub(crate) calls: Table,
    /// The same rows by layer.
    pub(crate) layers: Table,
    /// Notes.
    pub(crate) notes: Vec<String>,
}

pub(crate) fn parts(result: &ObserveWritesResult, rows: usize) -> Parts {
    let mut notes: Vec<String> = commits(result).into_iter().chain(unseen(result)).collect();
    let others = result.rows.last().filter(|row| row.stands_for > 0);
    notes.extend(others.map(|row| others_note(row.stands_for, row.beyond_ns)));
    let own = result.rows.len() - usize::from(others.is_some());
    if let Some(more) = own.checked_sub(rows).filter(|&more| more > 0) {
        notes.push(format!("{more} more rows are not shown: --format json prints all."));
    }
    if !result.rows.is_empty() {
        let deadline = duration(result.plan.deadline.ns as f64);
        notes.push(format!(
            "missed: took longer than {deadline}. 'roundtrip help terms' explains the layers."
        ));
        notes.push("buffered: a write without O_SYNC or O_DSYNC that had to wait for the device.".into());
    }
    Parts { calls: calls(result, rows), layers: layers(result, rows), notes }
}

fn calls(result: &ObserveWritesResult, rows: usize) -> Table {
    let mut table = Table::new([
        Column::number("", ""),
        Column::text("process"),
        Column::text("thread"),
        Column::text("call"),
        Column::text("file"),
        Column::number("calls", ""),
        Column::number("calls/s", ""),
        Column::number("p50", "us"),
        Column::number("p99", "us"),
        Column::number("max", "us"),
        Column::number("missed", ""),
        Column::number("failed", ""),
    ]);
    let seconds = result.elapsed_ns.max(1) as f64 / 1e9;
    for (number, row) in numbered(result, rows) {
        let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| three_digits(ns as f64 / 1000.0));
        table.row([
            format!("{number}"),
            if row.stands_for > 0 { OTHERS.to_owned() } else { process(&row.process) },
            thread(row),
            call(row),
            inert::name(&row.file),
            row.latency.count().to_string(),
            three_digits(row.latency.count() as f64 / seconds),
            us(row.latency.percentile_ns(50.0)),
            us(row.latency.percentile_ns(99.0)),
            us(row.latency.max_ns()),
            row.missed.to_string(),
            row.failed.to_string(),
        ]);
    }
    table
}

/// The rows that are shown if at most so many are, each with its number.
fn numbered(result: &ObserveWritesResult, rows: usize) -> impl Iterator<Item = (usize, &WriteRow)> {
    (1..).zip(shown(&result.rows, rows, |row| row.stands_for > 0))
}

/// "walwriter (812)", or just the id if the thread has its process's name.
fn thread(row: &WriteRow) -> String {
    if row.stands_for > 0 {
        return String::new();
    }
    if row.thread.is_empty() || row.thread == row.process.name {
        return row.tid.to_string();
    }
    format!("{} ({})", inert::name(&row.thread), row.tid)
}

/// "pwrite64, O_DSYNC".
pub(crate) fn call(row: &WriteRow) -> String {
    match row.durable {
        _ if row.stands_for > 0 => String::new(),
        Durable::Call => row.call.clone(),
        Durable::Flag => format!("{}, O_DSYNC", row.call),
        Durable::No => format!("{}, buffered", row.call),
        Durable::Unknown => format!("{}, durability not known", row.call),
    }
}

fn layers(result: &ObserveWritesResult, rows: usize) -> Table {
    let divided = || result.rows.iter().filter_map(|row| row.divided.as_ref());
    let has = |layer: Layer| divided().any(|divided| divided.layers.contains_key(layer.name()));
    // "unexplained" is shown even if it is 0.
    let used: Vec<Layer> =
        Layer::ALL.into_iter().filter(|&layer| layer == Layer::Unexplained || has(layer)).collect();
    let head = [Column::number("", ""), Column::text("call"), Column::narrow("mean", "us")];
    let columns = used.iter().map(|layer| Column::narrow(&format!("{} mean", layer.name()), "us"));
    let tail = [
        Column::narrow("requests/call", ""),
        Column::narrow("reads", ""),
        Column::narrow("flushes/call", ""),
    ];
    let mut table = Table::new(head.into_iter().chain(columns).chain(tail));
    for (number, row) in numbered(result, rows) {
        let Some(divided) = &row.divided else { continue };
        let calls = divided.calls.max(1) as f64;
        let us = |ns: u64| three_digits(ns as f64 / calls / 1000.0);
        let mean = |layer: &Layer| us(divided.layers.get(layer.name()).map_or(0, |time| time.sum_ns));
        let head = [format!("{number}"), call(row), us(divided.sum_ns)];
        let tail = [
            three_digits(divided.requests as f64 / calls),
            divided.reads.to_string(),
            three_digits(divided.flushes as f64 / calls),
        ];
        table.row(head.into_iter().chain(used.iter().map(mean)).chain(tail));
    }
    table
}

/// The journal commits that writes waited for, by the thread that started them, the longest wait
/// first.
fn commits(result: &ObserveWritesResult) -> Option<String> {
    let mut sums: BTreeMap<(u32, &str), (u64, u64)> = BTreeMap::new();
    for other in result.rows.iter().filter_map(|row| row.divided.as_ref()).flat_map(|one| &one.others_commits)
    {
        let sum = sums.entry((other.tid, &other.thread)).or_default();
        *sum = (sum.0 + other.waits, sum.1 + other.waited_ns);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.small_sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
    let one = |((tid, thread), (waits, ns)): ((u32, &str), (u64, u64))| {
        let whose = match tid {
            0 if !thread.is_empty() => "of many more threads".to_owned(),
            0 => "of unknown origin (usually the journal's own commit interval)".to_owned(),
            tid => format!("that {} ({tid}) had started", inert::name(thread)),
        };
        format!("{whose}: {}, {} together", count(waits, "time"), duration(ns as f64))
    };
    let all: Vec<String> = sums.into_iter().take(MOST_COMMITS).map(one).collect();
    (!all.is_empty()).then(|| format!("Waited for journal commits {}", all.join("; ")))
}

/// How many other threads' commits are listed.
const MOST_COMMITS: usize = 8;

/// Where the slowest writes spent their time, one line each.
fn slow_lines(result: &ObserveWritesResult, slow: &[Slow<'_>]) -> Vec<String> {
    let line = |Slow { write, layers }: &Slow<'_>| {
        let row = result.rows.get(write.row)?;
        let all_ns = write.latency_ns();
        let others = layers.others_commits.iter().map(|other| {
            let whose =
                other.by.map_or_else(String::new, |by| format!(" of {} ({by})", inert::name(&other.comm)));
            format!("; waited {} for another thread's commit{whose}", duration(other.waited_ns as f64))
        });
        let uncertain = words::uncertain(layers);
        Some(format!(
            "slow: {}: {}: {}; {}{}{uncertain}",
            name(row),
            duration(all_ns as f64),
            why::sentence(layers),
            why::of_layers(layers, all_ns),
            others.collect::<String>(),
        ))
    };
    slow.iter().filter_map(line).collect()
}

/// What the figures do not include, one line each.
fn unseen(result: &ObserveWritesResult) -> Vec<String> {
    let unseen = &result.unseen;
    let line = |number: u64, one: &str, what: &str| {
        let were = if number == 1 { "was" } else { "were" };
        (number > 0).then(|| format!("{} {}", count(number, one), what.replacen("were", were, 1)))
    };
    let divided = || result.rows.iter().filter_map(|row| row.divided.as_ref());
    let lost_calls = divided().map(|one| one.lost_calls).sum();
    let uncovered_calls = divided().map(|one| one.uncovered_calls).sum();
    let switches_ns: u64 = divided().map(|one| one.unexplained_for_switches_ns).sum();
    [
        line(unseen.lost_events, "kernel event", "were lost: writes from that time are missing"),
        line(lost_calls, "write", "were made while events were lost: their layers are not certain"),
        line(
            uncovered_calls,
            "write",
            "were not covered by the recording as a whole: their layers are not certain",
        ),
        line(unseen.begun_before, "call", "had begun before the recording"),
        line(unseen.not_ended, "call", "were not seen to return: their thread exited, or an event was lost"),
        line(unseen.forgotten, "call", "were left out because too many were in flight"),
        line(result.over_limit, "further write", "missed the deadline; what delayed them is counted")
            .filter(|_| result.causes.is_some()),
        line(result.over_limit, "further write", "missed the deadline; they are counted, but not kept")
            .filter(|_| result.causes.is_none()),
        (switches_ns > 0).then(|| {
            format!(
                "{} are unexplained because the kernel did not record some context switches",
                duration(switches_ns as f64)
            )
        }),
        result.not_recorded.as_ref().map(|why| inert::line(why).into_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const RUN: &str = "../../fixtures/runs/x86_64-6.18-observed-writes";

    fn result() -> ObserveWritesResult {
        roundtrip_run::Run::read(Path::new(RUN)).unwrap().results.observed_writes.unwrap()
    }

    #[test]
    fn the_answer_names_the_layer_and_the_notes_name_the_threads_that_started_commits() {
        let result = result();
        let answer = answer(&result);
        assert!(answer.contains("% of their time went to waiting for a CPU after a wake-up"), "{answer}");
        let slow = roundtrip_analysis::observed_writes::slow(&result, Path::new(RUN)).results;
        let text = tables(&result, &slow, Look::PLAIN);
        let has = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
        assert_eq!((has("Waited for journal commits that python3 ("), has("slow: python3 (")), (1, 2));
        assert_eq!(text.matches(" had started: ").count(), 3);
        assert!(text.contains("/mnt/demo/one.log") && text.contains("write, O_DSYNC"), "{text}");
    }
}
