//! Starts the program for tests, converts its output to text, and finds its workers and its guard.

use std::process::{Command, Output, Stdio};

/// The program with these arguments, separated by white space.
pub(crate) fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// The processes that a process has started, in the order of their start, without its guard; none
/// if it has ended. A process that has not executed its program yet is left out.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let forked = command_line(pid);
    let is = |line: Vec<u8>| line != forked && !line.ends_with(GUARD);
    all_children(pid).into_iter().filter(|&pid| is(command_line(pid))).collect()
}

/// The process that cleans up if this one is killed.
pub(crate) fn guard(pid: u32) -> Option<u32> {
    all_children(pid).into_iter().find(|&pid| command_line(pid).ends_with(GUARD))
}

const GUARD: &[u8] = b"\0__guard\0";

fn all_children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn command_line(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    text(&output.stderr)
}
