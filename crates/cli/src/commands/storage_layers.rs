//! `roundtrip storage layers`: where synchronous writes spend their time.

use std::path::PathBuf;

use roundtrip_bench::storage;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::RECORDING;
use roundtrip_run::storage::WriteEvents;
use roundtrip_run::storage::{MAX_CALLS, StoragePlan};

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
    pub(crate) storage: StorageOptions,
    pub(crate) calls: Option<u32>,
    pub(crate) rounds: Option<u32>,
    pub(crate) method: Option<String>,
    pub(crate) events: Option<WriteEvents>,
    pub(crate) common: Common,
}

impl HasStorage for Typed {
    fn storage(&mut self) -> &mut StorageOptions {
        &mut self.storage
    }
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["storage"];
    const REQUIRES: &'static [&'static str] = &["events"];

    const FORMAT: Opt<Self> = output::format(
        output::FORMATS,
        "The output format: json is run.json with the layers added, markdown has a line for each figure.",
    );
    const OUT: Opt<Self> = output::out("Also writes the run and its recording into this directory.");

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "layers"],
    kind: Kind::Command,
    summary: "shows where synchronous writes spend their time",
    description: "Times synchronous writes of several sizes, by a native program and by Java. From the \
                  kernel's events it assigns every instant of a call to exactly one layer: the application's \
                  runtime (platform), the file system (fs), threads that work on the write's behalf (helper), \
                  the block layer (block), the device, its interrupt (irq), or the wakeup of the writer \
                  (wake). So the layers add up to the call. It shows time that no event explains as \
                  unexplained.\n\n\
                  The events need root and tracefs. Without them the report has only response times, and says \
                  so.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to write",
            options: &[
                storage_options::file(),
                storage_options::sizes("4k,16k,64k,256k"),
                storage_options::writers("native,java-file"),
                storage_options::durability(),
                storage_options::position(),
                storage_options::file_size(),
                Opt::value(
                    &["--calls"],
                    "N",
                    "Timed writes of each writer and size.",
                    |typed: &mut Typed, text| set(&mut typed.calls, values::whole(text, 1..=MAX_CALLS)),
                )
                .default("100"),
                Opt::value(
                    &["--rounds"],
                    "N",
                    "How many blocks these writes are divided into. All blocks run in shuffled \
                     order.",
                    |typed: &mut Typed, text| set(&mut typed.rounds, values::whole(text, 1..=1000)),
                )
                .default("5"),
                storage_options::warm_up("20"),
            ],
        },
        Group {
            heading: "How",
            options: &[
                storage_options::policy(),
                storage_options::cpus("all"),
                storage_options::java(),
                Opt::one_of(
                    &["--method"],
                    "METHOD",
                    &["events", "strace"],
                    "events: the kernel's events. strace: also the study's method, which runs the same calls \
                     under strace; this shows what strace costs and what it misses.",
                    |typed: &mut Typed, text| set(&mut typed.method, values::any(text)),
                )
                .default("events"),
                Opt::one_of(
                    &["--events"],
                    "HOW-MUCH",
                    &["least", "usual", "diagnosis"],
                    "Which events to record. least: what is needed to divide a write. usual: everything that \
                     distinguishes the layers. diagnosis: also what helps to understand a delay in a trace \
                     viewer (queues, journal, workers, reclaim, frequency, idle states).",
                    |typed: &mut Typed, text| {
                        typed.events = Some(match text {
                            "least" => WriteEvents::Least,
                            "diagnosis" => WriteEvents::Diagnosis,
                            _ => WriteEvents::Usual,
                        });
                        Ok(())
                    },
                )
                .default("usual"),
                storage_options::no_recorder(),
                storage_options::buffer(),
                Opt::value(
                    &["--slowest"],
                    "N",
                    "How many of the slowest calls of each writer and size are shown in detail.",
                    |typed: &mut Typed, text| {
                        set(&mut typed.common.output.slowest, values::whole(text, 0..=1000))
                    },
                )
                .default("1"),
            ],
        },
        gates::group(),
        output::group(),
    ],
    examples: &[
        (
            "roundtrip storage layers",
            "Shows where writes to a file in the current directory spend their time.",
        ),
        (
            "roundtrip storage layers --writers native --durability dsync,fsync --sizes 4k-4M --out slow",
            "Compares two ways to make writes durable, and keeps the run.",
        ),
    ],
    run,
};

/// Resolves the options. `record` is the folder for kernel events.
pub(crate) fn plan(typed: &Typed, record: Option<PathBuf>) -> Result<StoragePlan, Usage> {
    let default = StoragePlan::default();
    let default = StoragePlan {
        calls: typed.calls.unwrap_or(default.calls),
        rounds: typed.rounds.unwrap_or(default.rounds),
        events: typed.events.unwrap_or(default.events),
        strace: typed.method.as_deref() == Some("strace"),
        ..default
    };
    let plan = typed.storage.plan(default, record);
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    typed.storage.check()?;
    // Without a run directory, the recording is removed when the command ends.
    let directory = typed.common.output.directory()?;
    let plan = plan(&typed, (!typed.storage.no_recorder).then(|| directory.path().join(RECORDING)))?;
    typed.common.measure("storage layers", Some(directory), terminal, |_, progress| {
        Ok(storage::run(&plan, &Spawner::default(), progress)?.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default(), None).unwrap();
        // Use the plan's file name, because each plan has a new one.
        assert_eq!(plan, StoragePlan { file: plan.file.clone(), ..StoragePlan::default() });
        assert_eq!(plan.sizes_bytes, [4 << 10, 16 << 10, 64 << 10, 256 << 10]);
        assert_eq!((plan.calls, plan.rounds, plan.warm_up), (100, 5, 20));
        assert_eq!((plan.file_bytes, plan.buffer_kilobytes), (16 << 20, 8 << 10));
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        let typed = Typed { calls: Some(2), ..Typed::default() };
        assert!(plan(&typed, None).unwrap_err().to_string().contains("divided among 5 rounds"));
        assert!(
            values::list::<roundtrip_run::storage::Api>("native,go")
                .unwrap_err()
                .to_string()
                .contains("unknown way to write 'go'")
        );
    }
}
