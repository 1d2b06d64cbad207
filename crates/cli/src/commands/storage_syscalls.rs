//! `roundtrip storage syscalls`: the time of other programs' system calls, as strace -c sums it up.

use roundtrip_bench::observe;
use roundtrip_latency::Deadline;
use roundtrip_run::RECORDING;
use roundtrip_run::storage::system_calls::SystemCallsPlan;

use super::gates;
use super::measure::{Common, Measures};
use super::observe_options::{self, ObserveOptions, Observes, Observing};
use super::output;
use crate::args::{Entry, Group, Kind, Opt, Usage};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    observing: ObserveOptions,
    common: Common,
}

impl Observes for Typed {
    fn observing(&mut self) -> &mut ObserveOptions {
        &mut self.observing
    }
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["system_calls"];

    const OUT: Opt<Self> = output::out("Also writes the run into this directory.");

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "syscalls"],
    kind: Kind::Command,
    summary: "sums up the system calls of other programs, as strace -c does",
    description: "Shows for each system call of other programs the share of the time, the seconds, the time of a call, and \
                  how many calls there were and failed. The calls are those that 'strace -f -c' counts; the time is the \
                  whole time in the kernel, waiting included, as with 'strace -w'.\n\n\
                  The figures come from the kernel's own events: the programs are neither stopped nor changed. Each \
                  system call on the machine takes slightly longer meanwhile. Requires root and tracefs.",
    positionals: Some(observe_options::command()),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                observe_options::pid("Observes only the system calls of this process."),
                observe_options::name(
                    "Observes only the system calls of processes with this name: the program's file name, without its \
                     directory.",
                ),
                observe_options::duration(),
                observe_options::buffer("16M"),
            ],
        },
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip storage syscalls --name postgres --duration 30s", "Shows in which calls a database is."),
        ("roundtrip storage syscalls -- ./my-writer", "Runs one program, and sums up its system calls."),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<SystemCallsPlan, Usage> {
    let mut plan = SystemCallsPlan::default();
    // No call is slow here.
    let (deadline, limit) = (&mut Deadline { ns: 0 }, &mut 0);
    let SystemCallsPlan { subject, duration_ns, kilobytes, .. } = &mut plan;
    typed.observing.apply(Observing { subject, duration_ns, deadline, limit, kilobytes })?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    let directory = typed.common.output.directory()?;
    plan.directory = directory.path().join(RECORDING);
    typed.common.measure("storage syscalls", Some(directory), terminal, |_, progress| {
        Ok(observe::run_system_calls(&plan, progress)?.into())
    })
}
