//! `cargo xtask shuffle`: runs each test program by itself, all of its tests in one process and in
//! random order, twice in a row. Finds tests that depend on others, on what others left, or on a
//! first run. Knows no test.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::leftovers::Temporary;
use crate::programs::{self, Program};
use crate::shell::{self, root, say};
use crate::suite;

const HELP: &str = "\
Usage: cargo xtask shuffle [--seed N] [PROGRAM]

Runs each test program whose name contains PROGRAM by itself, one test after the other in random order, twice in a row,
and fails if a test fails or leaves files behind. A step of a release. Takes a quarter of an hour.

  --seed N  repeats the order of a failed run";

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    seed: Option<u64>,
    program: String,
}

pub(crate) fn command(arguments: &[String]) -> ExitCode {
    match shell::asked("shuffle", HELP, arguments, parse).map(|asked| run(&asked)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            say(&format!("shuffle: {error:#}"));
            ExitCode::FAILURE
        }
        Err(status) => status,
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (seed, program) = match words[..] {
        ["--seed"] => bail!("--seed takes a number"),
        ["--seed", seed, ref rest @ ..] => {
            let seed = seed.parse().with_context(|| format!("'{seed}' is not a whole number"))?;
            (Some(seed), rest)
        }
        ref rest => (None, rest),
    };
    match *program {
        [] => Ok(Asked { seed, program: String::new() }),
        [option, ..] if option.starts_with('-') => bail!("unknown option '{option}'"),
        [program] => Ok(Asked { seed, program: program.to_owned() }),
        _ => bail!("too many arguments"),
    }
}

fn run(asked: &Asked) -> Result<()> {
    suite::build()?;
    let programs = programs::built()?;
    let chosen: Vec<&Program> = programs.iter().filter(|one| one.id.contains(&asked.program)).collect();
    if chosen.is_empty() {
        bail!("no test program has '{}' in its name", asked.program);
    }
    let mut failed = Vec::new();
    for program in chosen {
        // Both runs have the same folder, so that the second finds what the first left.
        let temporary = Temporary::new()?;
        for run in ["first", "second"] {
            match once(program, asked.seed, &temporary) {
                Ok(summary) => say(&format!("{}, {run} run: {summary}", program.id)),
                Err(error) => {
                    say(&format!("{}, {run} run: {error:#}", program.id));
                    failed.push(program.id.clone());
                }
            }
        }
    }
    failed.dedup();
    if failed.is_empty() { Ok(()) } else { bail!("these fail: {}", failed.join(", ")) }
}

/// Runs all tests of a program, and returns the line with their number.
fn once(program: &Program, seed: Option<u64>, temporary: &Temporary) -> Result<String> {
    let mut command = Command::new(&program.path);
    // Some tests need all CPUs, so one runs at a time.
    command.args(["-Z", "unstable-options", "--test-threads", "1"]);
    match seed {
        Some(seed) => command.args(["--shuffle-seed", &seed.to_string()]),
        None => command.arg("--shuffle"),
    };
    let folder = root().join(&program.folder);
    let output = command
        .current_dir(&folder)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &folder)
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", program.path.display()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if !output.status.success() {
        bail!("it ended with {}:\n{said}", output.status);
    }
    temporary.check()?;
    let line = |start| said.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    Ok(line("test result: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_a_seed_can_be_chosen() {
        let parsed = |words: &str| parse(&shell::split(words));
        let asked = |seed, program: &str| Asked { seed, program: program.into() };
        assert_eq!(parsed("").unwrap(), asked(None, ""));
        assert_eq!(parsed("layers").unwrap(), asked(None, "layers"));
        assert_eq!(parsed("--seed 7 layers").unwrap(), asked(Some(7), "layers"));
        for words in ["--seed", "--seed x", "--long", "a b", "--seed 7 --long"] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }

    #[test]
    fn the_test_programs_of_this_compiler_run_in_random_order() {
        // A name that no test has, so that none runs.
        let words = ["-Z", "unstable-options", "--shuffle", "no such test"];
        let own = std::env::current_exe().unwrap();
        let output = Command::new(own).args(words).env("RUSTC_BOOTSTRAP", "1").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("shuffle seed: "), "{output:?}");
    }
}
