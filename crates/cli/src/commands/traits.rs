//! `roundtrip ipc traits`: how binder and hwbinder differ on this machine.

use roundtrip_bench::ipc::traits;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::ipc::traits::TraitsPlan;

use super::gates;
use super::measure::{Common, Measures};
use super::output;
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::commands::driver;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    iterations: Option<u64>,
    common: Common,
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["traits"];

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["ipc", "traits"],
    kind: Kind::Command,
    summary: "shows how binder and hwbinder differ",
    description: "Fills in Android's comparison of its two IPC stacks by testing each cell on this machine \
                  and driver: what the driver sees of a call's arguments; how often a payload is copied; \
                  whether a server inherits a real-time caller's priority or nice value, is raised to its \
                  node's minimum priority, or runs in the background for a background caller; and how long \
                  the smallest call takes.\n\n\
                  A cell that cannot be tested on this machine gives the reason. The rows for purpose and \
                  property are fixed text.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to measure",
            options: &[Opt::value(
                &["--iterations"],
                "N",
                "How many of the smallest calls to time on each stack.",
                |typed: &mut Typed, text| set(&mut typed.iterations, values::whole(text, 1..=10_000_000)),
            )
            .default("5000")],
        },
        driver::group(),
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip ipc traits", "Tests every cell, in about a second."),
        ("roundtrip ipc traits --profile mainline", "Tests the rules of a kernel without Android's patches."),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<TraitsPlan, Usage> {
    let default = TraitsPlan::default();
    let plan =
        TraitsPlan { driver: typed.common.driver.clone(), calls: typed.iterations.unwrap_or(default.calls) };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(&typed)?;
    let place = typed.common.output.place()?;
    typed.common.measure("ipc traits", place, terminal, |environment, progress| {
        let result = traits::run(&plan, &Spawner::default(), progress)?;
        environment.driver = Some(result.backend.in_full());
        Ok(result.into())
    })
}
