//! `cargo xtask mutants`: makes small changes to the emulated driver, one at a time, and reports
//! those that no test of its crate detects. Knows what to change and which tests must detect it;
//! cargo-mutants makes the changes.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::shell::{asked, output, root, run, say, target_dir};

const HELP: &str = "\
Usage: cargo xtask mutants [OPTIONS]

Changes the emulated driver in small ways (an operator, a condition, a function's result), one at a time, in a copy of the
project, and runs the tests of its crate on each. Lists the changes that no test notices: each needs a test, or
makes no difference. Installs cargo-mutants. All of them, some 1800, take a day of one processor; a shard takes its share.

Options:
  --shard K/N  the K-th of N parts, from 0 (0/18); each part has changes of every file
  --file NAME  only this file of the emulated driver, as in node.rs
  --jobs N     this many at a time (1)
  --quick      runs only the unit tests, the conformance suite and the tests of priority inheritance, which take a quarter of the time";

/// After this time in the tests, a change counts as detected: it made something wait forever.
const TIMEOUT_S: &str = "300";

/// Stack size of a test thread, in bytes: unoptimised random sequences need more than the default.
const STACK: &str = "33554432";

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    shard: String,
    file: String,
    jobs: u32,
    quick: bool,
}

/// Runs the command with these arguments.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match asked("mutants", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match carry_out(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("mutants: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns true if every change was detected.
fn carry_out(asked: &Asked) -> Result<bool> {
    if output("cargo", &["mutants", "--version"]).is_none() {
        run(Command::new("cargo").args(["install", "--locked", "cargo-mutants"]))?;
    }
    let out = target_dir().join("mutants");
    std::fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    let status = Command::new("cargo")
        .args(words(asked))
        .arg("--output")
        .arg(&out)
        // Thousands of builds: building fast matters most.
        .envs([
            ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ("RUST_MIN_STACK", STACK),
        ])
        .current_dir(root())
        .status()
        .context("start cargo mutants")?;
    say(&format!("the changes and the outcome of each: {}/mutants.out", out.display()));
    // Documented exit codes: 2 if changes were missed, 3 if some only ran into the timeout.
    match status.code() {
        Some(0 | 3) => Ok(true),
        Some(2) => Ok(false),
        _ => bail!("cargo mutants ended with {status}"),
    }
}

/// The arguments of Cargo.
fn words(asked: &Asked) -> Vec<String> {
    let file = format!("crates/binder-emulator/src/{}", asked.file);
    let jobs = asked.jobs.to_string();
    let mut words = vec![
        "mutants",
        "--package",
        "roundtrip-binder-emulator",
        "--test-package",
        "roundtrip-binder-emulator,roundtrip-binder-conformance",
    ];
    words.extend(["--file", &file, "--shard", &asked.shard, "--sharding", "round-robin", "--jobs", &jobs]);
    words.extend(["--baseline", "skip", "--timeout", TIMEOUT_S]);
    if asked.quick {
        words.extend(["--", "--lib", "--test", "conformance", "--test", "inheritance"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked { shard: "0/18".into(), file: "**".into(), jobs: 1, quick: false };
    let mut left = arguments.iter();
    while let Some(word) = left.next() {
        let mut value = || left.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--shard" => asked.shard = value()?.clone(),
            "--file" => asked.file = value()?.clone(),
            "--jobs" => asked.jobs = value()?.parse().context("--jobs needs a number")?,
            "--quick" => asked.quick = true,
            other => bail!("unknown option {other}"),
        }
    }
    let parts =
        asked.shard.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if u32::lt(&part, &of) => {}
        _ => bail!("--shard needs a part and a number of parts, as in 0/18, not '{}'", asked.shard),
    }
    if asked.jobs == 0 {
        bail!("--jobs needs at least 1");
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Asked> {
        parse(&crate::shell::split(line))
    }

    #[test]
    fn a_part_a_file_and_the_tests_can_be_chosen() {
        let asked = parsed("--shard 3/40 --file node.rs --quick --jobs 2").expect("a good command");
        let line = words(&asked).join(" ");
        assert!(line.contains("--file crates/binder-emulator/src/node.rs --shard 3/40"), "{line}");
        assert!(
            line.ends_with(
                "--jobs 2 --baseline skip --timeout 300 -- --lib --test conformance --test inheritance"
            ),
            "{line}"
        );
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in ["--shard", "--shard 3", "--shard 3/3", "--shard a/b", "--jobs 0", "--jobs x", "--all"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
