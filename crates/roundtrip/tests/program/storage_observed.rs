//! Observes the synchronous writes of other programs: SQLite and fio, from packages. The counts
//! equal those of strace and fio, the layers add up to the calls, and the programs are not
//! affected. Each program writes to the disk of the build directory.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::observed::{
    APPENDER, SYNCS, adds_up, appending, counted, has, number, observe, roundtrip, rows, straced, text,
};
use crate::support::storage::{Journalled, folder};
use serde_json::Value;

#[test]
fn sqlites_waits_equal_straces_counts_and_add_up() {
    if !has(&["sqlite3", "strace"]) {
        return;
    }
    let directory = folder("observed-sqlite");
    for (journal, last) in [("WAL", "-wal"), ("DELETE", "-journal")] {
        let mut script = format!(
            "PRAGMA journal_mode={journal};\nPRAGMA synchronous=FULL;\nCREATE TABLE t(a INTEGER, b TEXT);\n"
        );
        for row in 0..60 {
            script += &format!("INSERT INTO t VALUES({row}, hex(randomblob(200)));\n");
        }
        // File names can be looked up only while the files are open. On a busy machine, an observer
        // may be too late.
        script += ".shell sleep 2\n";
        std::fs::write(directory.join("script"), script).unwrap();
        let shell = format!("strace -f -o log -e {SYNCS} sqlite3 {journal}.db < script > /dev/null");
        let observed = observe(&directory, &[], &shell);
        adds_up(&observed);
        let counts = counted(&observed);
        assert_eq!(counts, straced(&directory.join("log"), |_| true));
        assert!(counts["fdatasync"] >= 60, "{counts:?}");
        // SQLite waits for its journal, which is shown by its name or, if it was removed too soon,
        // by the name of its folder.
        let files: Vec<&str> = rows(&observed).iter().map(|row| row["file"].as_str().unwrap()).collect();
        let place = directory.to_str().unwrap();
        assert!(files.iter().all(|file| file.starts_with(place)), "{files:?}");
        let named = |file: &&str| file.ends_with(&format!("{journal}.db{last}")) || file.ends_with("/?");
        assert!(files.iter().any(named), "{files:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn fios_counts_are_observed_with_every_engine() {
    if !has(&["fio"]) {
        return;
    }
    let directory = folder("observed-fio");
    let job = |arguments: &str| {
        let shell = format!(
            "fio --name=job --directory=. --size=4M --bs=4k --rw=write --output-format=json --output=fio.json {arguments}"
        );
        let observed = observe(&directory, &[], &shell);
        let fio: Value = serde_json::from_slice(&std::fs::read(directory.join("fio.json")).unwrap()).unwrap();
        (observed, fio["jobs"].as_array().unwrap().clone())
    };
    let all =
        |jobs: &[Value], what: &str| -> u64 { jobs.iter().map(|job| number(&job[what]["total_ios"])).sum() };

    // Three writers, each with its own file, and an fsync after each write.
    let (observed, jobs) = job("--ioengine=psync --fsync=1 --numjobs=3 --io_size=400k");
    adds_up(&observed);
    assert_eq!(counted(&observed)["fsync"], all(&jobs, "sync"));
    let threads: std::collections::BTreeSet<u64> =
        rows(&observed).iter().map(|row| number(&row["tid"])).collect();
    assert_eq!(threads.len(), 3);
    // fio reads its clock before and after the system call.
    let theirs_ns: f64 = jobs.iter().map(|job| job["sync"]["lat_ns"]["mean"].as_f64().unwrap() * 100.0).sum();
    let ours_ns: u64 = rows(&observed).iter().map(|row| number(&row["latency"]["sum_ns"])).sum();
    assert!(ours_ns as f64 <= theirs_ns * 1.02, "{ours_ns} {theirs_ns}");

    // The file was opened so that each write is durable.
    let (observed, jobs) = job("--ioengine=pvsync --sync=dsync --overwrite=1 --io_size=800k");
    adds_up(&observed);
    let flagged = rows(&observed).iter().filter(|row| row["durable"] == "flag" && row["call"] == "pwritev");
    let flagged: u64 = flagged.map(|row| number(&row["latency"]["count"])).sum();
    assert_eq!(flagged, all(&jobs, "write"));

    // A ring of io_uring: the file system or the descriptor shows that the writes are durable.
    for flags in ["", "--direct=1 --iodepth=4", "--hipri=0 --registerfiles=1", "--sqthread_poll=1"] {
        let (observed, jobs) = job(&format!(
            "--ioengine=io_uring --sync=dsync --overwrite=1 --io_size=800k --iodepth=2 {flags}"
        ));
        let writes = rows(&observed).iter().filter(|row| row["call"] == "io_uring write");
        let writes: u64 = writes.map(|row| number(&row["latency"]["count"])).sum();
        assert_eq!(writes, all(&jobs, "write"), "{flags}: {observed}");
    }

    // Only one of many calls requests durability.
    let (observed, jobs) = job("--ioengine=io_uring --fsync=1 --io_size=800k");
    let syncs = rows(&observed).iter().filter(|row| row["call"] == "io_uring fsync");
    assert_eq!(
        syncs.map(|row| number(&row["latency"]["count"])).sum::<u64>(),
        all(&jobs, "sync"),
        "{observed}"
    );
    adds_up(&observed);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_wait_for_another_threads_commit_names_the_thread() {
    if !has(&["python3"]) {
        return;
    }
    let Some(journalled) = Journalled::mount_as_root("observed-commits") else { return };
    let directory = &journalled.mount;
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let shell = "for who in one two three four; do python3 append.py $who 150 & done; wait";
    let observed = observe(directory, &[], shell);
    adds_up(&observed);
    let threads: Vec<u64> = rows(&observed).iter().map(|row| number(&row["tid"])).collect();
    let waits: Vec<(u64, &Value)> = rows(&observed)
        .iter()
        .flat_map(|row| {
            let own = number(&row["tid"]);
            row["divided"]["others_commits"].as_array().unwrap().iter().map(move |other| (own, other))
        })
        .collect();
    let of_others = waits.iter().filter(|(own, other)| {
        let tid = number(&other["tid"]);
        tid != *own && threads.contains(&tid) && number(&other["waited_ns"]) > 0
    });
    // Four programs that append continuously to one journal wait for each other's commits.
    assert!(of_others.count() >= 4, "{waits:?}");
    assert!(waits.iter().all(|(own, other)| number(&other["tid"]) != *own), "{waits:?}");
}

#[test]
fn a_killed_observer_leaves_the_program_alone_and_the_next_cleans_up() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-killed");
    let mut program = appending(&directory);
    let pid = program.id().to_string();
    let mut observer =
        roundtrip(&directory).args(["--pid", &pid, "--out", "run"]).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    observer.kill().unwrap();
    observer.wait().unwrap();
    let written = || std::fs::metadata(directory.join("file")).unwrap().len();
    let before = written();
    let patience = Instant::now();
    while written() < before + 100 * 8192 {
        assert!(patience.elapsed() < Duration::from_secs(60), "the program no longer writes");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output =
        roundtrip(&directory).args(["--pid", &pid, "--duration", "500ms", "--out", "run"]).output().unwrap();
    let page = text(&output.stdout);
    assert!(output.status.success() && page.contains("fsync"), "{page}{}", text(&output.stderr));
    program.kill().unwrap();
    program.wait().unwrap();
    let left = std::fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_str().is_some_and(|name| name.contains("run"))).collect();
    assert_eq!(left, ["run"], "what the killed one left is gone");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_stored_run_is_shown_again_reported_compared_and_gated() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-stored");
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let ours = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(line.split(' ')).current_dir(&directory).output().unwrap()
    };
    let output = ours(
        "storage observe --deadline 1us --explain-limit 3 --quiet --out run -- python3 append.py file 50",
    );
    let page = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(page.lines().filter(|line| line.starts_with("slow: python3")).count(), 3, "{page}");
    let run: Value = serde_json::from_slice(&ours("show --format json run").stdout).unwrap();
    let result = &run["results"]["observed_writes"];
    let missed: u64 =
        result["rows"].as_array().unwrap().iter().map(|row| row["missed"].as_u64().unwrap()).sum();
    assert_eq!(result["causes"]["operations"], missed, "each slow write is classified: {}", result["causes"]);
    assert!(page.contains(&format!("{missed} writes were slow; ")), "{page}");
    let shown = text(&ours("show run").stdout);
    let slow = |page: &str| -> Vec<String> {
        page.lines().filter(|line| line.starts_with("slow: ")).map(str::to_owned).collect()
    };
    assert_eq!(slow(&shown), slow(&page), "the slow writes are divided again as they were");
    let html = ours("report run -o page.html");
    assert!(html.status.success(), "{}", text(&html.stderr));
    let mut document = String::new();
    std::fs::File::open(directory.join("page.html")).unwrap().read_to_string(&mut document).unwrap();
    assert!(document.contains("Observed writes") && document.contains("Where their time went"));
    let same = ours("compare run run");
    assert!(same.status.success() && text(&same.stdout).contains("fsync"), "{}", text(&same.stdout));
    for (gate, status) in
        [("missed[call=fsync]>0", 3), ("failed>0", 0), ("device.mean<1ns", 0), ("p99[call=msync]>1s", 3)]
    {
        let output = ours(&format!("show --short --fail-on {gate} run"));
        assert_eq!(output.status.code(), Some(status), "{gate}: {}", text(&output.stderr));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn invalid_options_give_a_one_line_error() {
    let directory = folder("observed-wrong");
    let (sent, tid) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        sent.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let _ = ends.recv();
    });
    let thread_of =
        (format!("--pid {}", tid.recv().unwrap()), format!("a thread of process {}", std::process::id()));
    for (line, hint) in [
        (thread_of.0.as_str(), thread_of.1.as_str()),
        ("--file /dev/null", "does not go to a disk"),
        ("--pid 4194304", "there is no such process"),
        ("--pid 1 --name init", "exclude each other"),
        ("--file nowhere", "no such file"),
        ("-- ./no-such-program", "no-such-program"),
    ] {
        let output = roundtrip(&directory).args(line.split(' ')).output().unwrap();
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.lines().count() == 1 && said.contains(hint),
            "{line}: {said}"
        );
    }
    drop(end);
    thread.join().unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(&directory).unwrap();
}
