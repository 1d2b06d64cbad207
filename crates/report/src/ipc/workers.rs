//! The result of many workers: in the format of Android's throughput tests, and as a table.
//! Pure: a result in, text out.

use roundtrip_latency::Histogram;
use roundtrip_run::ipc::Backend;
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::workers::{Above, Stage, Topology, WorkersPlan, WorkersResult};

use crate::text::look::Look;
use crate::text::quantity::{duration, general, three_digits};
use crate::text::table::{Column, Table};

/// The lines that Android's programs print at a stage: those of hwbinderThroughputTest if the plan
/// has separate services, else those of binderThroughputTest. Empty if they print nothing.
#[must_use]
pub fn android_lines(stage: &Stage, plan: &WorkersPlan) -> String {
    let services = match (plan.topology, plan.mode) {
        (Topology::Services(services), Mode::Binderize) => services,
        _ => 0,
    };
    let apart = matches!(plan.topology, Topology::Services(_));
    match stage {
        Stage::Made { .. } => {
            (0..services).map(|n| format!("creating service: hwbinderService{n}\n")).collect()
        }
        Stage::Waiting => {
            let made = 0..if apart { 0 } else { plan.workers };
            let made: String = made.map(|n| format!("Created BinderWorker{n}\n")).collect();
            format!("waiting for workers to complete\n{made}")
        }
        Stage::Complete { iterations_per_s } => {
            format!("iterations per sec: {}\n", six_digits(*iterations_per_s))
        }
        Stage::Collecting => "collecting results\n".into(),
        Stage::Measured(result) if apart => android_summary(result),
        Stage::Killing if services > 0 => "killing services\nkilling workers\n".into(),
        Stage::Killing => "killing workers\n".into(),
        Stage::Training | Stage::Trained { .. } | Stage::Calling { .. } | Stage::Measured(_) => String::new(),
    }
}

/// What binderThroughputTest prints about calls that took longer than expected; empty if there are
/// none.
#[must_use]
pub fn android_above(result: &WorkersResult) -> String {
    let Some(Above { count, worst_ns, .. }) = result.above.filter(|above| above.count > 0) else {
        return String::new();
    };
    format!(
        "{}% of transactions took longer than estimated max latency. Consider setting -m to be higher than {} microseconds\n",
        six_digits(100.0 * count as f64 / result.latency.count() as f64),
        worst_ns / 1000
    )
}

/// The end of binderThroughputTest's training round.
#[must_use]
pub fn android_trained(result: &WorkersResult) -> String {
    let worst_ms = result.latency.max_ns().unwrap_or(0) as f64 / 1e6;
    format!("Max latency during training: {}ms\nCompleted training round\n\n", six_digits(worst_ms))
}

/// The two lines at the end of Android's report, in milliseconds.
#[must_use]
pub fn android_summary(result: &WorkersResult) -> String {
    let latency = &result.latency;
    let ms = |ns: Option<f64>| six_digits(ns.unwrap_or(0.0) / 1e6);
    let whole = |ns: Option<u64>| ms(ns.map(|ns| ns as f64));
    // Android's programs print the longest call for a percentile of too few calls.
    let percentile = |percent: f64| whole(latency.percentile_ns(percent).or(latency.max_ns()));
    format!(
        "average:{}ms worst:{}ms best:{}ms\n50%: {} 90%: {} 95%: {} 99%: {} \n",
        ms(latency.mean_ns()),
        whole(latency.max_ns()),
        whole(latency.min_ns()),
        percentile(50.0),
        percentile(90.0),
        percentile(95.0),
        percentile(99.0),
    )
}

/// The result of the training round, for standard error.
#[must_use]
pub fn training_line(stage: &Stage) -> Option<String> {
    match stage {
        Stage::Training => Some("training round".into()),
        Stage::Trained { training, threshold_ns } => Some(format!(
            "training round: worst {}, warning above {}",
            duration(training.worst_ns as f64),
            duration(*threshold_ns as f64)
        )),
        _ => None,
    }
}

