//! Signals at random moments, once and twice, as from users, terminals and timeout(1).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::attack::victim::{Victim, roundtrip};
use crate::attack::{Folder, rounds};

/// Commands that take about a second; some change settings meanwhile.
pub(crate) const COMMANDS: &[&str] = &[
    "ipc latency --driver emulated --duration 700ms",
    "ipc latency --driver emulated --duration 700ms --deadline 1us --explain --explain-limit 3 --out run",
    "ipc latency --driver emulated --duration 700ms --load hogs=1",
    "ipc throughput --driver emulated --sizes 4,64k --min-time 200ms --repetitions 2 --out run",
    "ipc baseline --duration 700ms --sizes 4",
    "ipc workers --driver emulated --workers 4 --iterations 20000",
    "ipc traits --driver emulated --iterations 100",
    "storage layers --writers native --sizes 4k --calls 200 --rounds 2 --file-size 1M --out run",
    "storage interference --conditions rq-affinity-0,rq-affinity-2,fsync --duration 700ms --rounds 1 --file-size 1M",
];

/// The kernel settings that some of these commands change.
fn settings() -> BTreeMap<PathBuf, String> {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let files = disks.flat_map(|disk| {
        ["rq_affinity", "io_poll", "io_poll_delay"].map(|name| disk.path().join("queue").join(name))
    });
    files.filter_map(|file| Some((file.clone(), std::fs::read_to_string(file).ok()?))).collect()
}

#[test]
fn a_signal_at_any_time_ends_a_command_and_leaves_nothing() {
    let before = settings();
    rounds(12, |random| {
        let args = *random.choice(COMMANDS).unwrap();
        let signal = random.choice([Signal::INT, Signal::TERM, Signal::HUP]).unwrap();
        let victim = Victim::start(roundtrip(args), Folder::new("signal"));
        let group = random.bool();
        std::thread::sleep(Duration::from_millis(random.u64(..1200)));
        victim.signal(signal, group);
        // timeout(1) signals its child and then the group. Users press Ctrl-C twice.
        let twice = random.bool();
        if twice {
            std::thread::sleep(Duration::from_micros(random.u64(..40_000)));
            victim.signal(signal, true);
        }
        let end = victim.end()?;
        let failed =
            |finding: String| format!("{signal:?}, to its group: {group}, twice: {twice}\n  {finding}");
        // Before the program handles signals, a signal kills it like any other program.
        end.is_sound(&[signal]).map_err(failed)?;
        // What was measured so far is kept, and the run's file is written last.
        let stored = end.files.iter().any(|file| file.ends_with("run/run.json"));
        let complete = |file: &PathBuf| file.starts_with("work/run") && stored;
        if end.files.iter().any(|file| !complete(file)) {
            return Err(failed(end.left()));
        }
        let after = settings();
        if after != before {
            return Err(failed(end.finding(&format!("settings are {after:?}, were {before:?}"))));
        }
        Ok(())
    });
}
