//! `roundtrip storage interference`: how background load and settings affect synchronous writes and
//! the storage device.

use std::path::PathBuf;

use roundtrip_bench::storage::interference;
use roundtrip_bench::worker::Spawner;
use roundtrip_report::text::csv::with_labels;
use roundtrip_run::RECORDING;
use roundtrip_run::storage::interference::{Condition, InterferencePlan};

use super::gates;
use super::measure::{Common, Measures};
use super::output;
use super::storage_options::{self, HasStorage, StorageOptions};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    storage: StorageOptions,
    conditions: Option<Vec<Condition>>,
    rounds: Option<u32>,
    duration_ns: Option<u64>,
    memory_percent: Option<u32>,
    io_limit: Option<u64>,
    common: Common,
}

impl HasStorage for Typed {
    fn storage(&mut self) -> &mut StorageOptions {
        &mut self.storage
    }
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["interference"];
    const REQUIRES: &'static [&'static str] = &["events"];

    const FORMAT: Opt<Self> = output::format(
        &["table", "json", "csv", "rounds", "markdown"],
        "The output format: json is the same as run.json in a run directory, csv and markdown have a line for each \
         figure, rounds is CSV with a line for each round and side.",
    );
    const OUT: Opt<Self> = output::out("Also writes the run and its recording into this directory.");

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The names of all conditions.
const CONDITION_NAMES: [&str; Condition::ALL.len()] = {
    let mut names = [""; Condition::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Condition::ALL[at].name();
        at += 1;
    }
    names
};

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "interference"],
    kind: Kind::Command,
    summary: "compares writes with and without background load",
    description: "Times one writer alone and under each condition: with a background load, or with another \
                  kernel setting (where completions are handled, the frequency governor, polling). The two \
                  alternate in short blocks in random order, so drift of the machine affects both alike. The \
                  report shows how long the application waits, how long the device takes, and what explains a \
                  difference: the CPU's frequency, the interrupt's CPU, the number of interrupts and IPIs, \
                  the path of the completion, and the CPU time that other processes used. A control compares \
                  the lone writer with itself, which shows how much is chance.\n\n\
                  Roundtrip restores every setting when it ends, also after kill -9. Kernel events, settings \
                  and limits need root. Without root the report says what is missing.",
    positionals: None,
    groups: &[
        Group {
            heading: "Conditions",
            options: &[
                Opt::list_of(
                    &["--conditions"],
                    "LIST",
                    &CONDITION_NAMES,
                    "Background loads: hog-same, hog-other, hog-all (CPU-bound processes on the writer's CPU, \
                     on another, on every CPU), timers, network (both on the CPU of the device's interrupt), \
                     files, fsync (in the same file system), memory. Settings: io-limit (of the control \
                     group), rq-affinity-0, rq-affinity-1, rq-affinity-2 (where completions are handled), \
                     performance, powersave, schedutil, ondemand (frequency governors), polled. alone: only \
                     the control.",
                    |typed: &mut Typed, text| set(&mut typed.conditions, values::list(text)),
                )
                .default("all that this machine supports"),
                Opt::value(
                    &["--memory-share"],
                    "PERCENT",
                    "The share of the free memory that the load 'memory' fills. It never takes the last 128 MiB.",
                    |typed: &mut Typed, text| set(&mut typed.memory_percent, values::whole(text.trim_end_matches('%'), 1..=90)),
                )
                .default("20"),
                Opt::value(
                    &["--io-limit"],
                    "SIZE",
                    "Bytes per second that the writer may write under io-limit.",
                    |typed: &mut Typed, text| set(&mut typed.io_limit, values::size_bytes(text).map(|size| size as u64)),
                )
                .default("4M"),
                rounds(),
                duration("1m"),
            ],
        },
        Group {
            heading: "What to write",
            options: &[
                storage_options::file(),
                storage_options::sizes("16k"),
                storage_options::writers("native"),
                storage_options::durability(),
                storage_options::position(),
                storage_options::file_size(),
                storage_options::warm_up("5"),
            ],
        },
        HOW,
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip storage interference", "Compares all conditions that this machine can produce, in about a minute."),
        (
            "roundtrip storage interference --conditions hog-same,hog-other --policy fifo:50 --out beside",
            "Compares a real-time writer with and without CPU-bound background load.",
        ),
    ],
    run,
};

