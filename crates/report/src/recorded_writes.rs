//! The writes in another tool's recording as text, CSV, Markdown and JSON, and what the recording
//! lacks. Pure: writes in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use analysis::observed_writes::Slow;
use analysis::recorded_writes::RecordedWrites;
use layers::storage::{Doubt, Expected, Layer};
use run::storage::observe::{UnseenWrites, WriteRow};
use serde::Serialize;
use tracefs::Trace;

use super::look::Look;
use super::{inert, observed_writes, observed_writes_csv, storage_words};

/// Optional events that show more than a write's layers, and what each group of them shows.
const WANTED: [(&[&str], &str); 3] = [
    (
        &[
            "ext4/ext4_sync_file_enter",
            "f2fs/f2fs_sync_file_enter",
            "xfs/xfs_file_fsync",
            "btrfs/btrfs_sync_file",
        ],
        "which files were made durable, and whether a file was opened with O_SYNC or O_DSYNC: writes to such a file \
         count as buffered",
    ),
    (&["jbd2/jbd2_start_commit"], "whose journal commit a write waited for"),
    (&["io_uring/io_uring_submit_req"], "the writes of io_uring: they are missing"),
];

/// What the recording of these writes lacks, one sentence each.
#[must_use]
pub fn lacks(writes: &RecordedWrites, trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    if writes.within_file_systems {
        lines.push(
            "It has no system calls (raw_syscalls or syscalls/*): a write is the time between two events of the file \
             system, without the time before and after."
                .to_owned(),
        );
    }
    if let Some(machine) = &writes.machine_taken {
        lines.push(format!(
            "It does not say which machine recorded it: the architecture is inferred as {}, from the numbers of system \
             calls that waited for a device.",
            inert::name(machine)
        ));
    }
    // Binder calls need the scheduler's events, too. If they are missing, that is reported only
    // once.
    let said = |doubt: &&Doubt| match doubt {
        Doubt::NotEveryInterrupt => false,
        Doubt::Lacks(Expected::SysEnter | Expected::SysExit) => !writes.within_file_systems,
        Doubt::Lacks(Expected::Switch | Expected::Waking | Expected::Wakeup) => false,
        _ => true,
    };
    for doubt in storage_words::doubts(writes.doubts.iter().filter(said)) {
        lines.push(format!("Writes: {doubt}."));
    }
    if writes.doubts.contains(&Doubt::NotEveryInterrupt) {
        lines.push(
            "It does not have every kind of interrupt (not recorded, or none occurred): their work counts as that of \
             the interrupted threads."
                .to_owned(),
        );
    }
    for (events, what) in WANTED {
        if !events.iter().any(|event| trace.has(event)) {
            lines.push(format!(
                "It has no event {} (not recorded, or it never occurred), which shows {what}.",
                events[0]
            ));
        }
    }
    lines
}

/// The writes by thread, system call and file, their layers, and the slow ones.
#[must_use]
pub fn text(writes: &RecordedWrites, only: Option<usize>, look: Look) -> String {
    let slow = chosen(writes, only);
    let mut out = String::new();
    let _ = writeln!(out, "{}.\n", observed_writes::answer(&writes.result));
    out + &observed_writes::tables(&writes.result, &slow, look)
}

/// One line for each row.
#[must_use]
pub fn csv(writes: &RecordedWrites) -> String {
    observed_writes_csv::csv(&writes.result)
}

/// The same tables as in [`text`].
#[must_use]
pub fn markdown(writes: &RecordedWrites, only: Option<usize>) -> String {
    let parts = observed_writes::parts(&writes.result, &chosen(writes, only));
    format!("{}\n{}", parts.calls.markdown(), parts.layers.markdown())
}

/// The slow writes, or only the one with this number, counted from 1.
fn chosen(writes: &RecordedWrites, only: Option<usize>) -> Vec<Slow<'_>> {
    let slow = (1..).zip(writes.slow());
    slow.filter(|(number, _)| only.is_none_or(|only| only == *number)).map(|(_, slow)| slow).collect()
}

/// The writes, as a part of the JSON of explanations.
#[derive(Serialize)]
pub(crate) struct Json<'a> {
    elapsed_ns: u64,
    rows: &'a [WriteRow],
    slow_writes: Vec<SlowJson>,
    over_limit: u64,
    unseen: UnseenWrites,
}

#[derive(Serialize)]
struct SlowJson {
    row: usize,
    tid: u32,
    start_ns: u64,
    end_ns: u64,
    layers: BTreeMap<&'static str, u64>,
    others_commits: Vec<CommitJson>,
}

#[derive(Serialize)]
struct CommitJson {
    tid: u32,
    thread: String,
    waited_ns: u64,
}

impl<'a> Json<'a> {
    pub(crate) fn of(writes: &'a RecordedWrites, only: Option<usize>) -> Self {
        let slow_writes = chosen(writes, only).into_iter().map(|Slow { write, layers }| {
            let times = Layer::ALL.into_iter().map(|layer| (layer.name(), layers.total_ns(layer)));
            let others = layers.others_commits.iter().map(|other| CommitJson {
                tid: other.by.unwrap_or(0),
                thread: other.comm.clone(),
                waited_ns: other.waited_ns,
            });
            SlowJson {
                row: write.row,
                tid: write.tid,
                start_ns: write.start_ns,
                end_ns: write.end_ns,
                layers: times.filter(|(_, ns)| *ns > 0).collect(),
                others_commits: others.collect(),
            }
        });
        let result = &writes.result;
        Self {
            elapsed_ns: result.elapsed_ns,
            rows: &result.rows,
            slow_writes: slow_writes.collect(),
            over_limit: result.over_limit,
            unseen: result.unseen,
        }
    }
}
