//! `roundtrip storage layers`: where synchronous writes spend their time.

use std::path::PathBuf;

use bench::run::{RECORDING, Results, Run};
use bench::sched::Scheduling;
use bench::scratch::Scratch;
use bench::storage::{self, Api, Durability, Java, MAX_CALLS, Position, StoragePlan};
use bench::worker::Spawner;

use super::finish::finish;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::format;
use crate::progress::ProgressLine;
use crate::storage_layers::divide;
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    pub(crate) file: Option<PathBuf>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) sizes_bytes: Option<Vec<u64>>,
    pub(crate) apis: Option<Vec<Api>>,
    pub(crate) durabilities: Option<Vec<Durability>>,
    pub(crate) position: Option<Position>,
    pub(crate) calls: Option<u32>,
    pub(crate) rounds: Option<u32>,
    pub(crate) warm_up: Option<u32>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) java: Option<Java>,
    pub(crate) no_recorder: bool,
    pub(crate) buffer_kilobytes: Option<u64>,
    pub(crate) slowest: Option<usize>,
    pub(crate) format: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "layers"],
    kind: Kind::Command,
    summary: "divides synchronous writes among application, kernel and device",
    description: "Times synchronous writes of several sizes, by a native program and by Java, and divides every call \
                  among the layers by the kernel's own events: the application's runtime (platform), the file system \
                  (fs), threads that work for it (helper), the block layer (block), the device, its interrupt (irq), \
                  and the waking of who waited (wake). At each instant exactly one layer has the time, so the layers \
                  add up to the call; what no event explains is shown as such.\n\n\
                  The events need root and tracefs. Without them response times are measured, and it is said.",
    positionals: None,
    groups: &[
        Group {
            heading: "What to write",
            options: &[
                Opt::path(
                    &["--file"],
                    "FILE",
                    "The file to write to. It must not exist: it is made, and removed at the end.",
                    |typed: &mut Typed, text| {
                        typed.file = Some(text.into());
                        Ok(())
                    },
                )
                .default("roundtrip-PID.test in this directory"),
                Opt::value(
                    &["--sizes"],
                    "SIZES",
                    "Bytes of a write, separated by commas; 4k-4M stands for each doubling.",
                    |typed: &mut Typed, text| {
                        let sizes = values::sizes_bytes(text)?;
                        typed.sizes_bytes = Some(sizes.into_iter().map(|size| size as u64).collect());
                        Ok(())
                    },
                )
                .default("4k,16k,64k,256k"),
                Opt::value(
                    &["--writers"],
                    "LIST",
                    "Through what: native (system calls), java-file (RandomAccessFile), java-channel (FileChannel), \
                     java-channel-direct (with a direct buffer).",
                    |typed: &mut Typed, text| {
                        typed.apis = Some(list(text)?);
                        Ok(())
                    },
                )
                .default("native,java-file"),
                Opt::value(
                    &["--durability"],
                    "LIST",
                    "How each write is made durable: sync (O_SYNC, Java's rws), dsync (O_DSYNC, Java's rwd), fsync, \
                     fdatasync (a call behind the write).",
                    |typed: &mut Typed, text| {
                        typed.durabilities = Some(list(text)?);
                        Ok(())
                    },
                )
                .default("dsync"),
                Opt::one_of(
                    &["--position"],
                    "WHERE",
                    &["overwrite", "append"],
                    "Over a file that has its blocks already, or to the end of one that grows from nothing.",
                    |typed: &mut Typed, text| {
                        typed.position = Some(text.parse().map_err(|error: bench::Error| error.to_string())?);
                        Ok(())
                    },
                )
                .default("overwrite"),
                Opt::value(
                    &["--file-size"],
                    "SIZE",
                    "How long the file is that is written over.",
                    |typed: &mut Typed, text| {
                        typed.file_bytes = Some(values::size_bytes(text)? as u64);
                        Ok(())
                    },
                )
                .default("16M"),
                Opt::value(
                    &["--calls"],
                    "N",
                    "Timed writes of each writer and size.",
                    |typed: &mut Typed, text| {
                        typed.calls = Some(values::whole(text, 1..=MAX_CALLS)?);
                        Ok(())
                    },
                )
                .default("100"),
                Opt::value(
                    &["--rounds"],
                    "N",
                    "Into how many blocks they are divided; all blocks are in shuffled order.",
                    |typed: &mut Typed, text| {
                        typed.rounds = Some(values::whole(text, 1..=1000)?);
                        Ok(())
                    },
                )
                .default("5"),
                Opt::value(
                    &["--warm-up"],
                    "N",
                    "Untimed writes before each block.",
                    |typed: &mut Typed, text| {
                        typed.warm_up = Some(values::whole(text, 0..=MAX_CALLS)?);
                        Ok(())
                    },
                )
                .default("20"),
            ],
        },
        Group {
            heading: "How",
            options: &[
                Opt::value(
                    &["--policy"],
                    "POLICY",
                    "How the writing thread is scheduled: other, nice:N, fifo:N, rr:N.",
                    |typed: &mut Typed, text| {
                        typed.scheduling = Some(text.parse().map_err(|error: bench::Error| error.to_string())?);
                        Ok(())
                    },
                )
                .default("as this process is"),
                Opt::value(&["--cpus"], "LIST", "The CPUs that writers may use.", |typed: &mut Typed, text| {
                    typed.cpus = Some(values::cpu_list(text)?);
                    Ok(())
                })
                .default("all"),
                Opt::value(
                    &["--java"],
                    "COMMAND",
                    "The Java to run, with its arguments. With a class path the class SyncWriter is run from there, as \
                     Android's runtime needs it.",
                    |typed: &mut Typed, text| {
                        typed.java = Some(Java { command: text.split_whitespace().map(str::to_owned).collect() });
                        Ok(())
                    },
                )
                .default("$JAVA_HOME/bin/java, else java"),
                Opt::flag(
                    &["--no-recorder"],
                    "Times the calls only, without the kernel's events.",
                    |typed: &mut Typed| typed.no_recorder = true,
                ),
                Opt::value(
                    &["--buffer"],
                    "SIZE",
                    "The trace buffer of each CPU; the events of a block must fit.",
                    |typed: &mut Typed, text| {
                        typed.buffer_kilobytes = Some((values::size_bytes(text)? as u64).div_ceil(1024).max(64));
                        Ok(())
                    },
                )
                .default("8M"),
            ],
        },
        Group {
            heading: "Output",
            options: &[
                Opt::value(
                    &["--slowest"],
                    "N",
                    "How many of the slowest calls of each writer and size are told one by one.",
                    |typed: &mut Typed, text| {
                        typed.slowest = Some(values::whole(text, 0..=1000)?);
                        Ok(())
                    },
                )
                .default("1"),
                Opt::one_of(
                    &["--format"],
                    "FORMAT",
                    &["table", "json", "csv"],
                    "How the result is printed; json is what a run directory holds.",
                    |typed: &mut Typed, text| {
                        typed.format = Some(text.to_owned());
                        Ok(())
                    },
                )
                .default("table"),
                Opt::path(
                    &["--out"],
                    "DIR",
                    "Also writes the run, with what was recorded, into this directory.",
                    |typed: &mut Typed, text| {
                        typed.out = Some(text.into());
                        Ok(())
                    },
                ),
            ],
        },
    ],
    examples: &[
        ("roundtrip storage layers", "Divides writes to a file in this directory."),
        (
            "roundtrip storage layers --writers native --durability dsync,fsync --sizes 4k-4M --out slow",
            "Compares two ways to make writes durable, and keeps the run.",
        ),
    ],
    run,
};

