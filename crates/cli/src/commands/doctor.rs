//! `roundtrip doctor`: which settings of this machine, or of a run's machine, lengthen round trips.
//! It only reads settings, and changes nothing but, on request, what killed runs left behind.

use std::path::PathBuf;

use roundtrip_analysis::doctor::{self, Finding, State};
use roundtrip_run::Run;

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::text::inert;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    run: Option<PathBuf>,
    format: Option<String>,
    fail_on: Vec<String>,
    cleanup: bool,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["doctor"],
    kind: Kind::Command,
    summary: "finds settings that lengthen round trips",
    description: "Looks at the settings of this machine that lengthen round trips: kernel debugging, CPU \
                  quota, frequencies, idle states, preemption, real-time limits, the disk and others. For \
                  each it shows what it found, why that matters, the source, and what to do, the most \
                  important first. It lists settings that it cannot read, with the reason. It changes \
                  nothing unless you pass --cleanup: the commands that it shows are for you to run.\n\n\
                  Every run stores the same settings. With RUN, the doctor judges the machine that made this \
                  run.",
    positionals: Some(Positionals {
        usage: "[RUN]",
        help: "A run directory, or its run.json file. Without it: this machine.",
        count: 0..=1,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| set(&mut typed.run, values::any(text)),
    }),
    groups: &[
        Group {
            heading: "Output",
            options: &[
                Opt::one_of(
                    &["--format"],
                    "FORMAT",
                    &["text", "json", "csv", "markdown"],
                    "The output format.",
                    |typed: &mut Typed, text| set(&mut typed.format, values::any(text)),
                )
                .default("text"),
                Opt::list_of(
                    &["--fail-on"],
                    "CHECKS",
                    CHECKS,
                    "Exits with status 3 if one of these checks, separated by commas, finds a setting that \
                 lengthens round trips or cannot determine it. 'all' fails on every setting that lengthens \
                 round trips, but not on undetermined ones. Repeatable.",
                    |typed: &mut Typed, text| {
                        typed.fail_on.extend(checks(text)?);
                        Ok(())
                    },
                ),
            ],
        },
        Group {
            heading: "Cleaning up",
            options: &[Opt::flag(
                &["--cleanup"],
                "First removes and restores what killed runs left behind: trace instances, control groups \
             and changed settings. Every command that measures does the same.",
                |typed: &mut Typed| typed.cleanup = true,
            )],
        },
    ],
    examples: &[
        ("roundtrip doctor", "Lists what to change on this machine before measuring."),
        ("roundtrip doctor --fail-on cpu-quota,lock-debugging", "Stops a script on an unsuitable machine."),
        ("roundtrip doctor monday", "Judges the machine that made the run in 'monday'."),
    ],
    run,
};

/// The values of `--fail-on`.
const CHECKS: &[&str] = &[
    "all",
    "lock-debugging",
    "kernel-debugging",
    "tracer",
    "build-type",
    "cpu-quota",
    "cpuset",
    "governor",
    "frequency-range",
    "thermal",
    "idle-states",
    "steal",
    "left-behind",
    "load",
    "framework",
    "framework-threads",
    "clock-source",
    "preemption",
    "asymmetric-cpus",
    "energy-aware",
    "hotplug",
    "smt",
    "rt-throttling",
    "rt-group",
    "fair-server",
    "realtime",
    "binder-device",
    "binder-locking",
    "binder-inheritance",
    "binder-features",
    "memory",
    "transparent-hugepages",
    "kernel-version",
    "tick",
    "timer-slack",
    "autogroup",
    "disk-scheduler",
    "disk-interrupts",
    "tracefs",
    "permissions",
];

/// Parses a comma-separated list of checks.
fn checks(text: &str) -> Result<Vec<String>, String> {
    let is_known = |name: &str| name == "all" || doctor::names().any(|known| known == name);
    match text.split(',').find(|name| !is_known(name)) {
        Some(name) => {
            let known: Vec<_> = doctor::names().collect();
            Err(format!("there is no check '{name}'; there are all, {}", known.join(", ")))
        }
        None => Ok(text.split(',').map(str::to_owned).collect()),
    }
}

/// Whether a finding makes the command fail.
fn fails(typed: &Typed, finding: &Finding) -> bool {
    let named = |name: &str| typed.fail_on.iter().any(|wanted| wanted == name);
    (named(finding.check) && finding.state != State::Good)
        || (named("all") && finding.state == State::Lengthens)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let json = typed.format.as_deref() == Some("json");
    if typed.cleanup {
        if typed.run.is_some() {
            return Err(usage!("--cleanup is about this machine: leave out RUN"));
        }
        for line in roundtrip_bench::left_behind::remove() {
            writeln!(terminal.err, "roundtrip doctor: {}", inert::line(&line))?;
        }
    }
    let environment = match &typed.run {
        None => {
            let mut environment = roundtrip_bench::environment::collect();
            roundtrip_bench::left_behind::note(&mut environment.facts);
            environment
        }
        Some(path) if json => Run::read(path)?.environment,
        Some(path) => Run::read_shown(path, inert::line)?.environment,
    };
    let findings = doctor::judge(&environment);
    let text = match typed.format.as_deref() {
        Some("json") => roundtrip_report::doctor::json(&environment, &findings)?,
        Some("csv") => roundtrip_report::doctor::csv(&findings),
        Some("markdown") => roundtrip_report::doctor::markdown(&environment, &findings),
        _ => roundtrip_report::doctor::text(&environment, &findings, terminal.look),
    };
    terminal.out.write_all(text.as_bytes())?;
    terminal.out.flush()?;
    let failed: Vec<_> =
        findings.iter().filter(|finding| fails(&typed, finding)).map(|one| one.check).collect();
    if failed.is_empty() {
        return Ok(Exit::OK);
    }
    let _ = writeln!(terminal.err, "roundtrip doctor: failed on {}", failed.join(", "));
    Ok(Exit::VIOLATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_completion_name_every_check() {
        let mut listed = CHECKS[1..].to_vec();
        let mut known: Vec<_> = doctor::names().collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!((CHECKS[0], listed), ("all", known));
    }
}
