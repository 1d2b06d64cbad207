//! What tasks share: arguments, messages, and running other programs in the project's folder.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::outcome::Outcome;

/// Writes a line to standard error, where the steps' output goes, too.
pub(crate) fn say(line: &str) {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The words of a line that has no quotes.
pub(crate) fn split(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    output("id", &["-u"]).is_some_and(|id| id.trim() == "0")
}

/// Parses a task's arguments. If there is nothing to run, prints help or an error, and returns the
/// exit status.
pub(crate) fn asked<T>(
    task: &str,
    help: &str,
    arguments: &[String],
    parse: fn(&[String]) -> Result<T>,
) -> Result<T, ExitCode> {
    if matches!(arguments.first().map(String::as_str), Some("--help" | "-h")) {
        say(help);
        return Err(ExitCode::SUCCESS);
    }
    parse(arguments).map_err(|error| {
        say(&format!("cargo xtask {task}: {error:#}; see cargo xtask {task} --help"));
        ExitCode::from(2)
    })
}

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Where Cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The static binary for machines of this architecture, which `cargo xtask dist` builds.
pub(crate) fn static_binary(arch: &str) -> PathBuf {
    target_dir().join("dist").join(format!("roundtrip-{arch}"))
}

/// The folder of a tool that is installed only for the tests. pip replaces such a folder as a
/// whole.
pub(crate) fn tool_dir(package: &str) -> PathBuf {
    target_dir().join("tools").join(package)
}

/// The search path for programs, with the tests' own tools last.
fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::fs::read_dir(tool_dir("")).into_iter().flatten().flatten();
    let tools = tools.map(|tool| tool.path().join("bin"));
    std::env::join_paths(std::env::split_paths(&path).chain(tools)).unwrap_or(path)
}

/// Runs a program, and passes its output through.
pub(crate) fn run(command: &mut Command) -> Result<Outcome> {
    let line = words(command);
    say(&format!("$ {line}"));
    let status = command
        .current_dir(root())
        .env("PATH", path())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start '{line}'"))?;
    if !status.success() {
        bail!("'{line}' ended with {status}");
    }
    Ok(Outcome::Passed)
}

/// Runs a program and returns its standard output; `None` if it cannot be started or fails.
pub(crate) fn output(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).env("PATH", path()).stdin(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The outcome of a step that needs this program, if the program is missing: it was not run.
pub(crate) fn missing(program: &str, package: &str) -> Option<Outcome> {
    let why = || format!("{program} is not installed; install Debian's package {package}");
    output(program, &["--version"]).is_none().then(|| Outcome::NotRun(why()))
}

/// Runs Cargo, and passes its output through.
pub(crate) fn cargo(args: &[&str]) -> Result<Outcome> {
    run(cargo_command().args(args))
}

/// Runs the program that the next arguments name, and has it end when this process ends, in
/// whichever way.
pub(crate) fn bound() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).stdin(Stdio::null());
    command
}

/// A command that starts Cargo, the same one that runs this task.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn words(command: &Command) -> String {
    let words: Vec<_> =
        [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// The CPU time of all processes that this one has waited for (`cutime` and `cstime`, proc(5)).
pub(crate) fn children_cpu_s() -> Result<f64> {
    /// Ticks per second, which the kernel reports the same on all machines (USER_HZ).
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(") ").context("/proc/self/stat has no name")?;
    let ticks = |field: usize| fields.split(' ').nth(field - 3)?.parse::<f64>().ok();
    Ok((ticks(16).context("no cutime")? + ticks(17).context("no cstime")?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_child_counts_and_its_sleep_does_not() {
        let before = children_cpu_s().unwrap();
        let script = "sleep 0.5; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times";
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        let spent = children_cpu_s().unwrap() - before;
        // The shell's own time, as minutes and seconds of user and system time.
        let said = String::from_utf8(output.stdout).unwrap();
        let seconds = |text: &str| -> f64 {
            let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        };
        let own: f64 = said.lines().next().unwrap().split(' ').map(seconds).sum();
        assert!((spent - own).abs() < 0.1, "{spent} s, and the shell says {own} s");
    }
}