fn list<T: std::str::FromStr<Err = bench::Error>>(text: &str) -> Result<Vec<T>, String> {
    text.split(',').map(|name| name.parse().map_err(|error: bench::Error| error.to_string())).collect()
}

/// What the options mean. `record` is where the kernel's events go.
pub(crate) fn plan(typed: &Typed, record: Option<PathBuf>) -> Result<StoragePlan, Usage> {
    let default = StoragePlan::default();
    let plan = StoragePlan {
        file: typed.file.clone().unwrap_or(default.file),
        file_bytes: typed.file_bytes.unwrap_or(default.file_bytes),
        sizes_bytes: typed.sizes_bytes.clone().unwrap_or(default.sizes_bytes),
        apis: typed.apis.clone().unwrap_or(default.apis),
        durabilities: typed.durabilities.clone().unwrap_or(default.durabilities),
        position: typed.position.unwrap_or(default.position),
        calls: typed.calls.unwrap_or(default.calls),
        rounds: typed.rounds.unwrap_or(default.rounds),
        warm_up: typed.warm_up.unwrap_or(default.warm_up),
        scheduling: typed.scheduling,
        cpus: typed.cpus.clone(),
        java: typed.java.clone().unwrap_or(default.java),
        record,
        buffer_kilobytes: typed.buffer_kilobytes.unwrap_or(default.buffer_kilobytes),
    };
    plan.check().map_err(|error| Usage(error.to_string()))?;
    Ok(plan)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    // Without a run directory the recording lasts as long as this command.
    let mut scratch = None;
    let directory = match &typed.out {
        Some(directory) => directory.clone(),
        None => scratch.insert(Scratch::new()?).path().to_owned(),
    };
    let plan = plan(&typed, (!typed.no_recorder).then(|| directory.join(RECORDING)))?;
    let run = {
        let mut line = ProgressLine::new(terminal.err);
        Run::record(|_| {
            let result = storage::run(&plan, &Spawner::default(), &mut |progress| line.show(progress))?;
            Ok::<_, bench::Error>(Results::from(result))
        })?
    };
    finish(&run, typed.out.as_deref(), terminal, |terminal| {
        let Some(result) = &run.results.storage else { return Ok(()) };
        let keep = typed.slowest.unwrap_or(1);
        let layers = divide(result, &directory, keep)?;
        let text = match typed.format.as_deref() {
            Some("json") => run.to_json()?,
            Some("csv") => format::storage::csv(result, &layers),
            _ => format::run::page(&run, &format::storage::page(result, &layers, terminal.out_colour)),
        };
        Ok(terminal.out.write_all(text.as_bytes())?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_is_the_default_and_the_help_says_the_same() {
        let plan = plan(&Typed::default(), None).unwrap();
        assert_eq!(plan, StoragePlan::default());
        assert_eq!(plan.sizes_bytes, [4 << 10, 16 << 10, 64 << 10, 256 << 10]);
        assert_eq!((plan.calls, plan.rounds, plan.warm_up), (100, 5, 20));
        assert_eq!((plan.file_bytes, plan.buffer_kilobytes), (16 << 20, 8 << 10));
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        let typed = Typed { calls: Some(2), ..Typed::default() };
        assert!(plan(&typed, None).unwrap_err().to_string().contains("divided among 5 rounds"));
        assert!(list::<Api>("native,go").unwrap_err().contains("unknown way to write 'go'"));
    }
}
