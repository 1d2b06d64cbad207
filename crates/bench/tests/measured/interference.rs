//! Writes with background load from the outside: each load starts, works and ends, and leaves
//! nothing behind.

use std::path::PathBuf;

use roundtrip_bench::sched;
use roundtrip_bench::storage::interference;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::storage::interference::{Condition, InterferencePlan, Measured};
use roundtrip_run::storage::{Api, StoragePlan};

/// A new folder in the build directory, which is on a disk; /tmp may not be.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn plan(folder: &std::path::Path, conditions: &[Condition]) -> InterferencePlan {
    let default = InterferencePlan::default();
    InterferencePlan {
        write: StoragePlan {
            file: folder.join("written"),
            file_bytes: 1 << 20,
            sizes_bytes: vec![4096],
            warm_up: 1,
            ..default.write
        },
        conditions: conditions.to_vec(),
        rounds: 2,
        // The minimum number of rounds and calls.
        duration_ns: 1,
        memory_percent: 1,
        ..default
    }
}

fn spawner() -> Spawner {
    Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))
}

/// The processes that the calling test thread has started.
fn children() -> String {
    std::fs::read_to_string(format!("/proc/self/task/{}/children", sched::gettid())).unwrap()
}

#[test]
fn every_neighbour_is_there_beside_and_leaves_nothing() {
    let folder = folder("neighbours");
    let conditions = [
        Condition::HogSame,
        Condition::HogOther,
        Condition::HogAll,
        Condition::Timers,
        Condition::Network,
        Condition::Files,
        Condition::Fsync,
        Condition::Memory,
    ];
    // One condition at a time: besides the control, one condition is measured however short the
    // time is.
    let mut compared = Vec::new();
    for condition in conditions {
        match interference::run(&plan(&folder, &[condition]), &spawner(), &mut |_| ()) {
            Ok(result) => {
                assert_eq!(
                    (result.comparisons.len(), result.comparisons[0].condition),
                    (2, Condition::Alone)
                );
                compared.extend(result.comparisons);
            }
            // Some machines have only one CPU, or little memory. That is reported.
            Err(error) => assert!(error.to_string().starts_with(condition.name()), "{error}"),
        }
    }
    assert!(compared.len() > conditions.len(), "{}", compared.len());
    for beside in &compared {
        assert_eq!(beside.pairs.len(), 1, "{}", beside.condition);
        for pair in &beside.pairs {
            assert!(pair.alone.calls.len() >= 9 && pair.beside.calls.len() >= 9);
            assert_eq!((pair.alone.neighbour_count, pair.alone.neighbour_cpu_ns), (None, None));
            let counted = pair.beside.neighbour_count.is_some();
            assert_eq!(counted, beside.condition.counts().is_some(), "{}", beside.condition);
        }
        assert!(beside.response().is_some() && beside.compare(Measured::median_ns).is_some());
    }
    assert_eq!(children(), "");
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "the file and the neighbours' folders are gone"
    );
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn what_does_not_fit_into_the_time_is_left_out_and_said() {
    let folder = folder("short");
    let conditions = [Condition::HogSame, Condition::Timers, Condition::Files, Condition::Fsync];
    let result = interference::run(&plan(&folder, &conditions), &spawner(), &mut |_| ()).unwrap();
    let measured: Vec<_> = result.comparisons.iter().map(|one| (one.condition, one.pairs.len())).collect();
    assert_eq!(measured, [(Condition::Alone, 1), (Condition::HogSame, 1)]);
    for condition in &conditions[1..] {
        let said = format!("{condition}: left out: ");
        assert_eq!(result.not_possible.iter().filter(|reason| reason.starts_with(&said)).count(), 1);
    }
    assert!(result.notes.iter().any(|note| note.starts_with("only 1 of 2 rounds fit")), "{:?}", result.notes);
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn what_this_machine_cannot_do_is_an_error_only_when_nothing_is_left() {
    let folder = folder("impossible");
    // The writer may use every CPU, so there is no other one.
    let mut plan = plan(&folder, &[Condition::HogOther]);
    plan.write.cpus = Some(sched::allowed_cpus(0).unwrap());
    let error = interference::run(&plan, &spawner(), &mut |_| ()).unwrap_err().to_string();
    assert!(error.starts_with("hog-other: the writer may use every CPU") && !error.contains('\n'), "{error}");
    plan.conditions.push(Condition::HogSame);
    let result = interference::run(&plan, &spawner(), &mut |_| ()).unwrap();
    assert_eq!((result.comparisons.len(), result.not_possible.len()), (2, 1));
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn an_io_uring_writes_what_the_system_call_writes() {
    let folder = folder("uring");
    let mut plan = plan(&folder, &[Condition::Alone]);
    plan.write.apis = vec![Api::Uring];
    match interference::run(&plan, &spawner(), &mut |_| ()) {
        Ok(result) => assert_eq!(result.comparisons[0].pairs[0].beside.calls.len(), 9),
        // Kernels and containers without it, and file systems without direct I/O, report that.
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("set up an io_uring") || error.contains("cannot open"), "{error}");
        }
    }
    std::fs::remove_dir(&folder).unwrap();
}
