//! Starts the program for tests, and converts its output to text.

use std::process::{Command, Output, Stdio};

/// The program with these arguments, separated by white space.
pub(crate) fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    text(&output.stderr)
}
