//! Other programs' system calls as a table with the columns of strace -c. Pure: a result in, text
//! out.

use std::fmt::Write as _;

use roundtrip_run::storage::system_calls::SystemCallsResult;

use crate::ipc::observed_calls::{count, subject};
use crate::text::inert;
use crate::text::look::Look;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// "1200 system calls of postgres in 10.0 s, 3 failed; fsync has 71% of their time".
#[must_use]
pub fn answer(result: &SystemCallsResult) -> String {
    let calls = result.rows.iter().map(|row| row.latency.count()).sum();
    let failed: u64 = result.rows.iter().map(|row| row.failed).sum();
    let mut out = format!(
        "{} of {} in {}, {failed} failed",
        count(calls, "system call"),
        subject(&result.plan.subject),
        duration(result.elapsed_ns as f64)
    );
    if let Some(row) = result.rows.first().filter(|_| result.sum_ns() > 0) {
        let share = 100.0 * row.latency.sum_ns() as f64 / result.sum_ns() as f64;
        let _ = write!(out, "; {} has {share:.0}% of their time", inert::name(&row.call));
    }
    out
}

/// The table, and a note below it.
#[must_use]
pub fn tables(result: &SystemCallsResult, look: Look) -> String {
    let (table, notes) = parts(result);
    if result.rows.is_empty() { notes } else { format!("{}\n{notes}", table.render(look)) }
}

/// One row per system call and one for all, and notes, one line each.
pub(crate) fn parts(result: &SystemCallsResult) -> (Table, String) {
    let mut table = Table::new([
        Column::number("share", "%"),
        Column::number("seconds", ""),
        Column::number("usecs/call", ""),
        Column::number("calls", ""),
        Column::number("errors", ""),
        Column::text("syscall"),
    ]);
    let sum_ns = result.sum_ns();
    let mut row = |ns: u64, calls: u64, failed: u64, name: String| {
        table.row([
            format!("{:.2}", 100.0 * ns as f64 / sum_ns.max(1) as f64),
            format!("{:.6}", ns as f64 / 1e9),
            (ns / 1000 / calls.max(1)).to_string(),
            calls.to_string(),
            // Empty without errors, as strace has it.
            if failed == 0 { String::new() } else { failed.to_string() },
            name,
        ]);
    };
    for one in &result.rows {
        row(one.latency.sum_ns(), one.latency.count(), one.failed, inert::name(&one.call));
    }
    let sum = |of: fn(&_) -> u64| result.rows.iter().map(of).sum();
    row(sum_ns, sum(|row| row.latency.count()), sum(|row| row.failed), "total".to_owned());
    let unseen = result.unseen;
    let mut notes = String::new();
    for (calls, what) in [
        (unseen.not_ended, "had not returned, or their return was lost"),
        (unseen.begun_before, "had begun before"),
        (unseen.forgotten, "were dropped because too many were in flight"),
    ] {
        if calls > 0 {
            let _ = writeln!(notes, "{} of all processes {what}.", count(calls, "system call"));
        }
    }
    notes.push_str("seconds: in the kernel, waiting included, as strace -w -c shows.\n");
    (table, notes)
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Histogram;
    use roundtrip_run::RecorderInfo;
    use roundtrip_run::observe::Subject;
    use roundtrip_run::storage::system_calls::{SystemCallRow, SystemCallsPlan, UnseenSystemCalls};

    use super::*;

    fn row(call: &str, latencies_ns: &[u64], failed: u64) -> SystemCallRow {
        let mut latency = Histogram::growing();
        latencies_ns.iter().for_each(|&ns| latency.record(ns));
        SystemCallRow { call: call.into(), latency, failed }
    }

    #[test]
    fn the_columns_are_those_of_strace_and_the_last_row_has_all() {
        let result = SystemCallsResult {
            plan: SystemCallsPlan {
                subject: Subject::Command(vec!["writer".into()]),
                ..SystemCallsPlan::default()
            },
            elapsed_ns: 2_000_000_000,
            rows: vec![row("fsync", &[600_000, 300_000], 0), row("openat", &[100_000; 1], 1)],
            unseen: UnseenSystemCalls { not_ended: 1, ..UnseenSystemCalls::default() },
            recorder: RecorderInfo { events: Vec::new(), missing: Vec::new(), kilobytes: 1 },
            not_recorded: None,
        };
        insta::assert_snapshot!(tables(&result, Look::default()));
        assert!(answer(&result).ends_with("1 failed; fsync has 90% of their time"), "{}", answer(&result));
    }
}
