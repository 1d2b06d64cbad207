//! `cargo xtask disturb`: disturbs measurements from outside, and checks that the program reports
//! each disturbance. Must not know how a disturbance is noticed.
//!
//! Not a step of `cargo xtask test`, whose tests `partial` and `disturbed` do the same to fewer
//! commands: this command takes minutes, and needs root.

mod acts;
mod cells;
mod undisturbed;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::shell::{self, cargo, is_root, say, target_dir};
use cells::Cell;

const HELP: &str = "\
Usage: cargo xtask disturb [OPTIONS]

Kills, stops, freezes, moves and reschedules the processes of measurements, takes a CPU away, and changes the
settings of their recordings. Prints a table of what the program reported. Fails if it did not report a
disturbance. Needs root.

  --binary FILE    disturbs this binary instead of one that is built now
  --only WORD      only the cells whose command or disturbance contains this word
  --undisturbed N  instead runs each command N times without a disturbance and with --fail-on warnings, and fails if
                   fewer than 19 of 20 runs pass; needs a machine that does nothing else";

/// How long a command runs before it is disturbed. Java takes some seconds to start.
const BEFORE: Duration = Duration::from_secs(4);
const BEFORE_WITH_JAVA: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Asked {
    binary: Option<PathBuf>,
    only: String,
    undisturbed: Option<u32>,
}

/// Disturbs. The table goes to standard output, everything else to standard error.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = match shell::asked("disturb", HELP, arguments, parse) {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    let (checked, what) = match asked.undisturbed {
        Some(times) => (undisturbed(&asked, times), "commands passed too seldom"),
        None => (matrix(&asked), "disturbances were not reported"),
    };
    match checked {
        Ok(failed) => {
            if failed > 0 {
                say(&format!("disturb: {failed} {what}"));
            }
            ExitCode::from(u8::from(failed > 0))
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
            "--undisturbed" => asked.undisturbed = Some(value()?.parse().context("--undisturbed N")?),
            _ => bail!("unknown option '{option}'"),
        }
    }
    Ok(asked)
}

fn undisturbed(asked: &Asked, times: u32) -> Result<usize> {
    undisturbed::check(&binary(asked)?, times, &asked.only)
}

/// The binary to disturb.
fn binary(asked: &Asked) -> Result<PathBuf> {
    ensure!(is_root(), "needs root");
    match &asked.binary {
        Some(binary) => binary.canonicalize().with_context(|| format!("--binary {}", binary.display())),
        None => {
            cargo(&["build", "--release", "--package", "roundtrip"])?;
            Ok(target_dir().join("release/roundtrip"))
        }
    }
}

/// Prints the table. Returns the number of disturbances that were not reported.
fn matrix(asked: &Asked) -> Result<usize> {
    let binary = binary(asked)?;
    let mut out = std::io::stdout();
    writeln!(out, "| command | disturbance | reported | status |\n|---|---|---|---|")?;
    let mut unreported = 0;
    for cell in &cells::all() {
        let what = cell.what();
        if !format!("{} {what}", cell.command).contains(&asked.only) {
            continue;
        }
        say(&format!("{}: {what}", cell.command));
        let ended = match run(cell, &binary) {
            Ok(ended) => ended,
            Err(error) => {
                writeln!(out, "| `{}` | {what} | not possible here: {error:#} | |", cell.command)?;
                continue;
            }
        };
        let line = ended.reported(cell.says.as_deref());
        unreported += usize::from(line.is_none());
        let line = line.unwrap_or("**nothing**");
        writeln!(out, "| `{}` | {what} | {line} | {} |", cell.command, ended.status)?;
    }
    Ok(unreported)
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    /// Everything that it printed.
    said: String,
    /// Its exit status.
    status: String,
}

impl Ended {
    /// The last line that contains what must be reported; `None` if there is none. Without anything
    /// to report, nothing may be printed.
    fn reported(&self, says: Option<&str>) -> Option<&str> {
        match says {
            Some(part) => self.said.lines().rev().find(|line| line.contains(part)).map(str::trim),
            None => (self.said.trim().is_empty() && self.status != "0").then_some("prints nothing"),
        }
    }
}

/// Runs the command and disturbs it.
fn run(cell: &Cell, binary: &Path) -> Result<Ended> {
    // A command that nohup started would ignore SIGHUP.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(binary).args(cell.command.split(' ')).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    sleep(if cell.command.contains("java") { BEFORE_WITH_JAVA } else { BEFORE });
    let acted = match child.try_wait()? {
        Some(status) => Err(anyhow!("it had ended before, with {status}")),
        None => cell.act.on(&child, cell.victim),
    };
    if let Err(error) = acted {
        child.kill()?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        return Err(error.context(said));
    }
    let output = child.wait_with_output()?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let status = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
    Ok(Ended { said, status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = |words: &str| parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let asked = parsed("--binary x --only kill").unwrap();
        assert_eq!((asked.binary, asked.only.as_str()), (Some("x".into()), "kill"));
        assert_eq!(parsed("--undisturbed 20").unwrap().undisturbed, Some(20));
        assert!(parsed("--only").is_err() && parsed("--all").is_err() && parsed("--undisturbed x").is_err());
    }

    #[test]
    fn every_cell_has_its_own_row() {
        let cells = cells::all();
        let mut rows: Vec<_> = cells.iter().map(|cell| (cell.command, cell.what())).collect();
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), cells.len());
    }

    #[test]
    fn only_what_must_be_reported_counts() {
        let ended = |said: &str, status: &str| Ended { said: said.into(), status: status.into() };
        assert_eq!(ended("a b\nc\n", "0").reported(Some("b")), Some("a b"));
        assert_eq!(ended("a b\nc\n", "0").reported(Some("d")), None);
        assert_eq!(ended("", "a signal").reported(None), Some("prints nothing"));
        assert!(ended("x", "a signal").reported(None).is_none() && ended("", "0").reported(None).is_none());
    }
}
