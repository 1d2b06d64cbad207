//! Observed calls of other programs as a table. Pure: a result in, text out.

use std::fmt::Write as _;

use roundtrip_run::OTHERS;
use roundtrip_run::ipc::observe::{Flow, ObserveResult, Process, Subject};
use roundtrip_sorting::SmallSort as _;

use crate::text::inert;
use crate::text::look::Look;
use crate::text::quantity::{duration, percentiles, three_digits};
use crate::text::table::{Column, Table};

/// The maximum number of rows shown: those with the most total time. JSON contains all rows.
pub(crate) const MOST_ROWS: usize = 40;

/// The table, and notes on what was not observed.
#[must_use]
pub fn tables(result: &ObserveResult, look: Look) -> String {
    let (table, notes) = parts(result, look.rows(MOST_ROWS));
    let mut out = if result.flows.is_empty() { String::new() } else { table.render(look) };
    if !out.is_empty() && !notes.is_empty() {
        out.push('\n');
    }
    out + &notes
}

/// A row for each client, server, pool, node and method, at most `rows`. Then notes, one line each.
pub(crate) fn parts(result: &ObserveResult, rows: usize) -> (Table, String) {
    let mut notes = String::new();
    for line in unseen(result) {
        notes.push_str(&line);
        notes.push('\n');
    }
    let others = result.flows.last().filter(|flow| flow.stands_for > 0);
    if let Some(flow) = others {
        let _ = writeln!(notes, "{}", others_note(flow.stands_for, flow.beyond_ns));
    }
    let own = result.flows.len() - usize::from(others.is_some());
    if let Some(more) = own.checked_sub(rows).filter(|&more| more > 0) {
        let _ = writeln!(notes, "{more} more rows are not shown: --format json prints all.");
    }
    failures(&result.flows).iter().for_each(|line| {
        let _ = writeln!(notes, "{line}");
    });
    if !result.flows.is_empty() {
        let deadline = duration(result.plan.deadline.ns as f64);
        let _ = writeln!(
            notes,
            "missed: took longer than {deadline}. behind pool: how long no server thread was ready, as a mean over all \
             calls."
        );
        notes.push_str(
            "Times are between the driver's events: they do not include the client's own work before and after.\n",
        );
    }
    (calls(result, rows), notes)
}

/// "1200 calls of all processes in 10.0 s, 3 longer than 2.50 ms".
#[must_use]
pub fn answer(result: &ObserveResult) -> String {
    let missed: u64 = result.flows.iter().map(|flow| flow.missed).sum();
    let failed: u64 = result.flows.iter().map(|flow| flow.failed).sum();
    let oneway: u64 = result.flows.iter().map(|flow| flow.oneway.count()).sum();
    let mut out = format!(
        "{} of {} in {}, {missed} longer than {}",
        count(result.calls(), "call"),
        subject(&result.plan.subject),
        duration(result.elapsed_ns as f64),
        duration(result.plan.deadline.ns as f64)
    );
    if oneway > 0 {
        let _ = write!(out, "; {}", count(oneway, "oneway transaction"));
    }
    if failed > 0 {
        let _ = write!(out, "; {} failed", count(failed, "call"));
    }
    out
}

/// Of how many servers the failed calls are listed, those with the most failed calls.
const MOST_FAILED: usize = 10;

/// The failed calls by server and reason, one line each.
fn failures(flows: &[Flow]) -> Vec<String> {
    let mut sums: Vec<(String, [u64; 4])> = Vec::new();
    for flow in flows.iter().filter(|flow| flow.failed > 0) {
        let server = match flow.server.pid {
            _ if flow.stands_for > 0 => OTHERS.to_owned(),
            0 => "an unknown handle or a server that had ended".to_owned(),
            _ => process(&flow.server),
        };
        let Flow { dead, frozen, refused, .. } = *flow;
        let counts = [dead, frozen, refused, flow.failed.saturating_sub(dead + frozen + refused)];
        match sums.iter_mut().find(|(known, _)| *known == server) {
            Some((_, sum)) => sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count),
            None => sums.push((server, counts)),
        }
    }
    sums.small_sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    let line = |(server, counts): &(String, [u64; 4])| {
        let reasons = [
            "because it was dead",
            "because it was frozen",
            "refused by the driver",
            "for a reason not stored",
        ];
        let counts = counts.iter().zip(reasons).filter(|(count, _)| **count > 0);
        let counts: Vec<String> = counts.map(|(count, why)| format!("{count} {why}")).collect();
        format!("failed calls to {server}: {}.", counts.join(", "))
    };
    let mut lines: Vec<String> = sums.iter().take(MOST_FAILED).map(line).collect();
    if let Some(more) = sums.len().checked_sub(MOST_FAILED).filter(|&more| more > 0) {
        lines.push(format!("failed calls to {more} more servers: see the column."));
    }
    lines
}