/// The warning about calls above the threshold; `None` if there are none.
#[must_use]
pub fn above_line(result: &WorkersResult) -> Option<String> {
    let Above { threshold_ns, count, worst_ns } = result.above.filter(|above| above.count > 0)?;
    Some(format!(
        "{count} of {} calls took longer than {}, the worst {}",
        result.latency.count(),
        duration(threshold_ns as f64),
        duration(worst_ns as f64)
    ))
}

/// What was run, a row for each caller and one for all, and the rate.
#[must_use]
pub fn table(result: &WorkersResult, look: Look) -> String {
    let (heading, table, notes) = parts(result);
    format!("{heading}\n{}\n{notes}", table.render(look))
}

/// What was run, the table, and notes.
pub(crate) fn parts(result: &WorkersResult) -> (String, Table, String) {
    let WorkersPlan { stack, workers, iterations, size_bytes, .. } = &result.plan;
    let who = match result.plan.topology {
        Topology::Everyone => "each a service and a caller".to_owned(),
        Topology::Pairs => "half of them services, half their callers".to_owned(),
        Topology::Services(services) => format!("calling {services} services"),
    };
    let heading = format!(
        "{stack}, {}\n{workers} workers, {who}; {iterations} calls each, {size_bytes} bytes each way\n",
        backend_name(result.backend.as_ref())
    );
    let figures = ["min", "mean", "p50", "p90", "p95", "p99", "max"].map(|name| Column::number(name, "us"));
    let columns = [Column::text("caller"), Column::number("calls", ""), Column::number("calls/s", "")];
    let mut table = Table::new(columns.into_iter().chain(figures));
    let us = |ns: f64| three_digits(ns / 1000.0);
    let mut row = |name: String, latency: &Histogram, calls_per_s: f64| {
        let figures = figures_ns(latency).map(|ns| ns.map_or_else(|| "-".to_owned(), us));
        table
            .row([name, latency.count().to_string(), format!("{calls_per_s:.0}")].into_iter().chain(figures));
    };
    for caller in &result.callers {
        let calls_per_s = caller.latency.count() as f64 / (caller.wall_ns as f64 / 1e9);
        row(format!("worker {}", caller.worker), &caller.latency, calls_per_s);
    }
    row("all".into(), &result.latency, result.iterations_per_s);
    let notes = format!(
        "All calls within {}. Percentiles are within {}% of the exact ones.\n",
        duration(result.wall_ns as f64),
        Histogram::RELATIVE_ERROR * 100.0
    );
    (heading, table, notes)
}

/// Minimum, mean, p50, p90, p95, p99, maximum.
fn figures_ns(latency: &Histogram) -> [Option<f64>; 7] {
    let whole = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let percentile = |percent: f64| whole(latency.percentile_ns(percent));
    [
        whole(latency.min_ns()),
        latency.mean_ns(),
        percentile(50.0),
        percentile(90.0),
        percentile(95.0),
        percentile(99.0),
        whole(latency.max_ns()),
    ]
}

/// The driver, or the mode if it needs none.
pub fn backend_name(backend: Option<&Backend>) -> String {
    backend.map_or_else(|| format!("in process ({})", Mode::Passthrough), ToString::to_string)
}

/// A number as C++ prints it by default.
fn six_digits(value: f64) -> String {
    general(value, 6)
}

#[cfg(test)]
mod tests {
    use roundtrip_run::ipc::Profile;
    use roundtrip_run::ipc::workers::{Caller, Training};

    use super::*;

