//! Comparisons of runs: what became worse is reported, also by the exit status, and unsuitable
//! comparisons are rejected.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::process::text;
use serde_json::Value;

/// A temporary folder for the runs of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-compare-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn roundtrip(&self, args: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(args.split_whitespace()).current_dir(&self.0).stdin(Stdio::null()).output().unwrap()
    }

    /// Makes `count` runs in a folder.
    fn runs(&self, name: &str, count: usize, args: &str) {
        for number in 0..count {
            let made = self.roundtrip(&format!("{args} --out {name}/{number}"));
            assert!(made.status.success(), "{}", text(&made.stderr));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const LATENCY: &str = "ipc latency --driver emulated --stack binder --callers other --iterations 200";

#[test]
fn a_slower_call_is_worse_in_every_format_and_in_the_exit_status() {
    let folder = Folder::new("worse");
    folder.runs("base", 5, LATENCY);
    folder.runs("slow", 5, &format!("{LATENCY} --work 1ms"));

    // If the plans differ, the user must confirm the comparison.
    let refused = folder.roundtrip("compare base slow");
    let said = text(&refused.stderr);
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("plan of ipc latency") && said.contains("--anyway"), "{said}");

    let worse = folder.roundtrip("compare --anyway --figures p50 base slow");
    let said = text(&worse.stdout);
    // Without a limit, the comparison is not a failure.
    assert_eq!(worse.status.code(), Some(0), "{said}");
    assert!(
        said.starts_with("slow (5 runs) against base (5 runs): worse") && !said.contains("FAIL"),
        "{said}"
    );
    let sentence = said.lines().last().unwrap();
    assert!(
        sentence.starts_with("slow's median call takes ") && sentence.ends_with(" times as long as base's."),
        "{said}"
    );
    let named = folder.roundtrip("compare --anyway --figures p50 --name before --name after base slow");
    assert!(text(&named.stdout).contains("\nafter's median call takes "), "{}", text(&named.stdout));
    assert!(said.contains("Differs: plan of ipc latency"), "{said}");
    let better = folder.roundtrip("compare --anyway --figures p50 slow base");
    assert_eq!(better.status.code(), Some(0));
    let said = text(&better.stdout);
    assert!(said.starts_with("base (5 runs) against slow (5 runs): better"), "{said}");

    let json = folder.roundtrip("compare --anyway --figures p50 --format json base slow");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(figure["verdict"], "worse");
    // Dates have a precision of seconds, so runs of the same second count as alternating.
    assert!(matches!(figure["basis"].as_str(), Some("runs" | "runs_apart")), "{figure}");
    assert!(figure["low"].as_f64().unwrap() > 4.0, "{figure}");
    let junit = "compare --anyway --figures p50 --fail-on p50>+5% --format junit base slow";
    let junit = text(&folder.roundtrip(junit).stdout);
    assert!(junit.contains("tests=\"1\" failures=\"1\"") && junit.contains("<failure message="), "{junit}");
    let markdown =
        text(&folder.roundtrip("compare --anyway --figures p50 --format markdown base slow").stdout);
    assert!(markdown.contains("| p50 |") && markdown.contains("| worse |"), "{markdown}");

    // A limit above the difference passes, and one below it fails.
    for (limit, status) in [("p50>+900%", 3), ("mean>+5%", 3)] {
        let output = folder.roundtrip(&format!("compare --anyway --figures p50 --fail-on {limit} base slow"));
        assert_eq!(output.status.code(), Some(status), "{limit}: {}", text(&output.stdout));
    }
    let within = folder.roundtrip("compare --anyway --fail-on p50>+5% slow base");
    assert_eq!(within.status.code(), Some(0), "{}", text(&within.stdout));
}

#[test]
fn two_single_runs_cannot_show_a_small_difference() {
    let folder = Folder::new("single");
    folder.runs("runs", 2, LATENCY);
    let output = folder.roundtrip("compare --figures p50 --noise 900% runs/0 runs/1");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.lines().next().unwrap().ends_with("cannot tell") && said.contains("Few runs"), "{said}");
}

#[test]
fn runs_that_cannot_be_compared_give_a_one_line_error() {
    let folder = Folder::new("wrong");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let fixture = fixture.display();
    std::fs::write(folder.0.join("other.json"), "{\"hello\": 1}").unwrap();
    std::fs::write(folder.0.join("empty.json"), "{\"benchmarks\": []}").unwrap();
    for (args, status, hint) in [
        (format!("compare {fixture}"), 2, "BASE NEW..., or one directory"),
        (format!("compare {fixture} /nowhere"), 1, "/nowhere"),
        (format!("compare {fixture} other.json"), 1, "not a stored run"),
        (format!("compare {fixture} empty.json"), 2, "program"),
        (format!("compare --figures nonsense {fixture} {fixture}"), 2, "p99.99"),
        (format!("compare --figures device.mean {fixture} {fixture}"), 1, "--figures"),
        (format!("compare --name one {fixture} {fixture}"), 2, "two names"),
        (format!("compare --fail-on nonsense>+1% {fixture} {fixture}"), 2, "nonsense"),
        (format!("compare --fail-on p99 {fixture} {fixture}"), 2, "p99>+5%"),
        (format!("compare --margin no {fixture} {fixture}"), 2, "percentage"),
        (format!("compare --paired --base {fixture} {fixture} {fixture}"), 2, "pairs"),
    ] {
        let output = folder.roundtrip(&args);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{args}: {said}");
        assert!(said.contains(hint) && output.stdout.is_empty(), "{args}: {said}");
    }
}
