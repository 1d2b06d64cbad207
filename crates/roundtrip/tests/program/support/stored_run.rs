//! A recorded run from the fixtures, modified like another user's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A copy of a recorded run, to be modified.
pub(crate) struct Run(pub(crate) PathBuf);

impl Run {
    pub(crate) fn new(name: &str) -> Self {
        Self::of("x86_64-6.1-binder", name)
    }

    pub(crate) fn of(fixture: &str, name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-hostile-{}-{name}", std::process::id()));
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(fixture);
        copy(&from, &path);
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.file(name), bytes).unwrap();
    }

    /// The fixture's writes with their recording, as a comparison with background load: the first
    /// half counts as made without it.
    pub(crate) fn interference(name: &str) -> Self {
        let run = Self::of("x86_64-6.1-ufs", name);
        run.change("run.json", |bytes| {
            let mut run: Value = serde_json::from_slice(bytes).unwrap();
            let storage = run["results"]["storage"].take();
            let block = &storage["series"][0]["blocks"][0];
            let calls = block["calls"].as_array().unwrap();
            let measured = |calls: &[Value]| {
                json!({
                    "calls": calls, "snapshot": block["snapshot"], "elapsed_ns": 10_000_000, "all_calls": calls.len(),
                    "run_delay_ns": 0, "lost_cpu": 0, "frequency_khz": null, "requests": null, "requests_ns": null,
                    "neighbour_count": null, "neighbour_cpu_ns": null,
                })
            };
            let (alone, beside) = calls.split_at(calls.len() / 2);
            let pair = json!({ "alone": measured(alone), "beside": measured(beside), "alone_first": true });
            let of = |condition: &str, what: &str| {
                json!({
                    "condition": condition, "what": what, "writer": 0, "writer_beside": 0, "size_bytes": 4096,
                    "pairs": [pair],
                })
            };
            run["results"] = json!({ "interference": {
                "plan": {
                    "write": storage["plan"], "conditions": ["alone", "hog-same"], "rounds": 1,
                    "duration_ns": 60_000_000_000_u64, "memory_percent": 20, "io_limit_bytes_per_s": 4 << 20,
                },
                "path": storage["path"], "clock_read_cost_ns": storage["clock_read_cost_ns"],
                "writers": storage["writers"], "writer_cpus": [0], "interrupt_cpu": 1,
                "comparisons": [of("alone", "nothing"), of("hog-same", "a CPU-bound process on CPU 0")],
                "recorder": storage["recorder"], "not_possible": ["memory: too little is free"], "notes": ["a note"],
            } });
            *bytes = run.to_string().into_bytes();
        });
        run
    }

    /// The pages of all CPUs in the first snapshot.
    pub(crate) fn pages(&self) -> Vec<String> {
        let folder = "recording/snapshots/0001";
        let names = std::fs::read_dir(self.file(folder)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".pages")).map(|name| format!("{folder}/{name}")).collect()
    }

    /// The output of a command for this run. It must not block or use much memory.
    pub(crate) fn roundtrip(&self, args: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_roundtrip")]);
        command.args(args.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The output fits into the pipes.
        let started = Instant::now();
        let hung = loop {
            if child.try_wait().unwrap().is_some() {
                break false;
            }
            if started.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                break true;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(!hung, "{args} hangs");
        child.wait_with_output().unwrap()
    }

    pub(crate) fn refused(&self, args: &str, hint: &str) {
        let output = self.roundtrip(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {said}");
        assert!(said.lines().count() == 1 && said.contains(hint), "{args}: {said}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
