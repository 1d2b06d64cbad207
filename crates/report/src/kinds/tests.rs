//! Every test in every format, gate and comparison: with one call, with 20, with many, and without
//! any.

use roundtrip_analysis::compare::{Measured, Options, Side, compare};
use roundtrip_analysis::figures;
use roundtrip_analysis::gate::{Gate, Violation};
use roundtrip_latency::{Deadline, Histogram, Timeline};
use roundtrip_run::baseline::{BaselineCell, BaselinePlan, BaselineResult};
use roundtrip_run::ipc::latency::{
    CallerResult, Inheritance, LatencyPlan, LatencyResult, PairResult, Series, Verdict,
};
use roundtrip_run::ipc::observe::{Flow, ObserveResult};
use roundtrip_run::ipc::throughput::{Batch, ThroughputResult, ThroughputRow};
use roundtrip_run::ipc::traits::{Aspect, Finding, Row, TraitsResult};
use roundtrip_run::ipc::workers::WorkersResult;
use roundtrip_run::ipc::{Backend, Profile, Stack};
use roundtrip_run::observe::Process;
use roundtrip_run::storage::interference::{self as beside, Beside, Condition, InterferenceResult, Pair};
use roundtrip_run::storage::observe::{Durable, ObserveWritesResult, WriteRow};
use roundtrip_run::storage::system_calls::{SystemCallRow, SystemCallsResult};
use roundtrip_run::storage::{Call, StorageResult};
use roundtrip_run::{CpuPlacement, NAMES, RecorderInfo, Run, Scheduling};

use super::*;
use crate::html;

const COUNTS: [u64; 4] = [0, 1, 20, 20_000];

const DEADLINE: Deadline = Deadline { ns: 3_000_000 };

/// So many calls, of 1 us and a little more each.
fn times(count: u64) -> Histogram {
    (0..count).map(|n| 1000 + n).collect()
}

fn recorder() -> RecorderInfo {
    RecorderInfo { events: vec![], missing: vec![], kilobytes: 1 }
}

fn process(pid: u32) -> Process {
    Process { pid, name: format!("process-{pid}") }
}

fn latency(count: u64) -> LatencyResult {
    let mut caller = CallerResult::new(Scheduling::other(0), DEADLINE, false, 0);
    (caller.latency, caller.deadline.count) = (times(count), count);
    let pairs = vec![PairResult { callers: vec![caller], server: None }];
    LatencyResult {
        plan: LatencyPlan::default(),
        backend: None,
        usable_cpus: 1,
        clock_read_cost_ns: 20.0,
        work_takes_ns: None,
        series: vec![Series {
            stack: Stack::Binder,
            inheritance: Inheritance::Stack,
            pairs,
            verdict: Verdict::Pass,
        }],
        warnings: vec![],
        realtime_refused: None,
        explained: None,
        halted: None,
        inherited_by_pi_futex: false,
        wake_up: None,
    }
}

fn throughput(count: u64) -> ThroughputResult {
    let batch = Batch { iterations: 10, elapsed_ns: 1000, cpu_ns: 500, one_way_bytes: 40 };
    let row = ThroughputRow {
        stack: Stack::Binder,
        size_bytes: 4,
        client_cpus: vec![0],
        server_cpus: vec![0],
        batches: vec![batch; count.min(3) as usize],
        latency: Some(times(count)),
    };
    let plan = Default::default();
    ThroughputResult {
        plan,
        backend: None,
        clock_read_cost_ns: 20.0,
        rows: vec![row],
        limits: vec![],
        wake_up: None,
    }
}

fn baseline(count: u64) -> BaselineResult {
    let cell = BaselineCell {
        transport: "futex".into(),
        backend: None,
        size_bytes: 4,
        placement: CpuPlacement::Same,
        client_cpus: vec![0],
        server_cpus: vec![0],
        round_medians_ns: vec![1000; count.min(3) as usize],
        latency: times(count),
        against_futex: None,
        recorded: None,
    };
    BaselineResult {
        plan: BaselinePlan::default(),
        clock_read_cost_ns: 20.0,
        cells: vec![cell],
        not_possible: vec![],
        recorder: None,
        wake_up: None,
    }
}

