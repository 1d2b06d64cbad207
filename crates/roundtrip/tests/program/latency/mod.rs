//! Android's latency programs and `roundtrip ipc latency` as processes: their output and errors. An
//! interrupted run leaves nothing behind.

mod android;
mod command;
mod ending;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use crate::support::process::stderr;
use serde_json::Value;

fn called(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg0(name).stdin(Stdio::null());
    command
}

fn latency(args: &str) -> Command {
    let mut command = called("roundtrip");
    command.args(["ipc", "latency"]).args(args.split_whitespace());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Standard output, which is one JSON value and nothing else.
fn json(output: &Output) -> Value {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The output of one of Android's latency programs. Its exit status must match the inheritance
/// verdict.
fn judged(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let failed = json(&output)["inheritance"] == "FAIL";
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", stderr(&output));
    output
}

/// Checks one "PN" or "ALL" whose calls are known.
fn check_block(block: &Value, iterations: u64, realtime: bool) {
    let calls = if realtime { 2 * iterations } else { iterations };
    let number = |name: &str| block[name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
    assert_eq!(block["I"], calls);
    assert!(number("S") <= number("I"));
    assert!((number("R") - number("S") / number("I")).abs() < 1e-5, "{block}");
    assert_eq!(block["SYNC"], if number("R") > 0.6 { "GOOD" } else { "POOR" });
    let kinds: &[_] = if realtime {
        &[("other_ms", "otherdis"), ("fifo_ms", "fifodis")]
    } else {
        &[("other_ms", "otherdis")]
    };
    for (times, distribution) in kinds {
        let time = |name: &str| block[*times][name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
        let percentile =
            |name: &str| block[*distribution][name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
        assert!(time("bst") > 0.0 && time("bst") <= time("avg") && time("avg") <= time("wst"), "{block}");
        assert!((time("meetR") - (1.0 - time("miss") / iterations as f64)).abs() < 1e-5, "{block}");
        let steps = ["p50", "p90", "p95", "p99"].map(percentile);
        assert!(steps.is_sorted() && steps[3] <= time("wst") * 1.001, "{block}");
    }
}
