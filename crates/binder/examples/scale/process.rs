//! Starts this program as a child process, reads its output lines, and ends it. If a child dies,
//! its output ends, which is reported as an error.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;

/// A child process. It exits when its standard input is closed.
pub(crate) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().ok_or("no pipe from the child")?);
        Ok(Self { process, input, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Reads the child's next line.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(format!("a child ended: {}", self.process.wait()?).into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Lets the child continue.
    pub(crate) fn go(&mut self) -> Result<()> {
        Ok(writeln!(self.input.as_mut().ok_or("a child was told to end")?, "go")?)
    }

    pub(crate) fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a child ended with {status}").into()) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process's proportional share of memory, in KiB: its own pages and its share of shared pages
/// (`Pss` in proc_pid_smaps_rollup(5)).
pub(crate) fn memory_kb(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let pss =
        text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse().ok());
    Ok(pss.ok_or_else(|| format!("{path} has no Pss"))?)
}
