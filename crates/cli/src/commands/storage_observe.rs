//! `roundtrip storage observe`: attributes the time of other programs' synchronous writes to
//! layers.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use roundtrip_analysis::causes;
use roundtrip_analysis::observed_writes::Divider;
use roundtrip_bench::observe::{self, Divide, Ended};
use roundtrip_layers::storage::Write;
use roundtrip_run::storage::Device;
use roundtrip_run::storage::observe::{Divided, ObserveWritesPlan};
use roundtrip_run::{Causes, RECORDING};
use roundtrip_tracefs::Trace;

use super::gates;
use super::measure::{Common, Measures};
use super::observe_options::{self, ObserveOptions, Observes, Observing};
use super::output;
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Usage, values};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    observing: ObserveOptions,
    file: Option<PathBuf>,
    common: Common,
}

impl Observes for Typed {
    fn observing(&mut self) -> &mut ObserveOptions {
        &mut self.observing
    }
}

impl Measures for Typed {
    const TESTS: &'static [&'static str] = &["observed_writes"];

    const OUT: Opt<Self> =
        output::out("Also writes the run into this directory, with the recordings of slow writes.");

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "observe"],
    kind: Kind::Command,
    summary: "shows where other programs' synchronous writes spend their time",
    description: "Observes the synchronous writes of other programs: fsync, fdatasync, sync_file_range, msync, sync and \
                  syncfs; writes to files opened with O_SYNC or O_DSYNC; pwritev2 with RWF_SYNC or RWF_DSYNC; and the \
                  same through io_uring and Linux AIO. Attributes the time of each to layers, as 'storage layers' does, and shows it \
                  by thread, system call and file. Also shows buffered writes that had to wait for the device, and \
                  waits for journal commits that another thread started.\n\n\
                  The programs are neither stopped nor changed. Requires root and tracefs.",
    positionals: Some(observe_options::command()),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                observe_options::pid("Observes only the writes of this process."),
                observe_options::name(
                    "Observes only the writes of processes with this name: the program's file name, without its directory.",
                ),
                Opt::value(
                    &["--file"],
                    "FILE",
                    "Observes only the writes to this file.",
                    |typed: &mut Typed, text| set(&mut typed.file, values::any(text)),
                ),
                observe_options::duration(),
                observe_options::deadline(
                    "A write that takes longer than this, such as 20ms, is slow.",
                    "20ms",
                ),
                observe_options::limit(
                    "Keeps this many of the slowest slow writes in detail; of the others, only the causes.",
                ),
                observe_options::buffer("8M"),
            ],
        },
        gates::group(),
        output::group(),
    ],
    examples: &[
        ("roundtrip storage observe --name postgres --duration 30s", "Shows what a database waits for."),
        (
            "roundtrip storage observe --deadline 50ms --out monday -- ./my-writer",
            "Runs one program, observes it until it exits, and keeps its slow writes.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObserveWritesPlan, Usage> {
    let mut plan = ObserveWritesPlan::default();
    let ObserveWritesPlan { subject, duration_ns, deadline, limit, kilobytes, .. } = &mut plan;
    typed.observing.apply(Observing { subject, duration_ns, deadline, limit, kilobytes })?;
    let file = typed.file.clone();
    if let Some(file) = &file {
        let refuse = |why: &str| Err(Usage(format!("--file {}: {why}", file.display())));
        let Ok(found) = file.metadata() else { return refuse("no such file") };
        let kind = found.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            return refuse("what is written to it does not go to a disk");
        }
    }
    Ok(ObserveWritesPlan { file, ..plan })
}

/// Attributes the time of recorded writes to layers. The observer itself does not know the layers.
struct Dividing(Divider);

impl Divide for Dividing {
    fn divide(&mut self, trace: &Trace, devices: &[Device], writes: &[Ended]) {
        let writes =
            writes.iter().map(|&Ended { row, start_ns, end_ns, tid }| (row, Write { start_ns, end_ns, tid }));
        self.0.add(trace, devices, writes);
    }

    fn moved(&mut self, places: &[usize]) {
        self.0.moved(places);
    }

    fn finish(&mut self) -> Vec<Option<Divided>> {
        self.0.finish()
    }

    fn causes(&mut self) -> Causes {
        causes::stored(self.0.causes(), &roundtrip_report::explanation::thing)
    }
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    let directory = typed.common.output.directory()?;
    plan.directory = directory.path().join(RECORDING);
    typed.common.measure("storage observe", Some(directory), terminal, |_, progress| {
        Ok(observe::run_writes(&plan, &mut Dividing(Divider::new(plan.deadline.ns)), progress)?.into())
    })
}