/// How to write, and what to record.
pub(super) const HOW: Group<Typed> = Group {
    heading: "How",
    options: &[
        storage_options::policy(),
        storage_options::cpus("the first CPU that this process may use"),
        storage_options::java(),
        storage_options::no_recorder(),
        storage_options::buffer(),
    ],
};

/// How often each pair is measured.
pub(super) const fn rounds() -> Opt<Typed> {
    Opt::value(
        &["--rounds"],
        "N",
        "How often each pair of blocks is measured. A ratio has a confidence interval from 6 rounds on.",
        |typed: &mut Typed, text| set(&mut typed.rounds, values::whole(text, 1..=1000)),
    )
    .default("9")
}

/// How long it may take.
pub(super) const fn duration(default: &'static str) -> Opt<Typed> {
    Opt::value(
        &["--duration"],
        "TIME",
        "How long the whole measurement may take, to within one pair of blocks. If the time is too short, \
         Roundtrip first reduces the rounds, then leaves out conditions, and names them. It always measures \
         the control and one condition.",
        |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
    )
    .default(default)
}

/// Resolves the options, with a plan's values for what was not typed. `record` is the folder for
/// kernel events.
fn plan(
    typed: &Typed,
    default: InterferencePlan,
    record: Option<PathBuf>,
) -> Result<InterferencePlan, Usage> {
    let plan = InterferencePlan {
        write: typed.storage.plan(default.write, record),
        conditions: typed.conditions.clone().unwrap_or(default.conditions),
        all_conditions: typed.conditions.is_some(),
        rounds: typed.rounds.unwrap_or(default.rounds),
        duration_ns: typed.duration_ns.unwrap_or(default.duration_ns),
        memory_percent: typed.memory_percent.unwrap_or(default.memory_percent),
        io_limit_bytes_per_s: typed.io_limit.unwrap_or(default.io_limit_bytes_per_s),
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    measure(&typed, InterferencePlan::default(), "storage interference", terminal)
}

/// Measures with a plan's values for what was not typed, as the command with this name.
pub(super) fn measure(
    typed: &Typed,
    default: InterferencePlan,
    command: &str,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<Exit> {
    typed.storage.check()?;
    // Without a run directory, the recording is removed when the command ends.
    let directory = typed.common.output.directory()?;
    let record = (!typed.storage.no_recorder).then(|| directory.path().join(RECORDING));
    let plan = plan(typed, default, record)?;
    let run = typed.common.record(terminal, |_, progress| {
        Ok(interference::run(&plan, &Spawner::default(), progress)?.into())
    })?;
    typed.common.end(command, &run, Some(directory), terminal, |analysed, terminal| {
        let result = analysed.run.results.interference.as_ref();
        let Some(result) = result.filter(|_| typed.common.output.format.as_deref() == Some("rounds")) else {
            return Ok(false);
        };
        let text = roundtrip_report::storage::rounds::csv(result, &analysed.beside);
        terminal.out.write_all(with_labels(text, &run.labels).as_bytes())?;
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default(), InterferencePlan::default(), None).unwrap();
        // Use the plan's file name, because each plan has a new one.
        let mut default = InterferencePlan::default();
        default.write.file.clone_from(&plan.write.file);
        assert_eq!(plan, default);
        assert_eq!((plan.write.sizes_bytes, plan.write.warm_up), (vec![16 << 10], 5));
        assert_eq!((plan.rounds, plan.duration_ns, plan.memory_percent), (9, 60_000_000_000, 20));
        assert_eq!(plan.io_limit_bytes_per_s, 4 << 20);
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        let typed = Typed { io_limit: Some(7), ..Typed::default() };
        assert!(
            plan(&typed, InterferencePlan::default(), None)
                .unwrap_err()
                .to_string()
                .contains("4096 bytes a second")
        );
    }
}
