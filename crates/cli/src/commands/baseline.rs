//! `roundtrip ipc baseline`: the cost of round trips on this machine with mechanisms other than
//! binder. It shows how much faster binder could be.

use roundtrip_bench::baseline;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::CpuPlacement;
use roundtrip_run::Tested as _;
use roundtrip_run::baseline::{BaselinePlan, TRANSPORTS};

use super::gates;
use super::measure::{Common, Measures};
use super::output;
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    sizes_bytes: Option<Vec<usize>>,
    placements: Option<Vec<CpuPlacement>>,
    transports: Option<Vec<String>>,
    rounds: Option<u32>,
    duration_ns: Option<u64>,
    recorder: bool,
    common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["baseline"];

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The names of all transports.
const TRANSPORT_NAMES: [&str; TRANSPORTS.len()] = {
    let mut names = [""; TRANSPORTS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = TRANSPORTS[at].name;
        at += 1;
    }
    names
};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "baseline"],
    kind: Kind::Command,
    summary: "compares binder with the baselines: a futex, pipes, sockets",
    description: "Measures an echo between two processes over each transport that the kernel offers, and over \
                  binder. The payload is copied both ways. The transports take turns in short blocks, in a \
                  new random order each round, so drift of the machine affects all of them alike. Each is \
                  compared with shared memory and a futex, the cheapest round trip that blocks. Binder is \
                  measured three times: the driver without a stack, and each of the two stacks.\n\n\
                  Transports: futex, eventfd (both with shared memory), pipe, unix-stream, unix-seqpacket, \
                  mqueue (POSIX message queue), binder-driver (its protocol without a stack), binder, \
                  hwbinder, and on request spin (shared memory, both sides busy).",
    positionals: None,
    groups: &[
        Group {
            heading: "What to measure",
            options: &[
                Opt::value(
                    &["--sizes"],
                    "SIZES",
                    "Payloads in bytes, separated by commas; 4-64k stands for each doubling.",
                    |typed: &mut Typed, text| set(&mut typed.sizes_bytes, values::sizes_bytes(text)),
                )
                .default("4,256,4k,64k"),
                Opt::list_of(
                    &["--placements"],
                    "LIST",
                    &["same", "split", "free"],
                    "Where the two processes run: same (one CPU), split (two CPUs), free (the kernel decides).",
                    |typed: &mut Typed, text| set(&mut typed.placements, values::list(text)),
                )
                .default("same,split,free"),
                Opt::list_of(
                    &["--transports"],
                    "LIST",
                    &TRANSPORT_NAMES,
                    "The transports to compare. The futex is always measured.",
                    |typed: &mut Typed, text| set(&mut typed.transports, values::list(text)),
                )
                .default("all but spin"),
                Opt::value(
                    &["--rounds"],
                    "N",
                    "How often each transport is measured. A ratio has a confidence interval from 6 rounds on.",
                    |typed: &mut Typed, text| set(&mut typed.rounds, values::whole(text, 1..=1000)),
                )
                .default("9"),
                Opt::value(
                    &["--duration"],
                    "TIME",
                    "About how long the whole measurement takes, as in 30s.",
                    |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
                )
                .default("10s"),
                Opt::flag(
                    &["--recorder"],
                    "Measures everything with and without the flight recorder that --explain uses, in turn, and prints the \
                     ratio. Needs root.",
                    |typed: &mut Typed| typed.recorder = true,
                ),
            ],
        },
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip ipc baseline", "Compares all transports at four sizes, in about ten seconds."),
        (
            "roundtrip ipc baseline --transports pipe,spin --placements split --sizes 4-64k",
            "Compares a futex, a pipe and spinning across two CPUs.",
        ),
        (
            "roundtrip ipc baseline --transports futex --sizes 4 --recorder",
            "Measures what the flight recorder costs the shortest round trips.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<BaselinePlan, Usage> {
    let default = BaselinePlan::default();
    let plan = BaselinePlan {
        sizes_bytes: typed.sizes_bytes.clone().unwrap_or(default.sizes_bytes),
        placements: typed.placements.clone().unwrap_or(default.placements),
        transports: typed.transports.clone().unwrap_or(default.transports),
        rounds: typed.rounds.unwrap_or(default.rounds),
        budget_ns: typed.duration_ns.unwrap_or(default.budget_ns),
        recorder: typed.recorder,
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(&typed)?;
    let place = typed.common.output.place()?;
    typed.common.measure("ipc baseline", place, terminal, |environment, progress| {
        let result = baseline::run(&plan, &Spawner::default(), progress)?;
        environment.driver = result.backend().map(roundtrip_run::ipc::Backend::in_full);
        Ok(result.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default()).unwrap();
        assert_eq!(plan, BaselinePlan::default());
        assert_eq!(values::sizes_bytes("4,256,4k,64k").unwrap(), plan.sizes_bytes);
        assert_eq!((plan.rounds, plan.budget_ns), (9, 10_000_000_000));
    }

    #[test]
    fn an_unknown_transport_is_a_usage_error_that_names_the_known_ones() {
        let typed = Typed { transports: Some(vec!["pigeon".into()]), ..Typed::default() };
        assert!(plan(&typed).unwrap_err().to_string().contains("unix-seqpacket"));
    }

    #[test]
    fn the_description_names_every_transport() {
        for transport in TRANSPORTS.iter() {
            assert!(COMMAND.description.contains(transport.name), "{}", transport.name);
        }
    }
}
