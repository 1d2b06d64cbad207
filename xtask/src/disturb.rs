//! `cargo xtask disturb`: disturbs measurements from outside, and checks that the program reports
//! each disturbance. Must not know how a disturbance is noticed.
//!
//! Not a step of `cargo xtask test`, whose tests `partial` and `disturbed` do the same to fewer
//! commands: this command takes minutes, and needs root.

mod acts;
mod cells;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{self, cargo, is_root, say, target_dir};
use cells::{CELLS, Cell};

const HELP: &str = "\
Usage: cargo xtask disturb [OPTIONS]

Kills, stops, freezes, moves and reschedules the processes of measurements, takes a CPU away, and changes the
settings of their recordings. Prints a table of what the program reported. Fails if it did not report a
disturbance. Needs root.

  --binary FILE    disturbs this binary instead of one that is built now
  --only WORD      only the cells whose command or disturbance contains this word";

/// How long a command runs before it is disturbed.
const BEFORE: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
struct Asked {
    binary: Option<PathBuf>,
    only: String,
}

/// Disturbs. The table goes to standard output, everything else to standard error.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("disturb", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match matrix(&asked) {
        Ok(unreported) => {
            if unreported > 0 {
                say(&format!("disturb: {unreported} disturbances were not reported"));
            }
            ExitCode::from(u8::from(unreported > 0))
        }
        Err(error) => {
            say(&format!("disturb: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--binary" => asked.binary = Some(value()?.into()),
            "--only" => asked.only.clone_from(value()?),
            _ => bail!("unknown option '{option}'"),
        }
    }
    Ok(asked)
}

/// Prints the table. Returns the number of disturbances that were not reported.
fn matrix(asked: &Asked) -> Result<usize> {
    ensure!(is_root(), "needs root");
    let binary = match &asked.binary {
        Some(binary) => binary.canonicalize().with_context(|| format!("--binary {}", binary.display()))?,
        None => {
            cargo(&["build", "--release", "--package", "roundtrip"])?;
            target_dir().join("release/roundtrip")
        }
    };
    let mut out = std::io::stdout();
    writeln!(out, "| command | disturbance | reported | status |\n|---|---|---|---|")?;
    let mut unreported = 0;
    for cell in CELLS {
        let what = cell.what();
        if !format!("{} {what}", cell.command).contains(&asked.only) {
            continue;
        }
        say(&format!("{}: {what}", cell.command));
        let (said, status) = match run(cell, &binary) {
            Ok(result) => result,
            Err(error) => {
                writeln!(out, "| `{}` | {what} | not possible here: {error:#} | |", cell.command)?;
                continue;
            }
        };
        let line = said.lines().rev().find(|line| line.contains(cell.says));
        unreported += usize::from(line.is_none());
        let line = line.map_or("**nothing**", str::trim);
        writeln!(out, "| `{}` | {what} | {line} | {status} |", cell.command)?;
    }
    Ok(unreported)
}

/// Runs the command, disturbs it, and returns everything that it printed, and its exit status.
fn run(cell: &Cell, binary: &Path) -> Result<(String, String)> {
    let mut command = Command::new(binary);
    command.args(cell.command.split(' ')).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    sleep(BEFORE);
    if let Err(error) = cell.act.on(&child, cell.victim) {
        child.kill()?;
        child.wait()?;
        return Err(error);
    }
    let output = child.wait_with_output()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((said, output.status.code().map_or("a signal".to_owned(), |code| code.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = |words: &str| parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let asked = parsed("--binary x --only kill").unwrap();
        assert_eq!((asked.binary, asked.only.as_str()), (Some("x".into()), "kill"));
        assert!(parsed("--only").is_err() && parsed("--all").is_err());
    }

    #[test]
    fn every_cell_has_its_own_row() {
        let mut rows: Vec<_> = CELLS.iter().map(|cell| (cell.command, cell.what())).collect();
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), CELLS.len());
    }
}
