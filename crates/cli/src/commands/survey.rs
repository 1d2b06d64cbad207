//! `roundtrip survey`: the first command for a new user. It shows on one page what this machine can
//! do, and takes about half a minute.

use std::path::{Path, PathBuf};

use bench::place::Place;
use bench::survey;
use bench::worker::Spawner;
use latency::Deadline;
use report::run::Divided;
use run::ipc::DriverPlan;
use run::ipc::latency::LatencyPlan;
use run::ipc::throughput::ThroughputResult;
use run::survey::SurveyPlan;

use super::driver;
use super::finish::finish;
use super::gates::{self, Gated, Gates};
use super::output::{self, RunOutput};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, values};
use crate::terminal::{Exit, Terminal};
use report::inert;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    driver: DriverPlan,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<DriverPlan> for Typed {
    fn as_mut(&mut self) -> &mut DriverPlan {
        &mut self.driver
    }
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
    }
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = &["baseline", "throughput", "latency"];
    const REQUIRES: &'static [&'static str] = &["realtime"];
    const GATES: &'static str = "Exits with status 1 if the result is beyond a limit, as in 'p99>200us' or \
                                 'missed>0', or 'p99[caller=other]>1ms' for some figures only. inheritance: \
                                 if real-time priorities were not inherited. warnings: if the run has \
                                 warnings. An unknown name is refused, with a list of the known ones. \
                                 Repeatable.";

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["survey"],
    kind: Kind::Command,
    summary: "shows in half a minute what round trips take on this machine",
    description: "Measures, in turn: the baseline (round trips over futex, pipe and sockets, with both binder \
                  stacks), the throughput of binder and hwbinder at a few sizes, and latency against a \
                  deadline with a real-time and an ordinary caller. Prints a summary and stores the run; \
                  'roundtrip show' prints the details.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to measure",
            options: &[
                Opt::value(
                    &["--duration"],
                    "TIME",
                    "About how long the survey takes, as in 30s or 5m; at least 3s.",
                    |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
                )
                .default("30s"),
                Opt::value(
                    &["--deadline"],
                    "TIME",
                    "A call that takes longer counts as a miss, as in 2.5ms.",
                    |typed: &mut Typed, text| set(&mut typed.deadline_ns, values::duration_ns(text)),
                )
                .default("2.5ms"),
            ],
        },
        driver::group(),
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                output::format(
                    &["text", "json", "csv", "markdown"],
                    "The output format: json is the same as run.json in the run directory, csv and markdown \
                     have a line for each figure.",
                ),
                output::out("The run directory.").default("runs/survey-DATE-TIME"),
                output::force(),
                output::label(),
                output::histogram(),
                output::quiet(),
            ],
        },
    ],
    examples: &[
        ("roundtrip survey", "Shows what this machine can do."),
        (
            "roundtrip survey --duration 5m --out before",
            "Takes longer for steadier figures, and stores the run in 'before'.",
        ),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let default = SurveyPlan::default();
    let plan = SurveyPlan {
        budget_ns: typed.duration_ns.unwrap_or(default.budget_ns),
        driver: typed.driver.clone(),
        deadline: typed.deadline_ns.map_or(default.deadline, |ns| Deadline { ns }),
    };
    typed.gates.check_callers(&LatencyPlan::default().callers)?;
    // Create the directory first, so that a failure costs no time.
    let directory = typed.output.out.clone().unwrap_or_else(|| default_directory(&bench::environment::now()));
    let place = Place::prepare(&directory, typed.output.existing)?;
    let run = {
        let mut last = String::new();
        let mut line = typed.output.progress(terminal.err);
        typed.output.record(|environment| {
            let results = survey::run(&plan, &Spawner::default(), &mut |step| {
                if last != step.what {
                    last = step.what.to_owned();
                    line.note(&format!("measuring {last}"));
                }
                line.show(step);
            })?;
            let backend = |result: &ThroughputResult| {
                driver::in_full(result.backend.as_ref(), result.wake_up.as_deref())
            };
            environment.driver = results.throughput.as_ref().map(backend);
            Ok::<_, bench::Error>(results)
        })?
    };
    let shown = inert::measured(&run, typed.output.format.as_deref() == Some("json"))?;
    let exit = finish(&run, Some(place), &typed.output, terminal, |terminal| {
        let text = match typed.output.format.as_deref() {
            Some("json") => shown.to_json()?,
            Some("csv") => {
                let name = directory.to_string_lossy();
                report::figures::csv_header() + &report::figures::csv(&name, &shown, Divided::default())
            }
            Some("markdown") => report::figures::markdown("survey", &shown, Divided::default()),
            _ => {
                report::run::first_page(&shown, Divided::default(), terminal.look)
                    + &typed.output.histograms(&shown, terminal.look)
            }
        };
        Ok(terminal.out.write_all(text.as_bytes())?)
    })?;
    if !typed.output.quiet {
        writeln!(terminal.err, "details: roundtrip show {}", inert::line(&directory.to_string_lossy()))?;
    }
    Ok(typed.gates.judge(&run, Divided::default(), exit, terminal))
}

/// The default directory of runs.
const DEFAULT_DIRECTORY: &str = "runs";

/// The default run directory for this date, for example `runs/survey-20261121-204259`.
fn default_directory(date: &str) -> PathBuf {
    let digits: String =
        date.chars().take_while(|&c| c != '.' && c != 'Z').filter(char::is_ascii_digit).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    Path::new(DEFAULT_DIRECTORY).join(format!("survey-{day}-{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_directory_is_named_after_the_date() {
        assert_eq!(default_directory("2026-11-21T20:42:59Z"), PathBuf::from("runs/survey-20261121-204259"));
    }

    #[test]
    fn the_help_says_the_defaults() {
        let plan = SurveyPlan::default();
        assert_eq!(values::duration_ns("30s"), Ok(plan.budget_ns));
        assert_eq!(values::duration_ns("2.5ms"), Ok(plan.deadline.ns));
    }
}
