//! `storage observe` of programs with a name, from when it records until it is told to end. Must
//! not know what these programs are.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::shell::bound;

/// Where tracefs is usually mounted.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// How long it may take until it records, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an observer reported, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) calls: u64,
    pub(crate) lost_events: u64,
    /// Its CPU time, in seconds.
    pub(crate) cpu_s: f64,
    /// How long it observed, in seconds.
    pub(crate) elapsed_s: f64,
}

/// A running observer.
pub(crate) struct Observer(Child);

impl Observer {
    /// Starts it. When this returns, it records.
    pub(crate) fn start(binary: &Path, process: &str) -> Result<Self> {
        ensure!(!records(), "another program records through an instance of Roundtrip's");
        let mut command = bound();
        command.arg(binary).args(["storage", "observe", "--name", process, "--duration", "1h"]);
        command.args(["--format", "json", "--quiet"]).stdout(Stdio::piped());
        let child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        let mut observer = Self(child);
        let start = Instant::now();
        while !records() {
            if let Some(status) = observer.0.try_wait()? {
                bail!("{} ended with {status}", binary.display());
            }
            ensure!(start.elapsed() < PATIENCE, "no recording below {INSTANCES}; is tracefs mounted?");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(observer)
    }

    /// Ends it.
    pub(crate) fn stop(mut self) -> Result<Seen> {
        let pid = self.0.id();
        let counters = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
        Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status()?;
        let output = self.0.stdout.take().context("its output was taken")?;
        let json = std::io::read_to_string(output)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the observer ended with {status}");
        let run = serde_json::from_str(&json).context("the observer's JSON")?;
        Ok(Seen { cpu_s: cpu_s(&counters).unwrap_or(f64::NAN), ..seen(&run).context("the observer's JSON")? })
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // In vain if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether one of Roundtrip's instances records.
fn records() -> bool {
    let instances = std::fs::read_dir(INSTANCES).into_iter().flatten().flatten();
    let mut ours = instances.filter(|one| one.file_name().to_string_lossy().starts_with("roundtrip-"));
    ours.any(|one| std::fs::read_to_string(one.path().join("tracing_on")).is_ok_and(|on| on.trim() == "1"))
}

/// The time on a CPU, in seconds, of a process with one thread (`/proc/PID/schedstat`).
fn cpu_s(counters: &str) -> Option<f64> {
    let ns: u64 = counters.split_whitespace().next()?.parse().ok()?;
    Some(ns as f64 / 1e9)
}

fn seen(run: &Value) -> Option<Seen> {
    let observed = &run["results"]["observed_writes"];
    let calls = observed["rows"].as_array()?.iter().map(|row| row["latency"]["count"].as_u64());
    Some(Seen {
        calls: calls.sum::<Option<u64>>()?,
        lost_events: observed["unseen"]["lost_events"].as_u64()?,
        cpu_s: 0.0,
        elapsed_s: observed["elapsed_ns"].as_u64()? as f64 / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_losses_are_read_from_the_observers_json() {
        let json = r#"{"results": {"observed_writes": {"elapsed_ns": 2500000000, "unseen": {"lost_events": 7},
            "rows": [{"latency": {"count": 3}}, {"latency": {"count": 4}}]}}}"#;
        let expected = Seen { calls: 7, lost_events: 7, cpu_s: 0.0, elapsed_s: 2.5 };
        assert_eq!(seen(&serde_json::from_str(json).unwrap()), Some(expected));
        assert_eq!(seen(&serde_json::from_str(r#"{"results": {}}"#).unwrap()), None);
    }

    #[test]
    fn cpu_time_is_read_from_the_schedulers_counters() {
        assert_eq!(cpu_s("1500000000 77 12\n"), Some(1.5));
        assert_eq!(cpu_s(""), None);
    }
}
