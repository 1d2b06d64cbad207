//! `roundtrip survey` and `roundtrip show` as processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn roundtrip(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roundtrip"))
        .args(args)
        .current_dir(directory)
        .output()
        .expect("the binary")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_survey_shows_one_page_and_leaves_a_run_that_can_be_shown_and_merged() {
    let scratch = Scratch::new("survey");
    for name in ["one", "two"] {
        let output = roundtrip(&scratch.0, &["survey", "--duration", "3s", "--out", name]);
        let (page, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{said}");
        for hint in [
            "emulated driver (ack profile)",
            "Baseline, and the ratio to its futex",
            "Throughput",
            "Latency against 2.50 ms",
            "hwbinder",
        ] {
            assert!(page.contains(hint), "no '{hint}' in:\n{page}");
        }
        for hint in ["measuring baseline", "measuring throughput", "measuring latency", "roundtrip show"] {
            assert!(said.contains(hint), "no '{hint}' in:\n{said}");
        }
    }
    let run: Value = serde_json::from_slice(&std::fs::read(scratch.0.join("one/run.json")).unwrap()).unwrap();
    assert_eq!((run["schema"].as_str(), run["version"].as_u64()), (Some("roundtrip.run"), Some(1)));
    for part in ["baseline", "throughput", "latency"] {
        assert!(run["results"][part].is_object(), "no {part}");
    }

    let shown = text(&roundtrip(&scratch.0, &["show", "one"]).stdout);
    for part in ["== Baseline ==", "== Throughput ==", "== Latency =="] {
        assert!(shown.contains(part), "no '{part}' in:\n{shown}");
    }
    let merged = roundtrip(&scratch.0, &["show", "--merge", "--format", "json", "one", "two"]);
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    let other: Value =
        serde_json::from_slice(&std::fs::read(scratch.0.join("two/run.json")).unwrap()).unwrap();
    let calls = |run: &Value| {
        let callers = &run["results"]["latency"]["series"][0]["pairs"][0]["callers"];
        callers[0]["deadline"]["count"].as_u64().expect("a count of calls")
    };
    assert_eq!(calls(&merged), calls(&run) + calls(&other));
}

#[test]
fn without_a_name_the_run_directory_is_named_after_the_time() {
    let scratch = Scratch::new("survey-name");
    let output = roundtrip(&scratch.0, &["survey", "--duration", "3s", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).expect("one JSON value on standard output");
    let runs: Vec<_> = std::fs::read_dir(scratch.0.join("runs")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    assert!(runs[0].as_ref().unwrap().file_name().to_string_lossy().starts_with("survey-2"));
}

#[test]
fn invalid_input_gives_one_line_with_the_fix() {
    let scratch = Scratch::new("show-wrong");
    std::fs::write(scratch.0.join("other.json"), "{}").unwrap();
    for (args, status, hint) in [
        (&["survey", "--duration", "1s"][..], 2, "at least 3s"),
        (&["survey", "--duration"], 2, "--duration"),
        (&["survey", "--driver", "magic"], 2, "emulated"),
        (&["show"], 2, "RUN"),
        (&["show", "nowhere"], 1, "nowhere"),
        (&["show", "other.json"], 1, "not a stored run"),
        (&["survey", "--duration", "3s", "--out", "other.json/below"], 1, "other.json"),
    ] {
        let output = roundtrip(&scratch.0, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("roundtrip: ") && last.contains(hint), "{args:?}: {said}");
    }
}
