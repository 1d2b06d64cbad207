//! Other programs' synchronous writes as CSV. Pure: a result in, text out.

use std::fmt::Write as _;

use layers::storage::Layer;
use run::storage::observe::{Divided, Durable, ObserveWritesResult};

use crate::csv::Line;
use crate::inert;

/// One line for each row, unrounded.
#[must_use]
pub fn csv(result: &ObserveWritesResult) -> String {
    let mut out = String::from(
        "process,pid,thread,tid,call,durable,file,calls,elapsed_ns,bytes,mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns,\
         missed,deadline_ns,failed,throttled,divided_calls,divided_ns",
    );
    for layer in Layer::ALL {
        let _ = write!(out, ",{}_ns", layer.name());
    }
    out.push_str(",requests,reads,flushes,others_commits,others_commits_ns,lost_calls\n");
    for row in &result.rows {
        let latency = &row.latency;
        let mut line = Line::of(&mut out);
        line = line
            .field(inert::name(&row.process.name))
            .field(row.process.pid)
            .field(inert::name(&row.thread))
            .field(row.tid)
            .field(&row.call)
            .field(match row.durable {
                Durable::Call => "call",
                Durable::Flag => "flag",
                Durable::No => "no",
            })
            .field(inert::name(&row.file))
            .field(latency.count())
            .field(result.elapsed_ns)
            .field(row.bytes)
            .known(latency.mean_ns())
            .known(latency.percentile_ns(50.0))
            .known(latency.percentile_ns(90.0))
            .known(latency.percentile_ns(99.0))
            .known(latency.percentile_ns(99.9).filter(|_| latency.count() >= 1000))
            .known(latency.max_ns())
            .field(row.missed)
            .field(result.plan.deadline.ns)
            .field(row.failed)
            .field(row.throttled);
        let divided = row.divided.as_ref();
        line = line.known(divided.map(|one| one.calls)).known(divided.map(|one| one.sum_ns));
        for layer in Layer::ALL {
            let sum_ns = |one: &Divided| one.layers.get(layer.name()).map_or(0, |time| time.sum_ns);
            line = line.known(divided.map(sum_ns));
        }
        let waits = |one: &Divided| one.others_commits.iter().map(|other| other.waits).sum::<u64>();
        let waited_ns = |one: &Divided| one.others_commits.iter().map(|other| other.waited_ns).sum::<u64>();
        line.known(divided.map(|one| one.requests))
            .known(divided.map(|one| one.reads))
            .known(divided.map(|one| one.flushes))
            .known(divided.map(waits))
            .known(divided.map(waited_ns))
            .known(divided.map(|one| one.lost_calls))
            .end();
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn result() -> ObserveWritesResult {
        let run = run::Run::read(Path::new("../../fixtures/runs/x86_64-6.18-observed-writes")).unwrap();
        run.results.observed_writes.unwrap()
    }

    #[test]
    fn the_page_on_csv_has_every_column_in_order() {
        let page = include_str!("../../../docs/json-and-csv.md");
        let section = page.split("### `storage observe --format csv`").nth(1).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let columns = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let text = csv(&result());
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(columns.collect::<Vec<_>>(), header);
        assert!(text.lines().all(|line| line.split(',').count() == header.len()), "{text}");
    }
}
