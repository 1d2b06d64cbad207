//! PostgreSQL, from its package, observed under `storage observe` with each of its ways to make the
//! log durable: what is counted equals what strace counts, and the layers add up to the calls.

#[path = "support/observed.rs"]
mod observed;

use std::path::PathBuf;
use std::process::{Command, Output};

use observed::{SYNCS, adds_up, counted, has, number, observe, rows, straced, text};
use serde_json::Value;
use skips::{Need, skip};

/// What PostgreSQL can be told to make its log durable with on Linux, the call that then waits, and
/// why it does.
const METHODS: [(&str, &str, &str); 4] = [
    ("fdatasync", "fdatasync", "call"),
    ("fsync", "fsync", "call"),
    ("open_datasync", "pwrite64", "flag"),
    ("open_sync", "pwrite64", "flag"),
];

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
    for (method, call, durable) in METHODS {
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
