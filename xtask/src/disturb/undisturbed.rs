//! Undisturbed runs: how many of them pass when each warning fails them. Must not know what a
//! warning is about.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use roundtrip_skips::Quiet;

use crate::shell::say;

/// Commands that take some seconds each.
const COMMANDS: &[&str] = &[
    "survey --duration 12s",
    "ipc latency --duration 5s",
    "ipc latency --duration 5s --rate 200/s",
    "ipc latency --duration 5s --explain",
    "ipc throughput --repetitions 20 --min-time 20ms --sizes 4,4k",
    "ipc baseline --transports futex,pipe --sizes 4 --duration 5s",
    "ipc workers --workers 2 --iterations 100000",
    "ipc traits --iterations 1000",
    "storage layers --writers native --sizes 4k --calls 100 --rounds 20 --file-size 1M",
    "storage interference --conditions alone --duration 12s --file-size 1M",
    "storage observe --duration 5s",
    "storage syscalls --duration 5s",
];

/// Of 20 runs, as many must pass.
const MUST_PASS: u32 = 19;

/// A run is disturbed if the hypervisor takes more of the CPU time meanwhile. It warns from 5% on,
/// but the time of starting it counts here as well.
const MAX_STOLEN_SHARE: f64 = 0.04;

/// So many times as many runs are made if some are disturbed.
const MOST_TRIES: u32 = 3;

/// Runs each command `times` times, and prints a table. Returns the number of commands of which too
/// few runs passed. A run that fails while the hypervisor takes the CPUs is disturbed, and another
/// one takes its place.
pub(super) fn check(binary: &Path, times: u32, only: &str) -> Result<usize> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "| command | passed | disturbed by the hypervisor | what failed the others |\n|---|---|---|---|"
    )?;
    let mut too_few = 0;
    for command in COMMANDS.iter().filter(|command| command.contains(only)) {
        say(&format!("{command}, {times} times"));
        let (mut passed, mut counted, mut disturbed) = (0, 0, 0);
        let mut reasons = BTreeMap::<String, u32>::new();
        while counted < times && counted + disturbed < times * MOST_TRIES {
            let machine = Quiet::watch();
            let failed = run(binary, command)?;
            if failed.is_some() && machine.stolen_share() > MAX_STOLEN_SHARE {
                disturbed += 1;
                continue;
            }
            counted += 1;
            passed += u32::from(failed.is_none());
            failed.into_iter().flatten().for_each(|reason| *reasons.entry(reason).or_default() += 1);
        }
        too_few += usize::from(is_too_few(passed, times));
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let reasons: Vec<String> =
            reasons.into_iter().map(|(reason, count)| format!("{count}: {reason}")).collect();
        writeln!(out, "| `{command}` | {passed} of {counted} | {disturbed} | {} |", reasons.join("; "))?;
    }
    Ok(too_few)
}

fn is_too_few(passed: u32, times: u32) -> bool {
    u64::from(passed) * 20 < u64::from(times) * u64::from(MUST_PASS)
}

/// Runs a command once. Returns its warnings, or its last line, if it failed; `None` if it passed.
fn run(binary: &Path, command: &str) -> Result<Option<BTreeSet<String>>> {
    let mut program = Command::new(binary);
    program.args(command.split(' ')).args(["--fail-on", "warnings"]).stdin(Stdio::null());
    let output = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut reasons: BTreeSet<String> =
        said.lines().filter(|line| line.contains("warning: ")).map(reason).collect();
    if reasons.is_empty() {
        reasons.insert(said.lines().last().map_or_else(|| output.status.to_string(), reason));
    }
    Ok(Some(reasons))
}

/// A line without its figures, so that equal reasons are counted together.
fn reason(line: &str) -> String {
    let line = line.split_once("warning: ").map_or(line, |(_, rest)| rest);
    line.chars().map(|one| if one.is_ascii_digit() { 'N' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_twenty_may_fail() {
        assert!(!is_too_few(20, 20) && !is_too_few(19, 20) && is_too_few(18, 20));
        assert!(!is_too_few(1, 1) && is_too_few(4, 5) && !is_too_few(38, 40));
    }

    #[test]
    fn reasons_have_no_figures() {
        assert_eq!(reason("roundtrip: warning: 12 of 34 ms"), "NN of NN ms");
        assert_eq!(reason("error"), "error");
    }
}
