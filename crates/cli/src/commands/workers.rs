//! `roundtrip ipc workers`: the total throughput of many processes, and the latencies of their
//! calls. Also runs Android's throughput tests under their old names, which measure the same.

use roundtrip_bench::Progress;
use roundtrip_bench::ipc::workers;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::ipc::workers::{MAX_PROCESSES, Stage, Topology, WorkersPlan, WorkersResult};
use roundtrip_run::ipc::{Mode, Stack};
use roundtrip_run::{Results, Run};

use super::gates;
use super::measure::{Common, Measures};
use super::output::{self, RunOutput};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::commands::driver;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    stack: Option<Stack>,
    workers: Option<u32>,
    services: Option<u32>,
    pairs: bool,
    iterations: Option<u64>,
    size_bytes: Option<usize>,
    mode: Option<Mode>,
    warn_above_ns: Option<u64>,
    training: bool,
    common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["workers"];

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "workers"],
    kind: Kind::Command,
    summary: "measures many processes that call each other",
    description: "Starts worker processes that all begin at the same instant and call as fast as they can. \
                  Measures the total calls per second and how long each call takes.\n\n\
                  Each worker serves and calls: it calls a random other worker. With --pairs, half of the \
                  workers serve and each of the others calls a service of its own. With --services N, each \
                  call goes to a random one of N processes that only serve.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to measure",
            options: &[
                Opt::one_of(
                    &["--stack"],
                    "STACK",
                    &["binder", "hwbinder"],
                    "The IPC stack.",
                    |typed: &mut Typed, text| set(&mut typed.stack, roundtrip_run::ipc::stack(text)),
                )
                .default("binder"),
                Opt::value(&["--workers"], "N", "How many workers.", |typed: &mut Typed, text| {
                    set(&mut typed.workers, values::whole(text, 1..=MAX_PROCESSES))
                })
                .default("2"),
                Opt::value(
                    &["--services"],
                    "N",
                    "Call a random one of N processes that only serve.",
                    |typed: &mut Typed, text| {
                        set(&mut typed.services, values::whole(text, 1..=MAX_PROCESSES))
                    },
                ),
                Opt::flag(
                    &["--pairs"],
                    "Half of the workers serve; each of the others calls its own server.",
                    |typed: &mut Typed| typed.pairs = true,
                ),
                Opt::value(
                    &["--iterations"],
                    "N",
                    "How many calls each caller makes.",
                    |typed: &mut Typed, text| set(&mut typed.iterations, values::whole(text, 1..=MOST_CALLS)),
                )
                .default("10000"),
                Opt::value(
                    &["--size"],
                    "SIZE",
                    "The payload of each call, each way, as in 64k.",
                    |typed: &mut Typed, text| set(&mut typed.size_bytes, values::size_bytes(text)),
                )
                .default("0"),
                Opt::one_of(
                    &["--mode"],
                    "MODE",
                    &["binderize", "passthrough"],
                    "binderize: calls over the driver. passthrough: calls the service in the caller's own \
                     process.",
                    |typed: &mut Typed, text| set(&mut typed.mode, text.parse::<Mode>()),
                )
                .default("binderize"),
                Opt::value(
                    &["--warn-above"],
                    "TIME",
                    "Count and report calls that take longer than this, as in 500us.",
                    |typed: &mut Typed, text| set(&mut typed.warn_above_ns, values::duration_ns(text)),
                ),
                Opt::flag(
                    &["--training"],
                    "Run once beforehand, and count calls above twice the longest call of that run.",
                    |typed: &mut Typed| typed.training = true,
                ),
            ],
        },
        driver::group(),
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip ipc workers --workers 8", "Eight processes call each other at random."),
        (
            "roundtrip ipc workers --stack hwbinder --workers 4 --services 1 --size 16",
            "Four callers contend for one service.",
        ),
    ],
    run,
};

/// The maximum number of calls of one caller: half an hour at 2 us each.
pub(crate) const MOST_CALLS: u64 = 1_000_000_000;

