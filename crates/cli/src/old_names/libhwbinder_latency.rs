//! `libhwbinder_latency`: latency of the hwbinder stack, in the format of Android's program.
//! `schd_dbg` shares everything except the stack and the mode.

use std::io::Write;
use std::path::Path;

use roundtrip_bench::Error;
use roundtrip_latency::Deadline;
use roundtrip_run::ipc::latency::{
    Amount, HaltTrace, Inheritance, LatencyPlan, MAX_PAIRS, ThreadReport, Verdict,
};
use roundtrip_run::ipc::{Mode, Stack};

use crate::args::values::{put, set};
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::commands::latency::{halt_message, measure};
use crate::commands::output::RunOutput;
use crate::terminal::{Exit, Terminal};
use roundtrip_report::ipc::latency_android;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    pairs: Option<u32>,
    iterations: Option<u64>,
    deadline_us: Option<u32>,
    mode: Mode,
    verbose: bool,
    trace: bool,
    raw_data: bool,
}

pub(super) const DESCRIPTION: &str = "Client processes call server processes of their own. In each iteration \
                                      a real-time thread (SCHED_FIFO, priority 99) calls first, a new thread \
                                      each time, with its set-up included in the time, and then an ordinary \
                                      thread. Standard output is one JSON value, after the blocks of -v and \
                                      schd-dbg's messages of -trace; everything else goes to standard error.\n\n\
                                      S counts the calls that were served on the caller's CPU, R is their \
                                      share of all I calls, and SYNC is GOOD above 0.6. Inheritance is PASS \
                                      if every server thread ran with its caller's policy class and real-time \
                                      priority. It is SKIP if no real-time caller is possible, or if the \
                                      server inherited the priority in a way that its policy does not show; \
                                      inheritance_reason says which. Exit status 1 means FAIL. cfg names the \
                                      driver that was measured.";

/// The flags that both programs have.
pub(super) const FLAGS: &[Opt<Typed>] = &[
    Opt::value(&["-i"], "N", "Iterations.", |typed: &mut Typed, text| {
        set(&mut typed.iterations, values::whole(text, 1..=u64::MAX))
    })
    .default("100"),
    Opt::value(
        &["-pair", "-w"],
        "N",
        "Pairs of a client and a server process; more than CPUs - 1 pairs disturb each other.",
        |typed: &mut Typed, text| set(&mut typed.pairs, values::whole(text, 1..=MAX_PAIRS)),
    )
    .default("1"),
    Opt::value(
        &["-deadline_us"],
        "N",
        "A call that takes longer counts as a miss.",
        |typed: &mut Typed, text| set(&mut typed.deadline_us, values::whole(text, 0..=u32::MAX)),
    )
    .default("2500"),
    Opt::flag(
        &["-v"],
        "Prints for each call which thread runs on which CPU, on standard output before the JSON \
         value.",
        |typed: &mut Typed| {
            typed.verbose = true;
        },
    ),
    Opt::flag(
        &["-trace"],
        "Stops the running kernel trace, and the run, at the first call of a real-time thread that \
         misses its deadline.",
        |typed: &mut Typed| typed.trace = true,
    ),
    Opt::flag(
        &["-raw_data"],
        "Also prints the latencies of all real-time calls, in ns.",
        |typed: &mut Typed| {
            typed.raw_data = true;
        },
    ),
];

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["libhwbinder_latency"],
    kind: Kind::OldName,
    summary: "measures latency and deadlines of the hwbinder stack",
    description: DESCRIPTION,
    positionals: None,
    groups: &[
        Group { heading: "Options", options: FLAGS },
        Group {
            heading: "Mode",
            options: &[Opt::one_of(
                &["-m"],
                "MODE",
                &["BINDERIZE", "PASSTHROUGH"],
                "BINDERIZE calls a server process over the driver, PASSTHROUGH the service in the client's own process.",
                |typed: &mut Typed, text| put(&mut typed.mode, text.parse()),
            )
            .default("BINDERIZE"),
            Opt::flag(&["-passthrough"], "The same as -m PASSTHROUGH, as older versions call it.", |typed: &mut Typed| {
                typed.mode = Mode::Passthrough;
            })],
        },
    ],
    examples: &[
        ("libhwbinder_latency -i 5000 -pair 3", "Three pairs, 10000 calls each."),
        ("libhwbinder_latency -i 1 -v", "Shows which thread runs on which CPU in one iteration."),
    ],
    run: |typed, terminal| run(&typed, Stack::Hwbinder, terminal),
};

