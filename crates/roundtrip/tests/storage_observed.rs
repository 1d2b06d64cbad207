//! Other programs' synchronous writes: SQLite, PostgreSQL and fio, from packages, are observed;
//! what is counted equals what strace and fio count, the layers add up to the calls, and nothing of
//! a program changes. Each program writes to the disk that the build is on.

#[path = "support/storage.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use skips::{Need, skip};
use support::{Journalled, folder};

fn roundtrip(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "observe", "--buffer", "32M"]).current_dir(directory).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether what a test needs is here; says so if not.
fn has(programs: &[&'static str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "the kernel's trace needs root");
        return false;
    }
    for &program in programs {
        if Command::new(program).arg("--version").output().is_err() {
            skip(Need::Program(program), format!("no {program} here"));
            return false;
        }
    }
    true
}

/// What a run that observed this shell command says.
fn observe(directory: &Path, arguments: &[&str], shell: &str) -> Value {
    let mut command = roundtrip(directory);
    command.args(["--format", "json", "--quiet"]).args(arguments).args(["--", "sh", "-c", shell]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{shell}: {}", text(&output.stderr));
    // What the command prints comes first.
    let json = text(&output.stdout);
    let begin = json.find("{\"schema\"").or_else(|| json.find("{\n")).unwrap_or(0);
    let run: Value = serde_json::from_str(&json[begin..]).unwrap_or_else(|error| panic!("{error}: {json}"));
    run["results"]["observed_writes"].clone()
}

fn rows(observed: &Value) -> &Vec<Value> {
    observed["rows"].as_array().unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Every call is divided, each row's layers add up to its calls' time, and hardly anything is
/// unexplained but where the kernel left switches out. On a calm machine that is less than a
/// thousandth (docs/observing-writes.md); other tests write to the same disk here.
fn adds_up(observed: &Value) {
    let (unexplained_ns, all_ns) = unexplained(observed);
    let which = || {
        let of = |row: &Value| {
            format!("{} {} {}", row["call"], row["file"], row["divided"]["layers"]["unexplained"]["sum_ns"])
        };
        rows(observed).iter().map(of).collect::<Vec<_>>().join("\n")
    };
    assert!(unexplained_ns * 100 <= all_ns, "{unexplained_ns} of {all_ns} ns are unexplained:\n{}", which());
}

/// How much of all time is unexplained but where the kernel left switches out, in nanoseconds,
/// after a check that each row's layers add up to it.
fn unexplained(observed: &Value) -> (u64, u64) {
    let (mut all_ns, mut unexplained_ns) = (0, 0);
    for row in rows(observed) {
        let divided = &row["divided"];
        assert_eq!(divided["calls"], row["latency"]["count"], "{row}");
        assert_eq!(divided["sum_ns"], row["latency"]["sum_ns"], "{row}");
        let layers = divided["layers"].as_object().unwrap();
        let sum_ns: u64 = layers.values().map(|layer| number(&layer["sum_ns"])).sum();
        assert_eq!(sum_ns, number(&divided["sum_ns"]), "{row}");
        all_ns += sum_ns;
        let unexplained = layers.get("unexplained").map_or(0, |layer| number(&layer["sum_ns"]));
        unexplained_ns += unexplained - number(&divided["unexplained_for_switches_ns"]);
    }
    assert_eq!(number(&observed["unseen"]["lost_events"]), 0, "{}", observed["unseen"]);
    assert!(rows(observed).iter().all(|row| row["divided"]["lost_calls"] == 0));
    (unexplained_ns, all_ns)
}

/// How many calls there were, by system call.
fn counted(observed: &Value) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for row in rows(observed) {
        *counts.entry(row["call"].as_str().unwrap().to_owned()).or_default() +=
            number(&row["latency"]["count"]);
    }
    counts
}

/// How many calls strace saw that `which` accepts, by system call. Those that others interrupted in
/// its output are on two lines.
fn straced(file: &Path, which: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let log = std::fs::read_to_string(file).unwrap();
    let mut counts = BTreeMap::new();
    for line in log.lines().filter(|line| !line.contains(" resumed>") && which(line)) {
        let Some((name, _)) = line.split_once('(') else { continue };
        let name = name.rsplit(' ').next().unwrap();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

const SYNCS: &str = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs";

#[test]
fn what_sqlite_waits_for_is_counted_as_strace_does_and_adds_up() {
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
        // Its files can be looked up as long as they are open; an observer gives way on a busy
        // machine.
        script += ".shell sleep 2\n";
        std::fs::write(directory.join("script"), script).unwrap();
        let shell = format!("strace -f -o log -e {SYNCS} sqlite3 {journal}.db < script > /dev/null");
        let observed = observe(&directory, &[], &shell);
        adds_up(&observed);
        let counts = counted(&observed);
        assert_eq!(counts, straced(&directory.join("log"), |_| true));
        assert!(counts["fdatasync"] >= 60, "{counts:?}");
        // The journal is what is waited for, by its name or, where it was gone at once, by its
        // folder's.
        let files: Vec<&str> = rows(&observed).iter().map(|row| row["file"].as_str().unwrap()).collect();
        let place = directory.to_str().unwrap();
        assert!(files.iter().all(|file| file.starts_with(place)), "{files:?}");
        let named = |file: &&str| file.ends_with(&format!("{journal}.db{last}")) || file.ends_with("/?");
        assert!(files.iter().any(named), "{files:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_fio_counts_is_observed_by_every_way_to_write() {
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

    // Three writers, each with its own file, and an fsync behind each write.
    let (observed, jobs) = job("--ioengine=psync --fsync=1 --numjobs=3 --io_size=400k");
    adds_up(&observed);
    assert_eq!(counted(&observed)["fsync"], all(&jobs, "sync"));
    let threads: std::collections::BTreeSet<u64> =
        rows(&observed).iter().map(|row| number(&row["tid"])).collect();
    assert_eq!(threads.len(), 3);
    // fio's clock stands around the system call.
    let theirs_ns: f64 = jobs.iter().map(|job| job["sync"]["lat_ns"]["mean"].as_f64().unwrap() * 100.0).sum();
    let ours_ns: u64 = rows(&observed).iter().map(|row| number(&row["latency"]["sum_ns"])).sum();
    assert!(ours_ns as f64 <= theirs_ns * 1.02, "{ours_ns} {theirs_ns}");

    // The file says that each write is to be durable.
    let (observed, jobs) = job("--ioengine=pvsync --sync=dsync --overwrite=1 --io_size=800k");
    adds_up(&observed);
    let flagged = rows(&observed).iter().filter(|row| row["durable"] == "flag" && row["call"] == "pwritev");
    let flagged: u64 = flagged.map(|row| number(&row["latency"]["count"])).sum();
    assert_eq!(flagged, all(&jobs, "write"));

    // Only one call of many says it.
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

/// Where a package has put PostgreSQL's programs.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a server is set up, used in two ways and judged")]
fn what_postgresql_waits_for_changes_with_its_sync_method_and_is_counted() {
    if !has(&["strace"]) {
        return;
    }
    let Some(bin) = postgres() else {
        return skip(Need::Program("postgres"), "no PostgreSQL here");
    };
    // It refuses root, and another user may not enter the build's folder.
    let directory = std::env::temp_dir().join(format!("observed-postgres-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
    let place = directory.display();
    let own = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME={place} PGDATA={place}/data PATH={}:$PATH",
        bin.display()
    );
    let sh = |script: &str| -> Output {
        let output = Command::new("sh").args(["-c", script]).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
        output
    };
    let options = |method: &str| {
        format!(
            "-k {place} -c listen_addresses= -c wal_sync_method={method} -c autovacuum=off -c checkpoint_timeout=1h"
        )
    };
    sh(&format!("{own} initdb -A trust --no-sync >/dev/null"));
    sh(&format!("{own} pg_ctl -w -l {place}/log -o '{}' start >/dev/null", options("fdatasync")));
    sh(&format!("{own} createdb -h {place} bench && {own} pgbench -h {place} -i -q bench 2>/dev/null"));
    sh(&format!("{own} pg_ctl -w -m fast stop >/dev/null"));
    for (method, call, durable) in [("fdatasync", "fdatasync", "call"), ("open_datasync", "pwrite64", "flag")]
    {
        // The server is started under strace, so that strace sees each of its processes.
        let server = format!(
            "strace -f -y -o {place}/trace -e {SYNCS},pwrite64,pwritev {own} postgres {}",
            options(method)
        );
        let shell = format!(
            "cd {place}; {server} >{place}/log 2>&1 & \
             for i in $(seq 200); do {own} pg_isready -q -h {place} && break; sleep 0.1; done; \
             {own} pgbench -h {place} -c 3 -T 1 bench >/dev/null 2>&1; \
             {own} pg_ctl -w -m fast stop >/dev/null; wait"
        );
        let observed = observe(&directory, &[], &shell);
        adds_up(&observed);
        let counts = counted(&observed);
        let trace = directory.join("trace");
        let syncs = straced(&trace, |line| !line.contains(" pwrite"));
        for (name, count) in &syncs {
            assert_eq!(counts.get(name), Some(count), "{method}, {name}: {counts:?}, {syncs:?}");
        }
        let of_wal = |row: &&Value| {
            let is = |key: &str, value: &str| row[key] == value;
            is("call", call) && is("durable", durable) && row["file"].as_str().unwrap().contains("pg_wal/")
        };
        let waited: u64 =
            rows(&observed).iter().filter(of_wal).map(|row| number(&row["latency"]["count"])).sum();
        assert!(waited >= 40, "{method}: {waited} of {observed}");
        if durable == "flag" {
            let traced = straced(&trace, |line| line.contains(" pwrite64(") && line.contains("pg_wal/"));
            assert_eq!(waited, traced["pwrite64"], "{method}");
        }
        let name = rows(&observed).iter().filter(of_wal).map(|row| row["process"]["name"].as_str().unwrap());
        assert!(name.into_iter().all(|name| name == "postgres"));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Appends to a file of its own, and makes each write durable.
const APPENDER: &str = "import os,sys\nf=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT,0o600)\n\
                        for i in range(int(sys.argv[2])):\n os.write(f,b'x'*8192); os.fsync(f)\n";

#[test]
fn a_wait_for_a_commit_that_another_has_begun_is_told_with_whose_it_was() {
    if !has(&["python3"]) {
        return;
    }
    let Some(journalled) = Journalled::mount_as_root("observed-commits") else { return };
    let directory = &journalled.mount;
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let shell = "for who in one two three four; do python3 append.py $who 150 & done; wait";
    let observed = observe(directory, &[], shell);
    // Through a loop device, whose worker has others' writes between two of a call's, as events
    // tell.
    let (unexplained_ns, all_ns) = unexplained(&observed);
    assert!(unexplained_ns * 10 <= all_ns, "{unexplained_ns} of {all_ns} ns are unexplained");
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
    // Four that append to one journal all the time wait for each other's commits.
    assert!(of_others.count() >= 4, "{waits:?}");
    assert!(waits.iter().all(|(own, other)| number(&other["tid"]) != *own), "{waits:?}");
}

#[test]
fn a_killed_observer_leaves_the_program_alone_and_the_next_cleans_up() {
    if !has(&["python3"]) {
        return;
    }
    let directory = folder("observed-killed");
    std::fs::write(directory.join("append.py"), APPENDER).unwrap();
    let mut program = Command::new("python3")
        .args(["append.py", "file", "100000"])
        .current_dir(&directory)
        .spawn()
        .unwrap();
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
        [("missed[call=fsync]>0", 1), ("failed>0", 0), ("device.mean<1ns", 0), ("p99[call=msync]>1s", 1)]
    {
        let output = ours(&format!("show --short --fail-on {gate} run"));
        assert_eq!(output.status.code(), Some(status), "{gate}: {}", text(&output.stderr));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_cannot_be_observed_is_one_line() {
    let directory = folder("observed-wrong");
    for (line, hint) in [
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
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(&directory).unwrap();
}
