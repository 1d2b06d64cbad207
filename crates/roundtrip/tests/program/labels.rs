//! `--label` and `--quiet` with every command that measures: what is stored, what each format
//! shows, and what standard error does not contain.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Every command that measures, with short runs.
const COMMANDS: [&str; 8] = [
    "survey --duration 3s --out survey",
    "ipc throughput --sizes 4 --iterations 20",
    "ipc latency --iterations 50",
    "ipc baseline --transports pipe --sizes 4 --rounds 1 --duration 50ms",
    "ipc workers --iterations 50 --training",
    "ipc traits --iterations 20",
    "storage layers --calls 2 --rounds 1 --sizes 4k --writers native --no-recorder",
    "storage interference --rounds 1 --duration 1ms --file-size 1M --conditions alone --no-recorder",
];

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-labels-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(args).current_dir(&self.0).stdin(Stdio::null()).output().unwrap()
    }

    /// The output of a command, which must succeed.
    fn printed(&self, line: &str, more: &[&str]) -> (String, String) {
        let output = self.run(&[&line.split(' ').collect::<Vec<_>>(), more].concat());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LABELS: [&str; 5] = ["--label", "build=1234", "--label", "board=rev B, hot", "--force"];

#[test]
fn every_measuring_command_shows_its_labels_in_text_json_and_csv() {
    let scratch = Scratch::new("shown");
    for line in COMMANDS {
        let (text, _) = scratch.printed(line, &LABELS);
        assert!(text.contains("\nlabels: board=rev B, hot, build=1234\n"), "{line}: {text}");
        let (json, _) = scratch.printed(line, &[&LABELS[..], &["--format", "json"]].concat());
        let run: Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({ "build": "1234", "board": "rev B, hot" });
        assert_eq!(run["labels"], expected, "{line}");
        if line.starts_with("survey") {
            continue;
        }
        let (csv, _) = scratch.printed(line, &[&LABELS[..], &["--format", "csv"]].concat());
        let mut lines = csv.lines();
        assert!(lines.next().unwrap().starts_with("run,date,emulated,labels,test,"), "{line}: {csv}");
        let labelled = |row: &str| row.contains(",\"board=rev B, hot;build=1234\",");
        assert!(lines.clone().count() > 0 && lines.all(labelled), "{csv}");
    }
}

#[test]
fn a_stored_run_keeps_its_labels_and_hostile_labels_are_escaped() {
    let scratch = Scratch::new("stored");
    scratch.printed("ipc workers --iterations 20 --out run", &LABELS);
    let (text, _) = scratch.printed("show run", &[]);
    assert!(text.contains("labels: board=rev B, hot, build=1234"), "{text}");
    let path = scratch.0.join("run/run.json");
    let stored = std::fs::read_to_string(&path).unwrap();
    let hostile = stored.replace("\"build\":\"1234\"", "\"\\u001b[2J\":\"\\u001b]0;pwn\\u0007\"");
    assert_ne!(stored, hostile);
    std::fs::write(&path, hostile).unwrap();
    let (text, _) = scratch.printed("show run", &[]);
    assert!(text.contains("labels: \\u001b[2J=\\u001b]0;pwn\\u0007, board=rev B, hot"), "{text}");
}

#[test]
fn an_invalid_label_is_rejected_before_anything_is_measured() {
    let scratch = Scratch::new("refused");
    let long = format!("key={}", "x".repeat(257));
    for (label, hint) in [
        ("build", "is not KEY=VALUE"),
        ("a b=1", "letters, digits"),
        ("key=\x07", "control characters"),
        (long.as_str(), "at most 256 are allowed"),
    ] {
        let output = scratch.run(&["ipc", "workers", "--iterations", "20", "--out", "run", "--label", label]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--label") && said.contains(hint) && said.lines().count() == 1, "{said}");
        assert!(!scratch.0.join("run").exists());
    }
}

#[test]
fn quiet_commands_print_only_their_result() {
    let scratch = Scratch::new("quiet");
    let mut loud = 0;
    for line in COMMANDS {
        let (_, said) = scratch.printed(line, &["--force"]);
        loud += usize::from(!said.is_empty());
        let (text, said) = scratch.printed(line, &["--force", "--quiet"]);
        assert!(!text.is_empty() && said.is_empty(), "{line}: {said}");
    }
    assert!(loud >= 3, "nothing was said anyway: no test");
    // Errors are still reported.
    let output = scratch.run(&["ipc", "workers", "--quiet", "--fail-on", "p50>1ns", "--iterations", "20"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("roundtrip: failed: p50>1ns"));
}
