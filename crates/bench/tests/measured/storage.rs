//! Storage writers from the outside: real files on a real file system, and a real Java if
//! installed.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use roundtrip_bench::clock::now_ns;
use roundtrip_bench::storage::{self, Block, Target, Writer, WriterJob};
use roundtrip_bench::worker::{Spawner, WorkerGroup};
use roundtrip_run::storage::{Api, Durability, Java, Position, StoragePlan};

fn group() -> WorkerGroup {
    WorkerGroup::new(Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))).unwrap()
}

/// A new path in the build directory, which is on a disk; /tmp may not be.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

fn job(api: Api, durability: Durability, position: Position) -> WriterJob {
    WriterJob { api, durability, position, scheduling: None, cpus: None, java: Java::default() }
}

const FILE_BYTES: u64 = 64 << 10;

/// Writes three blocks and checks the results.
fn check(job: &WriterJob, name: &str) {
    let path = path(name);
    let mut target = Target::create(&path).unwrap();
    target.fill(FILE_BYTES).unwrap();
    let mut group = group();
    let writer = Writer::start(&mut group, job, target.as_fd(), FILE_BYTES).unwrap();
    assert_eq!(writer.opened.runtime.is_some(), job.api.is_java());
    assert!(
        std::path::Path::new(&format!("/proc/{}/task/{}", writer.opened.pid, writer.opened.tid)).exists()
    );
    for size_bytes in [4096, 12_288, 5000] {
        let before = now_ns();
        let calls = writer.write(&mut group, Block { size_bytes, calls: 7, warm_up: 2 }).unwrap();
        assert_eq!(calls.len(), 7, "{job:?}");
        let times: Vec<u64> = calls.iter().flat_map(|call| [call.start_ns, call.end_ns]).collect();
        assert!(times.is_sorted(), "{job:?}: {times:?}");
        // Times converted from another clock may be off by the difference of two readings.
        assert!(before < times[0] + 10_000 && times[13] < now_ns() + 10_000, "{job:?}: {times:?}");
        let written = std::fs::read(&path).unwrap();
        let expected_bytes = match job.position {
            Position::Overwrite => FILE_BYTES,
            Position::Append => 9 * size_bytes,
        };
        assert_eq!(written.len() as u64, expected_bytes, "{job:?}");
        let pattern: Vec<u8> = (0..size_bytes).map(|at| (at * 31 + 7) as u8).collect();
        assert!(written.starts_with(&pattern), "{job:?}");
    }
    group.finish(Duration::from_secs(20)).unwrap();
    drop(target);
    assert!(!path.exists());
}

#[test]
fn the_native_writer_writes_in_every_way() {
    for durability in Durability::ALL {
        for position in Position::ALL {
            check(&job(Api::Native, durability, position), &format!("native-{durability}-{position}"));
        }
    }
}

#[test]
fn java_writes_in_every_way() {
    assert!(
        storage::java::exists(&Java::default()),
        "this test needs a JDK; on Debian: apt-get install default-jdk-headless"
    );
    for api in Api::ALL.into_iter().filter(|api| api.is_java()) {
        for durability in Durability::ALL {
            // One position per API, to start half as many virtual machines.
            let position =
                if durability == Durability::Fsync { Position::Append } else { Position::Overwrite };
            check(&job(api, durability, position), &format!("{api}-{durability}"));
        }
    }
}

#[test]
fn a_java_that_is_missing_or_does_not_work_is_said_in_one_line() {
    for (command, expected) in [
        (vec!["/no/such/java".to_owned()], "Java is not installed: '/no/such/java' was not found"),
        (vec!["false".to_owned()], "the Java program ended (exit status: 1)"),
        (vec!["echo".to_owned()], "a JDK"),
    ] {
        let target = Target::create(&path(&format!("no-java-{}", command[0].replace('/', "-")))).unwrap();
        let mut group = group();
        let mut job = job(Api::JavaFile, Durability::Dsync, Position::Overwrite);
        job.java = Java { command };
        let error = Writer::start(&mut group, &job, target.as_fd(), FILE_BYTES).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_write_that_fails_is_said_with_its_cure() {
    let target = Target::create(&path("limited")).unwrap();
    // Limits files to 8 KiB: writing fails in the middle of a block.
    let mut group = WorkerGroup::new(Spawner {
        exe: "/bin/sh".into(),
        args: [
            "-c",
            &format!("ulimit -f 16; trap '' XFSZ; exec {} __worker", env!("CARGO_BIN_EXE_bench-test-worker")),
        ]
        .map(Into::into)
        .into(),
    })
    .unwrap();
    let job = job(Api::Native, Durability::Dsync, Position::Append);
    let writer = Writer::start(&mut group, &job, target.as_fd(), 0).unwrap();
    let error =
        writer.write(&mut group, Block { size_bytes: 4096, calls: 10, warm_up: 0 }).unwrap_err().to_string();
    assert!(error.contains("cannot write 4096 bytes") && error.contains("(ulimit -f): raise it"), "{error}");
}

#[test]
fn a_measurement_has_every_call_and_leaves_no_file() {
    let file = path("measured");
    let plan = StoragePlan {
        file: file.clone(),
        file_bytes: 1 << 20,
        sizes_bytes: vec![4096, 65_536],
        apis: vec![Api::Native, Api::JavaFile],
        durabilities: vec![Durability::Dsync, Durability::Fdatasync],
        calls: 7,
        rounds: 2,
        warm_up: 1,
        java: Java { command: vec!["/no/such/java".into()] },
        ..StoragePlan::default()
    };
    let spawner = Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"));
    let mut steps = 0;
    let result = storage::run(&plan, &spawner, &mut |_| steps += 1).unwrap();
    assert_eq!((steps, result.writers.len(), result.series.len()), (9, 2, 4));
    for series in &result.series {
        let calls: Vec<usize> = series.blocks.iter().map(|block| block.calls.len()).collect();
        assert_eq!((calls, series.latency.count()), (vec![4, 3], 7));
    }
    assert_eq!(result.not_possible.len(), 1);
    assert!(
        result.not_possible[0].starts_with("java-file: Java is not installed"),
        "{:?}",
        result.not_possible
    );
    assert!(!result.path.file_system.is_empty());
    assert!(!file.exists());
    // Only Java is requested, and it is not installed.
    let plan = StoragePlan { apis: vec![Api::JavaFile], ..plan };
    let error = storage::run(&plan, &spawner, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("Java is not installed") && !file.exists(), "{error}");
}
