//! `roundtrip ipc observe`: observes other programs' binder calls over the kernel's driver.

use std::ops::ControlFlow;

use roundtrip_analysis::causes;
use roundtrip_analysis::slow_calls::Missed;
use roundtrip_bench::observe::{self, Classify};
use roundtrip_run::ipc::observe::{Flow, ObservePlan, SlowCall};
use roundtrip_run::{Causes, Results};
use roundtrip_tracefs::Trace;

use super::gates;
use super::measure::{Common, Measures};
use super::observe_live::Live;
use super::observe_options::{self, ObserveOptions, Observes, Observing};
use super::output;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::progress::ProgressLine;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    observing: ObserveOptions,
    live: bool,
    interval_ns: Option<u64>,
    common: Common,
}

impl Observes for Typed {
    fn observing(&mut self) -> &mut ObserveOptions {
        &mut self.observing
    }
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["observed_calls"];

    const OUT: Opt<Self> =
        output::out("Also writes the run into this directory, with the recordings of slow calls.");

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "observe"],
    kind: Kind::Command,
    summary: "shows other programs' binder calls, and what delayed the slow ones",
    description: "Observes the binder calls of other programs through the kernel driver's events. Shows a table by client, \
                  server, thread pool, node and method: rates, percentiles, the three legs, and how long no thread \
                  of the server was ready. Keeps the slowest calls that missed the deadline, with the kernel events \
                  around them, and explains them.\n\n\
                  The programs are neither stopped nor changed. Requires root and the kernel driver, because the \
                  emulated driver has no events.",
    positionals: Some(observe_options::command()),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                observe_options::pid("Observes only the calls that this process makes or serves."),
                observe_options::name(
                    "Observes only the calls that processes with this name make or serve: the program's file name without its \
                     directory, or the name of an Android package.",
                ),
                observe_options::duration(),
                observe_options::deadline(
                    "A call that takes longer than this, such as 2.5ms, is slow.",
                    "2.5ms",
                ),
                observe_options::limit(
                    "Keeps and explains this many of the slowest slow calls; of the others, only the causes. 0 records no \
                     scheduler events, which slows the observed programs less.",
                ),
                observe_options::buffer("4M"),
            ],
        },
        Group {
            heading: "Live",
            options: &[
                Opt::flag(
                    &["--live"],
                    "Shows the calls of each interval while observing, those with the most total time first. Press q to stop. \
                     Prints plain lines if standard output is not a terminal, or with COMMAND.",
                    |typed: &mut Typed| typed.live = true,
                ),
                Opt::value(
                    &["--interval"],
                    "TIME",
                    "The length of an interval for --live, from 200ms to 1m.",
                    |typed: &mut Typed, text| values::set(&mut typed.interval_ns, values::interval_ns(text)),
                )
                .default("1s"),
            ],
        },
        gates::group(),
        output::group(),
    ],
    examples: &[
        (
            "roundtrip ipc observe --duration 30s",
            "Shows which processes call each other, and how long the calls take.",
        ),
        ("roundtrip ipc observe --live --duration 10m", "Shows the calls of each second, until you press q."),
        (
            "roundtrip ipc observe --name system_server --deadline 5ms --out monday",
            "Keeps the slow calls of one process, so that they can be explained later.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObservePlan, Usage> {
    let mut plan = ObservePlan::default();
    let ObservePlan { subject, duration_ns, deadline, limit, kilobytes, .. } = &mut plan;
    typed.observing.apply(Observing { subject, duration_ns, deadline, limit, kilobytes })?;
    Ok(plan)
}

/// Finds what delayed slow calls. The observer itself does not explain them.
struct Classifying(Missed);

impl Classify for Classifying {
    fn classify(&mut self, trace: &Trace, flows: &[Flow], calls: &[SlowCall]) {
        self.0.add(trace, flows, calls);
    }

    fn causes(&mut self) -> Causes {
        causes::stored(self.0.across(), &roundtrip_report::explanation::thing)
    }
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    if typed.interval_ns.is_some() && !typed.live {
        return Err(Usage("--interval goes with --live".into()).into());
    }
    let output = &typed.common.output;
    let directory = output.directory()?;
    plan.directory = directory.path().join(roundtrip_run::RECORDING);
    // Show the live view only with the table format. Other formats are for programs, so only the
    // result is printed.
    let is_shown = typed.live && !output.quiet && output.is_table();
    let mut live = is_shown.then(|| Live::open(&plan, typed.interval_ns, terminal)).transpose()?;
    let measured = {
        let mut line =
            if is_shown { ProgressLine::hidden(terminal.err) } else { output.progress(terminal.err) };
        let out = &mut *terminal.out;
        output.record(|environment| {
            let each = &mut |round: &observe::Round<'_>| match &mut live {
                Some(live) => live.round(round, out),
                None => ControlFlow::Continue(()),
            };
            let virtualised = environment.cpus.virtualised == Some(true);
            let mut classifying = Classifying(Missed::new(plan.deadline, virtualised));
            let result = observe::run(&plan, &mut classifying, &mut |progress| line.show(progress), each)?;
            Ok::<_, roundtrip_bench::Error>(Results::from(result))
        })
    };
    // Restore the terminal before anything is printed.
    let shown = live.map_or(Ok(()), Live::close);
    let run = measured?;
    shown?;
    typed.common.end("ipc observe", &run, Some(directory), terminal, |_, _| Ok(false))
}
