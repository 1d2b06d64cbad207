//! `storage observe` of PostgreSQL, from its package, with each `wal_sync_method`: the counts equal
//! those of strace, and the layers add up to the calls.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::observed::{SYNCS, adds_up, counted, has, number, observe, rows, straced, text};
use roundtrip_skips::{Need, skip};
use serde_json::Value;

/// PostgreSQL's values of `wal_sync_method` on Linux, the call that then waits, and what makes that
/// call durable.
const METHODS: [(&str, &str, &str); 4] = [
    ("fdatasync", "fdatasync", "call"),
    ("fsync", "fsync", "call"),
    ("open_datasync", "pwrite64", "flag"),
    ("open_sync", "pwrite64", "flag"),
];

/// The directory in which a package has installed PostgreSQL's programs.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").exists())
}

/// A PostgreSQL server in a temporary directory, which belongs to the user that runs the server.
struct Server {
    directory: PathBuf,
    /// The command line that runs a program as that user, with PostgreSQL's programs in the path.
    own: String,
}

impl Server {
    /// Creates a database for pgbench. The server is not running afterwards.
    fn create(bin: &Path) -> Self {
        // PostgreSQL refuses root, and another user may not enter the build's directory.
        let directory = std::env::temp_dir().join(format!("observed-postgres-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
        let place = directory.display();
        let own = format!(
            "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME={place} PGDATA={place}/data PATH={}:$PATH",
            bin.display()
        );
        let server = Self { own, directory };
        let (own, place, options) = (&server.own, server.directory.display(), server.options("fdatasync"));
        server.sh(&format!("{own} initdb -A trust --no-sync >/dev/null"));
        server.sh(&format!("{own} pg_ctl -w -l {place}/log -o '{options}' start >/dev/null"));
        server.sh(&format!(
            "{own} createdb -h {place} bench && {own} pgbench -h {place} -i -q bench 2>/dev/null"
        ));
        server.sh(&format!("{own} pg_ctl -w -m fast stop >/dev/null"));
        server
    }

    fn sh(&self, script: &str) {
        let output = Command::new("sh").args(["-c", script]).current_dir(&self.directory).output().unwrap();
        assert!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
    }

    /// The options of a server that makes its log durable by `method`.
    fn options(&self, method: &str) -> String {
        format!(
            "-k {} -c listen_addresses= -c wal_sync_method={method} -c autovacuum=off -c checkpoint_timeout=1h",
            self.directory.display()
        )
    }

    /// A script that runs pgbench against a server under strace, which then sees every process of
    /// the server.
    fn bench(&self, method: &str) -> String {
        let (own, place, options) = (&self.own, self.directory.display(), self.options(method));
        let server =
            format!("strace -f -y -o {place}/trace -e {SYNCS},pwrite64,pwritev {own} postgres {options}");
        format!(
            "cd {place}; {server} >{place}/log 2>&1 & \
             for i in $(seq 200); do {own} pg_isready -q -h {place} && break; sleep 0.1; done; \
             {own} pgbench -h {place} -c 3 -T 1 bench >/dev/null 2>&1; \
             {own} pg_ctl -w -m fast stop >/dev/null; wait"
        )
    }
}

/// Compares an observation with strace's counts of the same server.
fn check(observed: &Value, trace: &Path, (method, call, durable): (&str, &str, &str)) {
    adds_up(observed);
    let counts = counted(observed);
    let syncs = straced(trace, |line| !line.contains(" pwrite"));
    for (name, count) in &syncs {
        assert_eq!(counts.get(name), Some(count), "{method}, {name}: {counts:?}, {syncs:?}");
    }
    let of_wal = |row: &&Value| {
        let is = |key: &str, value: &str| row[key] == value;
        is("call", call) && is("durable", durable) && row["file"].as_str().unwrap().contains("pg_wal/")
    };
    let waited: u64 = rows(observed).iter().filter(of_wal).map(|row| number(&row["latency"]["count"])).sum();
    assert!(waited >= 40, "{method}: {waited} of {observed}");
    if durable == "flag" {
        let traced = straced(trace, |line| line.contains(" pwrite64(") && line.contains("pg_wal/"));
        assert_eq!(waited, traced["pwrite64"], "{method}");
    }
    let name = rows(observed).iter().filter(of_wal).map(|row| row["process"]["name"].as_str().unwrap());
    assert!(name.into_iter().all(|name| name == "postgres"));
}

#[test]
fn postgresqls_waits_depend_on_its_sync_method_and_equal_straces_counts() {
    if !has(&["strace"]) {
        return;
    }
    let Some(bin) = postgres() else {
        return skip(Need::Program("postgres"), "no PostgreSQL here");
    };
    let server = Server::create(&bin);
    for method in METHODS {
        let observed = observe(&server.directory, &[], &server.bench(method.0));
        check(&observed, &server.directory.join("trace"), method);
    }
    std::fs::remove_dir_all(&server.directory).unwrap();
}
