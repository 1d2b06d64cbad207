//! The baseline from the outside: every transport carries its payloads, and unavailable ones are
//! reported.

use roundtrip_bench::baseline;
use roundtrip_bench::worker::Spawner;
use roundtrip_bench::{Progress, sched};
use roundtrip_run::CpuPlacement;
use roundtrip_run::baseline::{BaselinePlan, FUTEX};

fn spawner() -> Spawner {
    Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))
}

#[test]
fn every_transport_echoes_every_size_in_every_placement() {
    // Odd sizes, a page plus one byte, and more than a pipe or a socket accepts at once.
    let sizes_bytes = vec![1, 4097, 300_001];
    let transports: Vec<String> =
        roundtrip_run::baseline::TRANSPORTS.iter().map(|transport| transport.name.into()).collect();
    let plan = BaselinePlan {
        sizes_bytes: sizes_bytes.clone(),
        transports: transports.clone(),
        rounds: 2,
        budget_ns: 100_000_000,
        ..BaselinePlan::default()
    };
    let mut steps = Vec::new();
    let result =
        baseline::run(&plan, &spawner(), &mut |Progress { done, total, .. }| steps.push((done, total)))
            .unwrap();

    for transport in &transports {
        for &size in &sizes_bytes {
            for placement in CpuPlacement::ALL {
                let cell = result.cell(transport, size, placement);
                let excused = result.not_possible.iter().any(|entry| {
                    entry.transport.as_ref().is_none_or(|name| name == transport)
                        && entry.size_bytes.is_none_or(|excused| excused == size)
                        && entry.placement.is_none_or(|excused| excused == placement)
                });
                assert!(
                    cell.is_some() != excused,
                    "{transport}, {size} bytes, {placement}: {:?}",
                    result.not_possible
                );
                if let Some(cell) = cell {
                    assert_eq!(cell.round_medians_ns.len(), 2);
                    assert!(cell.latency.count() >= 2);
                    assert!(cell.against_futex.is_some());
                }
            }
        }
    }
    let (done, total) = steps[steps.len() - 1];
    assert_eq!((done, steps.len() as u64), (total, total + 1));
}

#[test]
fn the_result_survives_its_stored_form() {
    let plan = BaselinePlan {
        sizes_bytes: vec![8],
        placements: vec![CpuPlacement::Free],
        transports: vec!["pipe".into()],
        rounds: 3,
        budget_ns: 10_000_000,
        recorder: false,
    };
    let result = baseline::run(&plan, &spawner(), &mut |_| {}).unwrap();
    let names: Vec<_> = result.cells.iter().map(|cell| cell.transport.as_str()).collect();
    assert_eq!(names, [FUTEX, "pipe"], "the baseline is always measured");
    let stored = serde_json::to_string(&result).unwrap();
    // Not assert_eq, which would print every bucket of every histogram.
    assert!(serde_json::from_str::<roundtrip_run::baseline::BaselineResult>(&stored).unwrap() == result);
}

#[test]
fn with_one_cpu_the_split_is_not_possible_and_the_rest_runs() {
    // The workers inherit the affinity of this test's thread.
    let cpus = sched::allowed_cpus(0).unwrap();
    sched::set_allowed_cpus(0, &cpus[..1]).unwrap();
    let plan = BaselinePlan {
        sizes_bytes: vec![8],
        transports: vec![FUTEX.into(), "spin".into()],
        rounds: 1,
        budget_ns: 10_000_000,
        ..BaselinePlan::default()
    };
    let result = baseline::run(&plan, &spawner(), &mut |_| {}).unwrap();
    let measured: Vec<_> =
        result.cells.iter().map(|cell| (cell.transport.as_str(), cell.placement)).collect();
    assert_eq!(measured, [(FUTEX, CpuPlacement::Same), (FUTEX, CpuPlacement::Free)]);
    assert!(result.not_possible.iter().any(|entry| entry.placement == Some(CpuPlacement::Split)
        && entry.transport.is_none()
        && entry.reason.contains("two CPUs")));
    sched::set_allowed_cpus(0, &cpus).unwrap();
}
