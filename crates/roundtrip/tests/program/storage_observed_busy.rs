//! `storage observe` on a machine without a free CPU. It is alone in its file, since observers
//! beside it would lose events.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::observed::{has, number, observe, observed, roundtrip};
use crate::support::storage::folder;
use rustix::process::{Pid, Signal, kill_process};

/// Keeps every CPU busy, twice over, for as long as it lives.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let hog = |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..cpus * 2).map(hog).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

#[test]
fn a_command_a_duration_and_a_signal_end_observing_in_time_even_if_no_cpu_is_free() {
    if !has(&[]) {
        return;
    }
    let directory = folder("observed-busy");
    let busy = Busy::begin();
    let begun = Instant::now();
    let command = observe(&directory, &[], "sleep 0.3");
    let elapsed_ns = number(&command["elapsed_ns"]);
    assert!((300_000_000..1_500_000_000).contains(&elapsed_ns), "{elapsed_ns} ns");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());

    let timed = observed(roundtrip(&directory).args(["--duration", "500ms"]));
    let elapsed_ns = number(&timed["elapsed_ns"]);
    assert!((500_000_000..1_500_000_000).contains(&elapsed_ns), "{elapsed_ns} ns");

    let mut observer = roundtrip(&directory);
    observer
        .args(["--buffer", "1M", "--duration", "1h", "--format", "json", "--quiet"])
        .stdout(Stdio::piped());
    let mut observer = observer.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    kill_process(Pid::from_raw(observer.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let begun = Instant::now();
    // Read as it is written: it has rows of everything that writes on this machine.
    std::io::copy(&mut observer.stdout.take().unwrap(), &mut std::io::sink()).unwrap();
    assert!(observer.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?} after Ctrl-C", begun.elapsed());
    drop(busy);
    std::fs::remove_dir_all(&directory).unwrap();
}
