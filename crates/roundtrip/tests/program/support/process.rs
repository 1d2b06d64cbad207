//! Starts the program for tests, and converts its output to text. Also lists its workers.

use std::process::{Command, Output, Stdio};

/// The program with these arguments, separated by white space.
pub(crate) fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// The processes that a process has started, in the order of their start; none if it has ended.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    text(&output.stderr)
}