fn plan(typed: &Typed) -> Result<WorkersPlan, Usage> {
    let default = WorkersPlan::default();
    let topology = match (typed.pairs, typed.services) {
        (true, Some(_)) => return Err(Usage("--pairs and --services exclude each other".into())),
        (true, None) => Topology::Pairs,
        (false, Some(services)) => Topology::Services(services),
        (false, None) => Topology::Everyone,
    };
    if let Some(workers) = typed.workers.filter(|workers| typed.pairs && workers % 2 == 1) {
        return Err(Usage(format!("{workers} workers cannot form pairs: choose an even number")));
    }
    if typed.training && typed.warn_above_ns.is_some() {
        return Err(Usage("--training and --warn-above exclude each other".into()));
    }
    let plan = WorkersPlan {
        driver: typed.common.driver.clone(),
        stack: typed.stack.unwrap_or(default.stack),
        mode: typed.mode.unwrap_or(default.mode),
        workers: typed.workers.unwrap_or(default.workers),
        topology,
        iterations: typed.iterations.unwrap_or(default.iterations),
        size_bytes: typed.size_bytes.unwrap_or(default.size_bytes),
        warn_above_ns: typed.warn_above_ns,
        training: typed.training,
        ..default
    };
    check(&plan)?;
    Ok(plan)
}

fn check(plan: &WorkersPlan) -> Result<(), Usage> {
    plan.check().map_err(|error| Usage(error.to_string()))
}

/// Runs a plan and reports its stages.
fn record(
    plan: &WorkersPlan,
    output: &RunOutput,
    mut tell: impl FnMut(&Stage) -> std::io::Result<()>,
) -> anyhow::Result<Run> {
    output.record(|environment| {
        let result = workers::run(plan, &Spawner::default(), |stage| {
            tell(&stage)?;
            Ok::<_, anyhow::Error>(())
        })?;
        environment.driver = result.backend.as_ref().map(roundtrip_run::ipc::Backend::in_full);
        Ok::<_, anyhow::Error>(Results::from(result))
    })
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(&typed)?;
    let output = &typed.common.output;
    let place = output.place()?;
    let mut line = output.progress(terminal.err);
    let mut run = record(&plan, output, |stage| {
        if let Stage::Calling { done, total } = *stage {
            line.show(Progress { what: "workers", done, total });
        }
        match roundtrip_report::ipc::workers::training_line(stage) {
            Some(text) if !output.quiet => line.say(&format!("roundtrip: {text}")),
            _ => Ok(()),
        }
    })?;
    drop(line);
    if let Some(result) = &run.results.workers {
        run.warnings.extend(roundtrip_report::ipc::workers::above_line(result));
    }
    typed.common.end("ipc workers", &run, place, terminal, |_, _| Ok(false))
}

/// Runs a plan of one of Android's throughput tests. Prints the original's lines to standard output
/// as each stage is reached, and all other lines to standard error. The caller prints what follows
/// the last stage.
pub(crate) fn run_old(
    name: &str,
    plan: &WorkersPlan,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<WorkersResult> {
    check(plan)?;
    let mut run = record(plan, &RunOutput::default(), |stage| {
        if let Stage::Made { backend, .. } = stage {
            let backend = roundtrip_report::ipc::workers::backend_name(backend.as_ref());
            writeln!(terminal.err, "{name}: driver: {backend}")?;
        }
        terminal.out.write_all(roundtrip_report::ipc::workers::android_lines(stage, plan).as_bytes())?;
        terminal.out.flush()
    })?;
    for warning in &run.warnings {
        writeln!(terminal.err, "{name}: warning: {}", roundtrip_report::text::inert::line(warning))?;
    }
    run.results.workers.take().ok_or_else(|| anyhow::anyhow!("the run has no result"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default() {
        assert_eq!(plan(&Typed::default()).unwrap(), WorkersPlan::default());
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let refused = |typed: Typed| plan(&typed).unwrap_err().to_string();
        assert!(
            refused(Typed { pairs: true, services: Some(1), ..Typed::default() })
                .contains("exclude each other")
        );
        assert!(
            refused(Typed { training: true, warn_above_ns: Some(1), ..Typed::default() })
                .contains("exclude each other")
        );
        assert!(refused(Typed { workers: Some(1), ..Typed::default() }).contains("2 or more"));
        assert!(
            refused(Typed {
                size_bytes: Some(roundtrip_run::ipc::workers::MAX_SIZE + 1),
                ..Typed::default()
            })
            .contains("does not fit")
        );
    }
}