/// What that row is. None of the rows in it has more time than `beyond_ns`.
pub(crate) fn others_note(rows: u64, beyond_ns: u64) -> String {
    format!(
        "{OTHERS}: the sum of {}, each with at most {}; a row that was among them before lacks at most as much.",
        count(rows, "further row"),
        duration(beyond_ns as f64)
    )
}

/// The rows to show, of rows sorted by total time: the first `most`, and the last one if it is the
/// sum of others.
pub(crate) fn shown<R>(rows: &[R], most: usize, is_sum: impl Fn(&R) -> bool) -> impl Iterator<Item = &R> {
    let sum = rows.last().filter(|row| rows.len() > most && is_sum(row));
    rows.iter().take(most).chain(sum)
}

/// "1 call", "2 calls".
pub(crate) fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The rows with the most total time, one line each: client, server, method, and durations.
pub(crate) fn most_time(result: &ObserveResult, most: usize) -> impl Iterator<Item = (String, String)> {
    let flows = result.flows.iter().filter(|flow| !flow.latency.is_empty());
    flows.take(most).map(|flow| {
        let times = percentiles(&flow.latency, &[50.0, 99.0]);
        let text = format!("{}, {times}; {} missed", count(flow.latency.count(), "call"), flow.missed);
        (name(flow), text)
    })
}

/// "system_server (812) to surfaceflinger (420), code 7, by Binder:#_#".
pub(crate) fn name(flow: &Flow) -> String {
    if flow.stands_for > 0 {
        return OTHERS.to_owned();
    }
    let by = flow.pool.as_deref().map(|pool| format!(", by {}", inert::line(pool))).unwrap_or_default();
    format!("{} to {}, code {}{by}", process(&flow.client), process(&flow.server), code(flow.code))
}

/// "all processes", "process 812", or a name.
#[must_use]
pub fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Everyone => "all processes".to_owned(),
        Subject::Process(pid) => format!("process {pid}"),
        Subject::Name(name) => inert::name(name),
        Subject::Command(words) => inert::name(words.first().map_or("", String::as_str)),
    }
}

/// A process with its id: "system_server (812)".
pub(crate) fn process(Process { pid, name }: &Process) -> String {
    match (*pid, name.as_str()) {
        (0, _) => "not known".to_owned(),
        (pid, "") => pid.to_string(),
        (pid, name) => format!("{} ({pid})", inert::name(name)),
    }
}

fn calls(result: &ObserveResult, rows: usize) -> Table {
    let mut table = Table::new([
        Column::text("client"),
        Column::text("server"),
        Column::number("node", ""),
        Column::number("code", ""),
        Column::number("calls", ""),
        Column::number("calls/s", ""),
        Column::number("p50", "us"),
        Column::number("p99", "us"),
        Column::number("max", "us"),
        Column::number("missed", ""),
        Column::narrow("request p50", "us"),
        Column::narrow("handling p50", "us"),
        Column::narrow("reply p50", "us"),
        Column::narrow("behind pool", "us"),
        Column::text("pool"),
        Column::number("threads", ""),
        Column::number("oneway", ""),
        Column::narrow("oneway p50", "us"),
        Column::number("failed", ""),
    ]);
    let seconds = result.elapsed_ns.max(1) as f64 / 1e9;
    for flow in shown(&result.flows, rows, |flow| flow.stands_for > 0) {
        let [client, server, node, code] = match flow.stands_for {
            0 => [
                process(&flow.client),
                process(&flow.server),
                flow.node.map_or_else(|| OTHERS.to_owned(), |node| node.to_string()),
                code(flow.code),
            ],
            _ => [OTHERS, "", "", ""].map(str::to_owned),
        };
        table.row([
            client,
            server,
            node,
            code,
            flow.latency.count().to_string(),
            three_digits(flow.latency.count() as f64 / seconds),
            microseconds(flow.latency.percentile_ns(50.0)),
            microseconds(flow.latency.percentile_ns(99.0)),
            microseconds(flow.latency.max_ns()),
            flow.missed.to_string(),
            microseconds(flow.request.percentile_ns(50.0)),
            microseconds(flow.handling.percentile_ns(50.0)),
            microseconds(flow.reply.percentile_ns(50.0)),
            microseconds(behind_pool_ns(flow)),
            flow.pool.clone().unwrap_or_else(|| "-".to_owned()),
            flow.server_threads.to_string(),
            flow.oneway.count().to_string(),
            microseconds(flow.oneway.percentile_ns(50.0)),
            flow.failed.to_string(),
        ]);
    }
    table
}

