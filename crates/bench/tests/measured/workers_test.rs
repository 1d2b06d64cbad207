//! Many workers from the outside: every caller makes all its calls, on both stacks and in every
//! topology, and a threshold counts calls correctly.

use roundtrip_bench::Error;
use roundtrip_bench::ipc::workers;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::ipc::workers::{Stage, Topology, WorkersPlan, WorkersResult};
use roundtrip_run::ipc::{DriverChoice, DriverPlan, Mode, Stack};

fn spawner() -> Spawner {
    Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))
}

fn run(plan: &WorkersPlan) -> WorkersResult {
    workers::run(plan, &spawner(), |_| Ok::<_, Error>(())).unwrap()
}

fn small() -> WorkersPlan {
    let driver = DriverPlan { choice: DriverChoice::Emulated, ..DriverPlan::default() };
    WorkersPlan { driver, workers: 4, iterations: 30, ..WorkersPlan::default() }
}

#[test]
fn every_caller_makes_its_calls_on_each_stack_in_every_topology() {
    for stack in Stack::ALL {
        for (topology, callers) in [
            (Topology::Everyone, vec![0, 1, 2, 3]),
            (Topology::Pairs, vec![2, 3]),
            (Topology::Services(2), vec![0, 1, 2, 3]),
        ] {
            let plan = WorkersPlan { stack, topology, size_bytes: 100, ..small() };
            let result = run(&plan);
            let numbers: Vec<u32> = result.callers.iter().map(|caller| caller.worker).collect();
            assert_eq!(numbers, callers, "{stack} {topology:?}");
            assert!(result.callers.iter().all(|caller| caller.latency.count() == 30));
            assert_eq!(result.latency.count(), 30 * callers.len() as u64);
            let rate = result.latency.count() as f64 / (result.wall_ns as f64 / 1e9);
            assert!((result.iterations_per_s / rate - 1.0).abs() < 1e-9);
            assert!(result.backend.is_some_and(|backend| backend.is_emulated()));
        }
    }
}

#[test]
fn calls_in_process_need_no_driver_and_no_server() {
    for topology in [Topology::Everyone, Topology::Pairs, Topology::Services(3)] {
        let result = run(&WorkersPlan { mode: Mode::Passthrough, topology, ..small() });
        assert_eq!(result.backend, None);
        assert_eq!(result.latency.count(), 30 * result.callers.len() as u64);
    }
}

#[test]
fn training_sets_the_threshold_to_twice_its_worst_call() {
    let mut stages = Vec::new();
    let plan = WorkersPlan { training: true, ..small() };
    let result = workers::run(&plan, &spawner(), |stage| {
        stages.push(stage);
        Ok::<_, Error>(())
    })
    .unwrap();
    let training = result.training.unwrap();
    let above = result.above.unwrap();
    assert_eq!(above.threshold_ns, 2 * training.worst_ns);
    assert_eq!(Some(above.worst_ns), result.latency.max_ns());
    // Not compared as a whole, because a difference would print every bucket of every histogram.
    let measured = stages.iter().position(|stage| matches!(stage, Stage::Measured(_))).expect("a result");
    assert!(matches!(stages.remove(measured), Stage::Measured(stored) if *stored == result));
    assert_eq!(measured, 6, "behind the collecting");
    assert_eq!(
        stages,
        [
            Stage::Made { workers: 4, backend: result.backend.clone() },
            Stage::Training,
            Stage::Trained { training, threshold_ns: above.threshold_ns },
            Stage::Waiting,
            Stage::Complete { iterations_per_s: result.iterations_per_s },
            Stage::Collecting,
            Stage::Killing,
        ]
    );
}

#[test]
fn every_call_is_above_a_threshold_of_nothing_and_none_above_an_hour() {
    let count = |threshold_ns| {
        run(&WorkersPlan { warn_above_ns: Some(threshold_ns), ..small() }).above.unwrap().count
    };
    assert_eq!(count(0), 120);
    assert_eq!(count(3_600_000_000_000), 0);
}

#[test]
fn the_result_survives_its_stored_form() {
    let result = run(&WorkersPlan { training: true, ..small() });
    let stored = serde_json::to_string(&result).unwrap();
    // Not assert_eq, which would print every bucket of every histogram.
    assert!(serde_json::from_str::<WorkersResult>(&stored).unwrap() == result);
}
