//! `cargo xtask ipc-peers`: builds the program in `peers/ipc` and has it measure the emulated driver beside other means of IPC.
//! Passes its options on; what is measured and demanded is that program's business.
//!
//! Not a step of `cargo xtask test`: its 150 packages take minutes to build, and its figures a machine that does nothing else.

use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::shell::{root, run, say, target_dir};

/// Builds and runs. The report goes to standard output, everything else to standard error.
pub(crate) fn command(options: &[String]) -> ExitCode {
    let (subcommand, options): (&[&str], _) = match options {
        [first] if first == "--check" => (&["check"], &[][..]),
        options => (&["compare"], options),
    };
    let folder = target_dir().join("ipc-peers");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--package", "ipc-peers", "--manifest-path"]);
    build.arg(root().join("peers/Cargo.toml")).arg("--target-dir").arg(&folder);
    let mut program = Command::new(folder.join("release/ipc-peers"));
    let built =
        run(&mut build).context("it downloads packages; iceoryx2 needs libclang (Debian: libclang-dev)");
    match built.and_then(|_| run(program.args(subcommand).args(options))) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
