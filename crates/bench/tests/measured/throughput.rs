//! Throughput from the outside: every size is sent both ways over both stacks, and what is not
//! possible is reported.

use roundtrip_bench::ipc::throughput::{self, Session};
use roundtrip_bench::worker::Spawner;
use roundtrip_bench::{Error, Progress, sched};
use roundtrip_run::CpuPlacement;
use roundtrip_run::ipc::throughput::{Length, MAX_SIZE_BYTES, ThroughputPlan};
use roundtrip_run::ipc::{Mode, Stack};

fn spawner() -> Spawner {
    Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))
}

fn plan(sizes_bytes: &[usize], calls: u64) -> ThroughputPlan {
    ThroughputPlan {
        sizes_bytes: sizes_bytes.into(),
        length: Length::Iterations(calls),
        ..ThroughputPlan::default()
    }
}

#[test]
fn every_size_goes_both_ways_over_both_stacks() {
    // An unaligned size, the first that needs two bytes, and the largest.
    let plan = ThroughputPlan { latency_calls: 5, ..plan(&[1, 257, MAX_SIZE_BYTES], 7) };
    let mut steps = Vec::new();
    let result =
        throughput::run(&plan, &spawner(), &mut |Progress { done, total, .. }| steps.push((done, total)));
    let result = result.unwrap();

    let rows: Vec<_> = result.rows.iter().map(|row| (row.stack, row.size_bytes)).collect();
    let expected = Stack::ALL.map(|stack| plan.sizes_bytes.iter().map(move |&size| (stack, size)));
    assert!(rows.into_iter().eq(expected.into_iter().flatten()));
    for row in &result.rows {
        let [batch] = row.batches[..] else { panic!("one repetition, not {:?}", row.batches) };
        assert_eq!((batch.iterations, batch.one_way_bytes), (7, 7 * row.size_bytes as u64));
        assert!(batch.elapsed_ns > 0 && batch.cpu_ns > 0 && row.bytes_per_second() > Some(0.0));
        assert_eq!(row.latency.as_ref().unwrap().count(), 5);
        assert!(!row.client_cpus.is_empty() && !row.server_cpus.is_empty());
    }
    assert!(result.backend.as_ref().unwrap().is_emulated());
    assert_eq!(steps, (0..=6).map(|done| (done, 6)).collect::<Vec<_>>());

    let stored = serde_json::to_string(&result).unwrap();
    assert!(
        serde_json::from_str::<roundtrip_run::ipc::throughput::ThroughputResult>(&stored).unwrap() == result
    );
}

#[test]
fn passthrough_calls_need_no_driver_and_no_server() {
    let plan = ThroughputPlan {
        mode: Mode::Passthrough,
        stacks: vec![Stack::Hwbinder],
        latency_calls: 0,
        ..plan(&[4, 65536], 10)
    };
    let result = throughput::run(&plan, &spawner(), &mut |_| {}).unwrap();
    assert_eq!((result.backend, result.rows.len()), (None, 2));
    assert!(result.rows.iter().all(|row| row.server_cpus.is_empty() && row.latency.is_none()));
    assert_eq!(result.rows[1].batches[0].one_way_bytes, 655_360);
}

#[test]
fn repetitions_have_as_many_calls_as_the_first_one_needed() {
    for length in [Length::ElapsedNs(2_000_000), Length::CpuNs(1_000_000)] {
        let plan = ThroughputPlan {
            stacks: vec![Stack::Binder],
            length,
            repetitions: 3,
            latency_calls: 0,
            ..plan(&[4], 1)
        };
        let result = throughput::run(&plan, &spawner(), &mut |_| {}).unwrap();
        let batches = &result.rows[0].batches;
        assert_eq!(batches.len(), 3);
        assert!(batches.iter().all(|batch| batch.iterations == batches[0].iterations));
        let first = batches[0];
        match length {
            Length::ElapsedNs(least) => assert!(first.elapsed_ns >= least),
            Length::CpuNs(least) => assert!(first.cpu_ns >= least || first.elapsed_ns >= 5 * least),
            Length::Iterations(_) => {}
        }
    }
}

#[test]
fn interleaved_rows_are_complete_as_they_come_and_in_order_in_the_result() {
    let plan = ThroughputPlan { repetitions: 4, interleaved: true, latency_calls: 0, ..plan(&[4, 8, 16], 2) };
    let mut session = Session::open(&plan, &spawner()).unwrap();
    let mut as_they_come = Vec::new();
    while let Some(row) = session.next_row(&mut |_| {}).unwrap() {
        assert_eq!(row.batches.len(), 4);
        as_they_come.push((row.stack, row.size_bytes));
    }
    session.finish().unwrap();

    let result = throughput::run(&plan, &spawner(), &mut |_| {}).unwrap();
    let in_order: Vec<_> = result.rows.iter().map(|row| (row.stack, row.size_bytes)).collect();
    assert_ne!(as_they_come, in_order, "the order is random, and the same in each run");
    as_they_come.sort();
    assert_eq!(as_they_come, in_order);
}

#[test]
fn processes_run_where_the_plan_puts_them() {
    let usable = sched::allowed_cpus(0).unwrap();
    let last = vec![usable[usable.len() - 1]];
    let plan = ThroughputPlan {
        placement: CpuPlacement::Same,
        server_cpus: Some(last.clone()),
        latency_calls: 0,
        ..plan(&[4], 3)
    };
    let result = throughput::run(&plan, &spawner(), &mut |_| {}).unwrap();
    for row in &result.rows {
        assert_eq!((&row.client_cpus, &row.server_cpus), (&vec![usable[0]], &last));
    }
    let nowhere = ThroughputPlan { client_cpus: Some(vec![8000]), ..plan };
    assert!(throughput::run(&nowhere, &spawner(), &mut |_| {}).unwrap_err().to_string().contains("8000"));
}

#[test]
fn a_plan_that_cannot_be_carried_out_starts_nothing() {
    let error = Session::open(&plan(&[], 1), &Spawner::with_exe("/nonexistent")).unwrap_err();
    assert!(matches!(error, Error::Run(roundtrip_run::Error::Plan(_))), "{error}");
}

#[test]
fn a_dropped_session_leaves_no_process() {
    let path = format!("/proc/self/task/{}/children", sched::gettid());
    let children = || std::fs::read_to_string(&path).unwrap();
    let mut session = Session::open(&plan(&[4], 1), &spawner()).unwrap();
    session.next_row(&mut |_| {}).unwrap();
    assert_eq!(children().split_whitespace().count(), 6, "manager, server and client for two stacks");
    drop(session);
    assert_eq!(children(), "");
}

#[test]
fn background_load_is_started_and_its_failure_ends_the_run() {
    let with = |load: &str| ThroughputPlan {
        mode: Mode::Passthrough,
        stacks: vec![Stack::Hwbinder],
        loads: vec![load.parse().unwrap()],
        ..plan(&[4], 10)
    };
    let result = throughput::run(&with("hogs=1"), &spawner(), &mut |_| {}).unwrap();
    assert_eq!((result.rows.len(), result.plan.loads[0].hogs), (1, 1));
    let error = throughput::run(&with("hogs=2,cpus=1000"), &spawner(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("hog "), "{error}");
}
