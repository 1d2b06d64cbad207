//! `roundtrip survey`: the first command for a new user. It shows on one page what this machine can
//! do, and takes about half a minute.

use std::path::{Path, PathBuf};

use roundtrip_bench::directory::place::Place;
use roundtrip_bench::survey;
use roundtrip_bench::worker::Spawner;
use roundtrip_latency::Deadline;
use roundtrip_run::ipc::latency::LatencyPlan;
use roundtrip_run::ipc::throughput::ThroughputResult;
use roundtrip_run::survey::SurveyPlan;

use super::driver;
use super::gates;
use super::measure::{Common, Measures};
use super::output::{self, Directory};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::text::inert;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["baseline", "throughput", "latency"];
    const REQUIRES: &'static [&'static str] = &["realtime"];
    const GATES: &'static str = gates::LATENCY;

    const FORMAT: Opt<Self> = output::format(
        &["text", "json", "csv", "markdown"],
        "The output format: json is the same as run.json in the run directory, csv and markdown have a line for each \
         figure.",
    );
    const OUT: Opt<Self> = output::out("The run directory.").default("runs/survey-DATE-TIME");

    fn common(&mut self) -> &mut Common {
        &mut self.common
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
        output::group(),
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
    let Common { output, gates, driver } = &typed.common;
    let default = SurveyPlan::default();
    let plan = SurveyPlan {
        budget_ns: typed.duration_ns.unwrap_or(default.budget_ns),
        driver: driver.clone(),
        deadline: typed.deadline_ns.map_or(default.deadline, |ns| Deadline { ns }),
    };
    plan.parts(1).map_err(|error| Usage(error.to_string()))?;
    gates.check_callers(&LatencyPlan::default().callers)?;
    // Create the directory first, so that a failure costs no time.
    let directory =
        output.out.clone().unwrap_or_else(|| default_directory(&roundtrip_bench::environment::now()));
    let place = Place::prepare(&directory, output.existing)?;
    let run = {
        let mut last = String::new();
        let mut line = output.progress(terminal.err);
        output.record(|environment| {
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
            Ok::<_, roundtrip_bench::Error>(results)
        })?
    };
    let name = directory.to_string_lossy();
    let exit =
        typed.common.end("survey", &run, Some(Directory::Asked(place)), terminal, |analysed, terminal| {
            let look = terminal.look;
            let text = match output.format.as_deref() {
                Some("json" | "markdown") => return Ok(false),
                Some("csv") => roundtrip_report::figures::whole_csv(&name, analysed),
                _ => {
                    roundtrip_report::run::first_page(analysed, look) + &output.histograms(analysed.run, look)
                }
            };
            terminal.out.write_all(text.as_bytes())?;
            Ok(true)
        })?;
    if !output.quiet {
        writeln!(terminal.err, "details: roundtrip show {}", inert::line(&name))?;
    }
    Ok(exit)
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
