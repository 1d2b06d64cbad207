//! `roundtrip ipc traits`: how binder and hwbinder differ on this machine.

use bench::ipc::traits;
use bench::worker::Spawner;
use report::run::Divided;
use run::Results;
use run::ipc::DriverPlan;
use run::ipc::traits::TraitsPlan;

use super::finish::finish;
use super::gates::{self, Gated, Gates};
use super::output::{self, RunOutput};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::commands::driver;
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    iterations: Option<u64>,
    driver: DriverPlan,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<DriverPlan> for Typed {
    fn as_mut(&mut self) -> &mut DriverPlan {
        &mut self.driver
    }
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
    }
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = &[];
    const GATES: &'static str = "Exits with status 1 if the run has warnings (GATE: warnings).";

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
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
        Group {
            heading: "Output",
            options: &[
                output::format(output::FORMATS, output::FORMATS_HELP),
                output::out("Also writes the run into this directory."),
                output::force(),
                output::histogram(),
                output::label(),
                output::quiet(),
            ],
        },
    ],
    examples: &[
        ("roundtrip ipc traits", "Tests every cell, in about a second."),
        ("roundtrip ipc traits --profile mainline", "Tests the rules of a kernel without Android's patches."),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<TraitsPlan, Usage> {
    let default = TraitsPlan::default();
    let plan = TraitsPlan { driver: typed.driver.clone(), calls: typed.iterations.unwrap_or(default.calls) };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let plan = plan(&typed)?;
    let place = typed.output.place()?;
    let run = {
        let mut line = typed.output.progress(terminal.err);
        typed.output.record(|environment| {
            let result = traits::run(&plan, &Spawner::default(), &mut |progress| line.show(progress))?;
            environment.driver = Some(result.backend.in_full());
            Ok::<_, bench::Error>(Results::from(result))
        })?
    };
    let shown = report::inert::measured(&run, typed.output.format.as_deref() == Some("json"))?;
    let exit = finish(&run, place, &typed.output, terminal, |terminal| {
        let Some(result) = &shown.results.traits else { return Ok(()) };
        let look = terminal.look;
        let csv = || report::traits::csv(result);
        let tables = || report::traits::table(result, look);
        let text = typed.output.text("ipc traits", &shown, Divided::default(), look, csv, tables)?;
        Ok(terminal.out.write_all(text.as_bytes())?)
    })?;
    Ok(typed.gates.judge(&run, Divided::default(), exit, terminal))
}