fn plan(typed: &Typed, stack: Stack) -> Result<LatencyPlan, Usage> {
    let plan = LatencyPlan {
        stacks: vec![stack],
        mode: typed.mode,
        inheritance: vec![Inheritance::Stack],
        pairs: typed.pairs.unwrap_or(1),
        amount: Amount::Iterations(typed.iterations.unwrap_or(100)),
        deadline: Deadline { ns: 1000 * u64::from(typed.deadline_us.unwrap_or(2500)) },
        fresh_threads: true,
        keep_samples: typed.raw_data,
        verbose: typed.verbose,
        process_name: Some(stack_program(stack).to_owned()),
        halt_trace: typed.trace.then(|| HaltTrace { only_realtime: true, ..HaltTrace::default() }),
        ..LatencyPlan::default()
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

/// The program for a stack.
fn stack_program(stack: Stack) -> &'static str {
    match stack {
        Stack::Binder => "schd-dbg",
        Stack::Hwbinder => "libhwbinder_latency",
    }
}

/// Runs one of the programs.
pub(super) fn run(typed: &Typed, stack: Stack, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(typed, stack)?;
    let mut blocks = Blocks { stack, waiting: Vec::new() };
    let block = &mut |report: &ThreadReport, out: &mut dyn Write| blocks.write(report, out);
    let run = match measure(&plan, block, &RunOutput::default(), terminal) {
        Err(Error::NoTrace { switch: Some(switch), .. }) => {
            messages(stack, terminal).write_all(no_trace(&switch).as_bytes())?;
            // The original schd-dbg exits with -1.
            return Ok(if stack == Stack::Binder { Exit(255) } else { Exit::FAILED });
        }
        measured => measured?,
    };
    if let Some(call) = run.results.latency.as_ref().and_then(|result| result.halted.as_ref()) {
        write!(messages(stack, terminal), "\n{}\n", halt_message(call))?;
        writeln!(terminal.err, "{call}")?;
    }
    warn(&run.warnings, terminal.err)?;
    let mut exit = Exit::OK;
    if let Some(result) = &run.results.latency {
        for series in &result.series {
            let text = latency_android::json(result, series, &run.warnings, typed.raw_data);
            terminal.out.write_all(text.as_bytes())?;
            if matches!(series.verdict, Verdict::Fail { .. }) {
                exit = Exit::FAILED;
            }
        }
    }
    Ok(exit)
}

/// Where the original prints what it does with the trace: schd-dbg on standard output.
fn messages<'t>(stack: Stack, terminal: &'t mut Terminal<'_>) -> &'t mut dyn Write {
    if stack == Stack::Binder { &mut *terminal.out } else { &mut *terminal.err }
}

/// What the originals print if no trace is running.
fn no_trace(switch: &Path) -> String {
    format!("trace is not running\ncheck {}\nuse atrace --async_start first\n", switch.display())
}

/// Prints warnings. They may contain text from this machine, so it is made safe to show.
fn warn(warnings: &[String], err: &mut dyn Write) -> std::io::Result<()> {
    warnings
        .iter()
        .try_for_each(|warning| writeln!(err, "warning: {}", roundtrip_report::text::inert::line(warning)))
}

/// Prints the blocks of `-v` in the order, and with the role names, of the original program.
struct Blocks {
    stack: Stack,
    /// The blocks of servers that wait to be printed: the original schd-dbg reports itself first
    /// and then its servers, but here the servers are reported first.
    waiting: Vec<String>,
}

impl Blocks {
    fn write(&mut self, report: &ThreadReport, out: &mut dyn Write) -> std::io::Result<()> {
        let server = self.stack == Stack::Binder && report.role == "service";
        if server {
            let report = ThreadReport { role: "server".into(), ..report.clone() };
            self.waiting.push(latency_android::thread_block(&report));
            return Ok(());
        }
        out.write_all(latency_android::thread_block(report).as_bytes())?;
        self.waiting.drain(..).try_for_each(|block| out.write_all(block.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_run::Scheduling;

    use super::*;

    #[test]
    fn a_warning_acts_on_no_terminal() {
        let mut err = Vec::new();
        warn(&["no events \u{1b}]0;pwn\u{7}\nhere".to_owned()], &mut err).unwrap();
        let text = String::from_utf8(err).unwrap();
        assert_eq!(text, "warning: no events \\u001b]0;pwn\\u0007\\u000ahere\n");
    }

    #[test]
    fn the_defaults_are_the_programs() {
        let plan = plan(&Typed::default(), Stack::Hwbinder).unwrap();
        assert_eq!((plan.pairs, plan.amount, plan.deadline.ns), (1, Amount::Iterations(100), 2_500_000));
        assert_eq!(plan.callers, [Scheduling::fifo(99), Scheduling::other(0)]);
        assert_eq!(plan.process_name.as_deref(), Some("libhwbinder_latency"));
        assert!(plan.fresh_threads && plan.mode == Mode::Binderize && !plan.verbose && !plan.keep_samples);
    }
}