/// A method's code. The codes that every binder object understands consist of four characters, such
/// as "_PNG" for a ping (IBinder.h). They are shown as text.
pub(crate) fn code(code: u32) -> String {
    let bytes = code.to_be_bytes();
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.starts_with('_') && bytes.iter().all(u8::is_ascii_graphic) => text.to_owned(),
        _ => code.to_string(),
    }
}

/// The mean wait for a server thread, over all calls for which it is known, in nanoseconds.
fn behind_pool_ns(flow: &Flow) -> Option<u64> {
    flow.behind_pool.mean_ns().map(|ns| ns.round() as u64)
}

fn microseconds(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| three_digits(ns as f64 / 1000.0))
}

/// What was not observed, one line each.
fn unseen(result: &ObserveResult) -> Vec<String> {
    let unseen = &result.unseen;
    let line = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    [
        line(unseen.lost_events, "events of the kernel were lost: calls of that time are missing"),
        line(
            unseen.begun_before,
            "transactions started before the recording, or the event of their start was lost",
        ),
        line(unseen.not_ended, "transactions have no recorded end: a process exited, or an event was lost"),
        line(unseen.forgotten, "transactions were left out, because too many were in progress"),
        line(result.over_limit, "more calls missed the deadline; they are counted, not kept"),
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

    fn result() -> ObserveResult {
        let run = roundtrip_run::Run::read(Path::new("../../fixtures/runs/x86_64-6.1-observed")).unwrap();
        run.results.observed_calls.unwrap()
    }

    #[test]
    fn only_the_rows_with_the_most_time_are_shown_and_the_others_are_counted() {
        let result = result();
        let text = tables(&result, Look::PLAIN);
        let rows = text.lines().filter(|line| line.starts_with("rsb-"));
        assert_eq!(rows.count(), MOST_ROWS);
        let more = result.flows.len() - MOST_ROWS;
        assert!(text.contains(&format!("\n{more} more rows are not shown")), "{text}");
        assert!(answer(&result).contains("300 oneway transactions; 1 call failed"), "{}", answer(&result));
    }

    #[test]
    fn the_sum_of_others_is_the_last_row_and_a_note_says_how_much_each_may_have() {
        let mut result = result();
        let others = result.flows.last_mut().unwrap();
        (others.stands_for, others.beyond_ns) = (81, 3_000_000);
        let text = tables(&result, Look::PLAIN);
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert!(rows.last().unwrap().starts_with("others "), "{text}");
        assert_eq!(rows.iter().filter(|row| row.starts_with("rsb-")).count(), MOST_ROWS);
        let note = "\nothers: the sum of 81 further rows, each with at most 3.00 ms; a row that was among them before";
        assert!(text.contains(note), "{text}");
        let more = result.flows.len() - 1 - MOST_ROWS;
        assert!(text.contains(&format!("\n{more} more rows are not shown")), "{text}");
    }

    #[test]
    fn failed_calls_are_listed_by_server_and_reason() {
        let mut result = result();
        for (flow, counts) in result.flows.iter_mut().zip([[1, 2, 2, 0], [0, 0, 4, 3], [3, 0, 0, 0]]) {
            [flow.dead, flow.frozen, flow.refused, _] = counts;
            flow.failed = counts.iter().sum();
            flow.server = Process { pid: 9, name: "srv\u{1b}".into() };
        }
        result.flows[2].server.pid = 0;
        result.flows[3..].iter_mut().for_each(|flow| flow.failed = 0);
        let text = tables(&result, Look::PLAIN);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("failed calls")).collect();
        let of_srv = "failed calls to srv\\u001b (9): 1 because it was dead, 2 because it was frozen, 6 refused by the driver, 3 for a reason not stored.";
        let unknown = "failed calls to an unknown handle or a server that had ended: 3 because it was dead.";
        assert_eq!(lines, [of_srv, unknown]);
    }

    #[test]
    fn each_pool_is_named_if_a_thread_took_the_call() {
        let mut result = result();
        let row = |text: &str| text.lines().find(|line| line.starts_with("rsb-client")).unwrap().to_owned();
        assert!(name(&result.flows[0]).ends_with(", code 5"), "{}", name(&result.flows[0]));
        result.flows[0].pool = Some("Binder:#_#\u{1b}".into());
        let text = tables(&result, Look::PLAIN);
        assert!(row(&text).contains("  Binder:#_#\\u001b  "), "{text}");
        assert!(name(&result.flows[0]).ends_with(", code 5, by Binder:#_#\\u001b"));
    }

    #[test]
    fn codes_that_every_object_has_are_shown_as_characters() {
        assert_eq!((code(0x5f50_4e47).as_str(), code(7).as_str()), ("_PNG", "7"));
        assert_eq!(code(0x5f0a_4e47), 0x5f0a_4e47_u32.to_string(), "no control characters");
    }
}
