//! `binderThroughputTest`: Android's test of many binder workers.

use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::workers::{MAX_PROCESSES, MAX_SIZE, Topology, WorkersPlan};

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::commands::workers::{MOST_CALLS, run_old};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    workers: Option<u32>,
    iterations: Option<u64>,
    pairs: bool,
    size_bytes: Option<usize>,
    warn_above_us: Option<u64>,
    training: bool,
}

const NAME: &str = "binderThroughputTest";

/// The default limit of Android's program for latencies, in microseconds.
const EXPECTED_US: u64 = 50_000;

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &[NAME],
    kind: Kind::OldName,
    summary: "measures many binder processes that call each other at once",
    description: "Starts worker processes, each a service and a caller, that call a random other one as fast as they \
                  can. Prints each step as it happens, the calls of all callers per second, and what a call took, in \
                  milliseconds. The same as 'roundtrip ipc workers'.",
    positionals: None,
    groups: &[Group {
        heading: "Options",
        options: &[
            Opt::value(&["-w"], "N", "How many workers.", |typed: &mut Typed, text| {
                set(&mut typed.workers, values::whole(text, 1..=MAX_PROCESSES))
            })
            .default("2"),
            Opt::value(&["-i"], "N", "How many calls each caller makes.", |typed: &mut Typed, text| {
                set(&mut typed.iterations, values::whole(text, 1..=MOST_CALLS))
            })
            .default("10000"),
            Opt::flag(
                &["-p"],
                "Client and server pairs: half of the workers serve, and each of the others calls its own server.",
                |typed: &mut Typed| typed.pairs = true,
            ),
            Opt::value(
                &["-s"],
                "N",
                "Payload of the request in bytes, in whole words of four; the reply is empty.",
                |typed: &mut Typed, text| set(&mut typed.size_bytes, values::whole(text, 0..=MAX_SIZE)),
            )
            .default("0"),
            Opt::value(
                &["-m"],
                "N",
                "The longest latency that is expected, in us: says how many calls took longer.",
                |typed: &mut Typed, text| {
                    set(&mut typed.warn_above_us, values::whole(text, 1..=3_600_000_000))
                },
            )
            .default("50000"),
            Opt::flag_with_number(
                &["-t"],
                "N",
                "Runs a training round first, and expects at most twice the longest latency of that. As in the original, N makes \
                 no difference: it is one round.",
                |typed: &mut Typed| typed.training = true,
            ),
        ],
    }],
    examples: &[("binderThroughputTest -w 4 -i 5000", "Four workers, 5000 calls each.")],
    run,
};

fn plan(typed: &Typed) -> WorkersPlan {
    let default = WorkersPlan { stack: Stack::Binder, ..WorkersPlan::default() };
    WorkersPlan {
        workers: typed.workers.unwrap_or(default.workers),
        topology: if typed.pairs { Topology::Pairs } else { Topology::Everyone },
        iterations: typed.iterations.unwrap_or(default.iterations),
        size_bytes: typed.size_bytes.unwrap_or(default.size_bytes),
        empty_reply: true,
        warn_above_ns: Some(1000 * typed.warn_above_us.unwrap_or(EXPECTED_US)),
        ..default
    }
}

/// Runs the program. As in the original, the training round is a complete run.
fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed);
    plan.check().map_err(|error| Usage(error.to_string()))?;
    if typed.training {
        writeln!(terminal.out, "Start training round")?;
        let trained = run_old(NAME, &plan, terminal)?;
        terminal.out.write_all(roundtrip_report::ipc::workers::android_trained(&trained).as_bytes())?;
        plan.warn_above_ns = trained.latency.max_ns().map(|worst_ns| 2 * worst_ns);
    }
    let result = run_old(NAME, &plan, terminal)?;
    let text = roundtrip_report::ipc::workers::android_above(&result)
        + &roundtrip_report::ipc::workers::android_summary(&result);
    terminal.out.write_all(text.as_bytes())?;
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_is_two_workers_that_call_ten_thousand_times_without_a_payload() {
        let plan = plan(&Typed::default());
        assert_eq!((plan.workers, plan.iterations, plan.size_bytes), (2, 10_000, 0));
        assert_eq!((plan.empty_reply, plan.warn_above_ns), (true, Some(50_000_000)));
        assert_eq!((plan.stack, plan.topology), (Stack::Binder, Topology::Everyone));
    }

    #[test]
    fn the_threshold_is_typed_in_microseconds() {
        let typed = Typed { warn_above_us: Some(250), pairs: true, ..Typed::default() };
        assert_eq!((plan(&typed).warn_above_ns, plan(&typed).topology), (Some(250_000), Topology::Pairs));
    }
}