fn workers(count: u64) -> WorkersResult {
    WorkersResult {
        plan: Default::default(),
        backend: None,
        wall_ns: 1_000_000,
        iterations_per_s: count as f64,
        latency: times(count),
        above: None,
        training: None,
        callers: vec![],
        limits: vec![],
    }
}

fn observed_calls(count: u64) -> ObserveResult {
    let flow = Flow {
        client: process(1),
        server: process(2),
        pool: None,
        node: Some(1),
        code: 7,
        latency: times(count),
        request: times(count),
        handling: times(count),
        reply: times(count),
        behind_pool: times(count),
        missed: 0,
        nested: 0,
        oneway: times(0),
        failed: 0,
        dead: 0,
        frozen: 0,
        refused: 0,
        server_threads: 1,
        stands_for: 0,
        beyond_ns: 0,
    };
    ObserveResult {
        plan: Default::default(),
        elapsed_ns: 1_000_000,
        flows: vec![flow],
        timeline: Timeline::new(0),
        slow_calls: vec![],
        over_limit: 0,
        causes: None,
        unseen: Default::default(),
        recorder: recorder(),
        not_recorded: None,
    }
}

fn observed_writes(count: u64) -> ObserveWritesResult {
    let row = WriteRow {
        process: process(1),
        tid: 1,
        thread: "writer".into(),
        call: "fsync".into(),
        durable: Durable::Call,
        file: "/file".into(),
        latency: times(count),
        bytes: 0,
        missed: 0,
        failed: 0,
        throttled: 0,
        divided: None,
        stands_for: 0,
        beyond_ns: 0,
    };
    ObserveWritesResult {
        plan: Default::default(),
        elapsed_ns: 1_000_000,
        devices: vec![],
        rows: vec![row],
        slow_writes: vec![],
        over_limit: 0,
        causes: None,
        unseen: Default::default(),
        recorder: recorder(),
        not_recorded: None,
    }
}

fn system_calls(count: u64) -> SystemCallsResult {
    SystemCallsResult {
        plan: Default::default(),
        elapsed_ns: 1_000_000,
        rows: vec![SystemCallRow { call: "fsync".into(), latency: times(count), failed: 0 }],
        unseen: Default::default(),
        recorder: recorder(),
        not_recorded: None,
    }
}

fn traits(count: u64) -> TraitsResult {
    let finding = || Finding::RoundTrip { latency: times(count) };
    TraitsResult {
        plan: Default::default(),
        backend: Backend::Emulated { profile: Profile::Ack },
        rows: vec![Row { aspect: Aspect::RoundTrip, binder: finding(), hwbinder: finding() }],
    }
}

fn storage(count: u64) -> StorageResult {
    let mut result = writes::fixture::result();
    result.series[0].latency = times(count);
    result
}

fn interference(count: u64) -> InterferenceResult {
    let calls = (0..count).map(|n| Call { start_ns: n * 10_000_000, end_ns: n * 10_000_000 + 1000 + n });
    let block = beside::Measured { calls: calls.collect(), ..Default::default() };
    let StorageResult { path, writers, .. } = writes::fixture::result();
    let one = Beside {
        condition: Condition::Alone,
        what: String::new(),
        writer: 0,
        writer_beside: 0,
        size_bytes: 4096,
        pairs: vec![Pair { alone: block.clone(), beside: block, alone_first: true }],
    };
    InterferenceResult {
        plan: Default::default(),
        path,
        clock_read_cost_ns: 20.0,
        writers,
        writer_cpus: vec![0],
        interrupt_cpu: None,
        comparisons: vec![one],
        recorder: None,
        recording_ended: None,
        ended: Vec::new(),
        not_possible: vec![],
        notes: vec![],
    }
}

/// A run of each test, with so many calls in each of its groups.
fn runs(count: u64) -> Vec<Run> {
    let results: [Results; 10] = [
        latency(count).into(),
        throughput(count).into(),
        baseline(count).into(),
        workers(count).into(),
        observed_calls(count).into(),
        observed_writes(count).into(),
        system_calls(count).into(),
        traits(count).into(),
        storage(count).into(),
        interference(count).into(),
    ];
    let runs = results.map(|results| Run::new(Default::default(), results, None));
    let names: Vec<&str> =
        runs.iter().flat_map(|run| run.results.parts()).map(|part| part.test().name).collect();
    assert_eq!(names, NAMES);
    runs.into()
}

