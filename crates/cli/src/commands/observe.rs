//! `roundtrip ipc observe`: other programs' binder calls, over the kernel's driver.

use std::ops::ControlFlow;

use bench::observe;
use report::csv::with_labels;
use report::run::Divided;
use run::Results;
use run::ipc::observe::ObservePlan;

use super::finish::{explanations, finish};
use super::gates::{self, Gated, Gates};
use super::observe_live::Live;
use super::observe_options::{self, ObserveOptions, Observes, Observing};
use super::output::{self, RunOutput};
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::progress::ProgressLine;
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    observing: ObserveOptions,
    live: bool,
    interval_ns: Option<u64>,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
    }
}

impl Observes for Typed {
    fn observing(&mut self) -> &mut ObserveOptions {
        &mut self.observing
    }
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = &["observed"];

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "observe"],
    kind: Kind::Command,
    summary: "shows other programs' binder calls, and what delayed the slow ones",
    description: "Watches the kernel's binder driver and counts each round trip between any two processes: a table by \
                  client, server, thread pool, node and method, with rates, percentiles, the three legs and the time \
                  for which no thread of the server was ready. Keeps the slowest calls that miss the deadline, with \
                  what the kernel recorded around them.\n\n\
                  The programs are neither stopped nor changed. It needs root and the kernel's driver: the emulated \
                  one has no events.",
    positionals: Some(observe_options::command()),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                observe_options::pid("Only calls that this process makes or serves."),
                observe_options::name(
                    "Only calls that processes of this name make or serve: a program's name without its folder, or an Android \
                     package's.",
                ),
                observe_options::duration(),
                observe_options::deadline("A call that takes longer is slow, as in 2.5ms.", "2.5ms"),
                observe_options::limit(
                    "Keeps this many of the slowest calls and counts the rest. With 0, it records no scheduler events, which slows \
                     the observed programs less.",
                ),
                observe_options::buffer("4M"),
            ],
        },
        Group {
            heading: "Live",
            options: &[
                Opt::flag(
                    &["--live"],
                    "Shows the calls of each interval while observing, those with the most total time first; q ends it. \
                     If standard output is not a terminal, or with COMMAND, it prints lines.",
                    |typed: &mut Typed| typed.live = true,
                ),
                Opt::value(
                    &["--interval"],
                    "TIME",
                    "The length of an interval of --live, from 200ms to 1m.",
                    |typed: &mut Typed, text| values::set(&mut typed.interval_ns, values::interval_ns(text)),
                )
                .default("1s"),
            ],
        },
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                output::format(output::FORMATS, output::FORMATS_HELP),
                output::out(
                    "Also writes the run, with what was recorded of slow calls, into this directory.",
                ),
                output::force(),
                output::label(),
                output::histogram(),
                output::quiet(),
            ],
        },
    ],
    examples: &[
        ("roundtrip ipc observe --duration 30s", "Shows who calls whom, and how long it takes."),
        ("roundtrip ipc observe --live --duration 10m", "Shows the calls of each second until you press q."),
        (
            "roundtrip ipc observe --name system_server --deadline 5ms --out monday",
            "Keeps the slow calls of one process, to explain them later.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObservePlan, Usage> {
    let default = ObservePlan::default();
    let Observing { subject, duration_ns, deadline, limit, kilobytes } =
        typed.observing.meant(Observing {
            subject: default.subject.clone(),
            duration_ns: default.duration_ns,
            deadline: default.deadline,
            limit: default.limit,
            kilobytes: default.kilobytes,
        })?;
    Ok(ObservePlan { subject, duration_ns, deadline, limit, kilobytes, ..default })
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    if typed.interval_ns.is_some() && !typed.live {
        return Err(Usage("--interval goes with --live".into()).into());
    }
    let directory = typed.output.directory()?;
    plan.directory = directory.path().join(run::RECORDING);
    // A program reads the other formats: it gets the result and nothing else.
    let is_shown =
        typed.live && !typed.output.quiet && matches!(typed.output.format.as_deref(), None | Some("table"));
    let mut live = is_shown.then(|| Live::open(&plan, typed.interval_ns, terminal)).transpose()?;
    let measured = {
        let mut line =
            if is_shown { ProgressLine::hidden(terminal.err) } else { typed.output.progress(terminal.err) };
        let out = &mut *terminal.out;
        typed.output.record(|_| {
            let each = &mut |round: &observe::Round<'_>| match &mut live {
                Some(live) => live.round(round, out),
                None => ControlFlow::Continue(()),
            };
            let result = observe::run(&plan, &mut |progress| line.show(progress), each)?;
            Ok::<_, bench::Error>(Results::from(result))
        })
    };
    // Before anything is printed.
    let shown = live.map_or(Ok(()), Live::close);
    let run = measured?;
    shown?;
    let shown = report::inert::measured(&run, typed.output.format.as_deref() == Some("json"))?;
    let Some(result) = &shown.results.observed_calls else { return Ok(Exit::FAILED) };
    let (text, missing) = match typed.output.format.as_deref() {
        Some("json") => (shown.to_json()?, None),
        Some("csv") => (with_labels(report::observed_calls::csv(result), &run.labels), None),
        Some("markdown") => (report::figures::markdown("ipc observe", &shown, Divided::default()), None),
        _ => {
            let tables = report::observed_calls::tables(result, terminal.look);
            let page = match tables.as_str() {
                "" => report::run::first_page(&shown, Divided::default(), terminal.look),
                tables => report::run::page(&shown, Divided::default(), tables, terminal.look),
            };
            let page = page + &typed.output.histograms(&shown, terminal.look);
            // A recording that cannot be read any more costs the explanations, not the table.
            match explanations(&shown, Some(directory.path())) {
                Ok(explained) => (page + &terminal.look.fit(explained), None),
                Err(error) => (page, Some(error)),
            }
        }
    };
    let exit = finish(&run, directory.asked(), &typed.output, terminal, |terminal| {
        Ok(terminal.out.write_all(text.as_bytes())?)
    })?;
    let exit = typed.gates.judge(&run, Divided::default(), exit, terminal);
    missing.map_or(Ok(exit), Err)
}
