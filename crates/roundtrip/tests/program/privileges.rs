//! Workers of root keep only the capabilities that their job needs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use roundtrip_skips::{Need, skip};

/// CAP_SYS_NICE and CAP_IPC_LOCK, which all workers keep.
const USUAL: u64 = 1 << 23 | 1 << 14;

/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_SYS_RESOURCE.
const IN_USERS_FOLDERS: u64 = USUAL | 1 << 1 | 1 << 2 | 1 << 24;

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that this one started.
fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// The effective, permitted and bounding sets of capabilities of each thread of a process.
fn capabilities(pid: u32) -> Vec<[u64; 3]> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |status: String| {
        let line =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        ["CapEff:", "CapPrm:", "CapBnd:"].map(|name| u64::from_str_radix(&line(name), 16).unwrap())
    };
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).map(of).collect()
}

/// Runs a command, and waits until it has a worker whose name begins with each of `names`. No
/// thread of these workers may have a capability besides those that are kept.
fn keeps(line: &str, names: &[&str], kept: u64) {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "other users have no capabilities to drop");
    }
    let folder = std::env::temp_dir().join(format!("roundtrip-privileges-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(line.split(' ')).current_dir(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    let begin = Instant::now();
    let mut left = names.to_vec();
    while !left.is_empty() {
        let workers = children(running.0.id()).into_iter().filter_map(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some((name.trim().to_owned(), capabilities(pid)))
        });
        let workers: Vec<_> = workers.collect();
        // A worker gets its name when it receives its job.
        left.retain(|name| {
            !workers.iter().any(|(worker, threads)| {
                worker.starts_with(*name)
                    && !threads.is_empty()
                    && threads.iter().all(|sets| sets.iter().all(|set| set & !kept == 0))
            })
        });
        assert!(begin.elapsed() < Duration::from_secs(60), "{left:?} of {workers:x?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(running);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn servers_and_clients_keep_only_what_priorities_and_locked_memory_need() {
    keeps("ipc latency --driver emulated --stack binder --duration 10m", &["server", "manager"], USUAL);
    keeps("ipc throughput --driver emulated --min-time 10m", &["server", "client"], USUAL);
}

#[test]
fn writers_keep_what_they_need_in_other_users_folders() {
    keeps("storage layers --no-recorder --file f --calls 1000000", &["writer"], IN_USERS_FOLDERS);
}