/// The page of a run.
fn page(run: &Run) -> String {
    let all = run.results.interference.iter().flat_map(|result| &result.comparisons);
    let beside = all.map(|beside| roundtrip_analysis::interference::Explained { beside, sides: None });
    let analysed = Analysed { beside: beside.collect(), ..Analysed::bare(run) };
    let subject = html::Subject { label: "run".into(), analysed: &analysed, explained: &[], damage: vec![] };
    html::page(&[subject], None).unwrap()
}

#[test]
fn every_test_has_its_own_view() {
    assert_eq!(VIEWS.each_ref().map(|view| view.test), NAMES);
}

#[test]
fn every_test_is_shown_in_every_format_with_any_number_of_calls() {
    for count in COUNTS {
        for run in runs(count) {
            let analysed = Analysed::bare(&run);
            let name = run.results.parts().next().unwrap().test().name;
            let csv = crate::figures::whole_csv("run", &analysed);
            let of_p99: Vec<Vec<&str>> = csv
                .lines()
                .map(|line| line.split(',').collect::<Vec<_>>())
                .filter(|line| line.contains(&"p99"))
                .collect();
            assert_eq!(of_p99.is_empty(), count == 0, "{name}: {csv}");
            for line in of_p99 {
                let [.., value, _, _, samples] = line[..] else { panic!("{csv}") };
                assert_eq!((value.is_empty(), samples), (count < 100, &*count.to_string()), "{name}: {csv}");
            }
            let markdown = crate::figures::markdown("run", &analysed);
            let known = markdown.lines().filter(|line| line.contains("| p99 |"));
            assert!(
                known.clone().all(|line| line.contains("| p99 | - |") == (count < 100)),
                "{name}: {markdown}"
            );
            assert_eq!(known.count() > 0, count > 0, "{name}: {markdown}");
            let text = crate::run::text(&analysed, Look::PLAIN);
            assert!(text.contains("\n== "), "{name}: {text}");
            assert!(count >= 100 || !text.contains("p99 1"), "{name}: {text}");
            let short = crate::run::first_page(&analysed, Look::PLAIN);
            assert!(count >= 100 || !short.contains("p99 "), "{name}: {short}");
            let drawn = crate::histogram::page(&run, Look::PLAIN);
            assert_eq!(drawn.is_empty(), count == 0, "{name}: {drawn}");
            let page = page(&run);
            assert!(page.contains(&format!("<section id=\"{name}\">")), "{name}");
            assert!(count >= 100 || !page.contains("p99 1."), "{name}");
            let stored = roundtrip_stored::to_text(&run).unwrap();
            let tree: serde_json::Value = serde_json::from_str(&stored).unwrap();
            assert!(tree["results"][name].is_object(), "{name} is not the key in JSON");
            assert_eq!(roundtrip_stored::read_text::<Run>(stored.as_bytes()).unwrap(), run, "{name}");
        }
    }
}

#[test]
fn every_figure_of_every_test_can_be_gated_and_compared() {
    for count in COUNTS {
        for run in runs(count) {
            let name = run.results.parts().next().unwrap().test().name;
            let all = figures::of(&run.results, &[], &[]);
            let judged = |text: &str| Gate::parse(text, NAMES).unwrap().judge(&run, &all);
            let few = judged(&format!("p99.99[test={name}]>1ns"));
            let expected = match count {
                0 => matches!(few, Some(Violation::NoFigure)),
                1 | 20 => few == Some(Violation::TooFew(count)),
                _ => matches!(few, Some(Violation::Beyond { .. })),
            };
            assert!(expected, "{name}, {count} calls: {few:?}");
            assert_eq!(judged(&format!("max[test={name}]>1s")).is_some(), count == 0, "{name}");
            let side = || Side {
                runs: vec![Measured { path: "run".into(), date: None, figures: all.clone(), run: None }],
            };
            let found = compare(&side(), &side(), &Options::default());
            let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
            assert_eq!((names.contains(&"p50"), names.contains(&"p99")), (count > 1, count >= 100), "{name}");
        }
    }
}