    fn result() -> WorkersResult {
        let first: Histogram = [1000, 2000, 2000, 40_000].into_iter().collect();
        let second: Histogram = [3000, 3000, 3000, 510_000].into_iter().collect();
        let mut latency = first.clone();
        latency.merge(&second);
        WorkersResult {
            plan: WorkersPlan { iterations: 4, size_bytes: 16, ..WorkersPlan::default() },
            backend: Some(Backend::Emulated { profile: Profile::Ack }),
            wall_ns: 600_000,
            iterations_per_s: 8.0 / 600e-6,
            latency,
            above: Some(Above { threshold_ns: 30_000, count: 2, worst_ns: 510_000 }),
            training: Some(Training { iterations_per_s: 15_000.0, worst_ns: 15_000 }),
            callers: vec![
                Caller { worker: 0, wall_ns: 50_000, latency: first },
                Caller { worker: 1, wall_ns: 590_000, latency: second },
            ],
            limits: vec![],
        }
    }

    /// Everything that a program prints for its stages.
    fn printed(plan: &WorkersPlan) -> String {
        let stages = [
            Stage::Made { workers: 2, backend: result().backend },
            Stage::Waiting,
            Stage::Complete { iterations_per_s: 48_612.84 },
            Stage::Collecting,
            Stage::Measured(Box::new(result())),
            Stage::Killing,
        ];
        stages.iter().map(|stage| android_lines(stage, plan)).collect()
    }

    #[test]
    fn binder_throughput_test_prints_its_lines_in_order() {
        assert_eq!(
            printed(&WorkersPlan { empty_reply: true, ..WorkersPlan::default() }),
            "waiting for workers to complete\nCreated BinderWorker0\nCreated BinderWorker1\n\
             iterations per sec: 48612.8\ncollecting results\nkilling workers\n"
        );
    }

    #[test]
    fn hwbinder_throughput_test_kills_its_services_after_the_summary() {
        let topology = Topology::Services(2);
        let plan =
            WorkersPlan { stack: roundtrip_run::ipc::Stack::Hwbinder, topology, ..WorkersPlan::default() };
        let text = printed(&plan);
        let made = "creating service: hwbinderService0\ncreating service: hwbinderService1\n";
        let summary = android_summary(&result());
        let rest = format!(
            "waiting for workers to complete\niterations per sec: 48612.8\ncollecting results\n{summary}"
        );
        assert_eq!(text, format!("{made}{rest}killing services\nkilling workers\n"));
        let in_process = printed(&WorkersPlan { mode: Mode::Passthrough, ..plan });
        assert_eq!(in_process, format!("{rest}killing workers\n"));
    }

    #[test]
    fn calls_that_took_longer_than_expected_are_reported_in_percent() {
        assert_eq!(
            android_above(&result()),
            "25% of transactions took longer than estimated max latency. Consider setting -m to be higher than 510 \
             microseconds\n"
        );
        assert_eq!(android_above(&WorkersResult { above: None, ..result() }), "");
        assert_eq!(
            android_trained(&result()),
            "Max latency during training: 0.51ms\nCompleted training round\n\n"
        );
    }

    #[test]
    fn androids_summary_is_in_milliseconds_with_exact_percentiles() {
        assert_eq!(
            android_summary(&result()),
            "average:0.0705ms worst:0.51ms best:0.001ms\n50%: 0.003001 90%: 0.51 95%: 0.51 99%: 0.51 \n"
        );
    }

    #[test]
    fn calls_above_the_threshold_are_reported_in_one_line() {
        let mut result = result();
        let line = above_line(&result).unwrap();
        assert_eq!(line, "2 of 8 calls took longer than 30.0 us, the worst 510 us");
        result.above = Some(Above { threshold_ns: 1, count: 0, worst_ns: 1 });
        assert_eq!(above_line(&result), None);
        result.above = None;
        assert_eq!(above_line(&result), None);
    }

    #[test]
    fn the_training_round_reports_the_threshold_that_it_sets() {
        let training = result().training.unwrap();
        let line = training_line(&Stage::Trained { training, threshold_ns: 30_000 });
        assert_eq!(line.unwrap(), "training round: worst 15.0 us, warning above 30.0 us");
    }

    #[test]
    fn the_table_has_a_row_for_each_caller_and_one_for_all() {
        insta::assert_snapshot!(table(&result(), Look::PLAIN));
    }
}
