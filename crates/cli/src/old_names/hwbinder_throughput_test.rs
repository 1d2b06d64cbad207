//! `hwbinderThroughputTest`: Android's test of many hwbinder workers and services.

use roundtrip_run::ipc::workers::{MAX_PROCESSES, Topology, WorkersPlan};
use roundtrip_run::ipc::{Mode, Stack};

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, values};
use crate::commands::workers::{MOST_CALLS, run_old};
use crate::terminal::Exit;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    workers: Option<u32>,
    services: Option<u32>,
    iterations: Option<u64>,
    mode: Option<Mode>,
}

const NAME: &str = "hwbinderThroughputTest";

/// The payload of Android's program.
const SIZE_BYTES: usize = 16;

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &[NAME],
    kind: Kind::OldName,
    summary: "measures many processes that call many hwbinder services at once",
    description: "Starts service processes, and worker processes that call a random one of them as fast as they can, \
                  with 16 bytes that come back. Prints each step as it happens, the calls of all workers per second, \
                  and what a call took, in milliseconds. The same as 'roundtrip ipc workers --stack hwbinder \
                  --services N --size 16'.",
    positionals: None,
    groups: &[Group {
        heading: "Options",
        options: &[
            Opt::value(&["-w"], "N", "How many workers.", |typed: &mut Typed, text| {
                set(&mut typed.workers, values::whole(text, 1..=MAX_PROCESSES))
            })
            .default("2"),
            Opt::value(&["-s"], "N", "How many services.", |typed: &mut Typed, text| {
                set(&mut typed.services, values::whole(text, 1..=MAX_PROCESSES))
            })
            .default("as many as workers"),
            Opt::value(&["-i"], "N", "How many calls each worker makes.", |typed: &mut Typed, text| {
                set(&mut typed.iterations, values::whole(text, 1..=MOST_CALLS))
            })
            .default("10000"),
            Opt::one_of(
                &["-m"],
                "MODE",
                &["BINDERIZE", "PASSTHROUGH"],
                "BINDERIZE calls over the driver, PASSTHROUGH the service in the worker's own process.",
                |typed: &mut Typed, text| set(&mut typed.mode, text.parse()),
            )
            .default("BINDERIZE"),
        ],
    }],
    examples: &[("hwbinderThroughputTest -w 4 -s 1 -m BINDERIZE", "Four workers contend for one service.")],
    run: |typed, terminal| run_old(NAME, &plan(&typed), terminal).map(|_| Exit::OK),
};

fn plan(typed: &Typed) -> WorkersPlan {
    let default = WorkersPlan { stack: Stack::Hwbinder, size_bytes: SIZE_BYTES, ..WorkersPlan::default() };
    let workers = typed.workers.unwrap_or(default.workers);
    WorkersPlan {
        workers,
        topology: Topology::Services(typed.services.unwrap_or(workers)),
        iterations: typed.iterations.unwrap_or(default.iterations),
        mode: typed.mode.unwrap_or_default(),
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_services_as_workers_unless_it_is_said() {
        let services = |typed: &Typed| plan(typed).topology;
        assert_eq!(services(&Typed::default()), Topology::Services(2));
        assert_eq!(services(&Typed { workers: Some(5), ..Typed::default() }), Topology::Services(5));
        assert_eq!(
            services(&Typed { workers: Some(5), services: Some(1), ..Typed::default() }),
            Topology::Services(1)
        );
    }
}
