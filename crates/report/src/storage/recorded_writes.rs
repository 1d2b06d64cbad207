//! The writes in another tool's recording as text, CSV, Markdown and JSON, and what the recording
//! lacks. Pure: writes in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roundtrip_analysis::Analysed;
use roundtrip_analysis::observed_writes::{Slow, without};
use roundtrip_analysis::recorded_writes::RecordedWrites;
use roundtrip_analysis::without::Left;
use roundtrip_layers::reasons::Across;
use roundtrip_layers::storage::{Doubt, Expected};
use roundtrip_run::storage::observe::{UnseenWrites, WriteRow};
use roundtrip_run::{Cause, Run};
use roundtrip_tracefs::Trace;
use serde::Serialize;

use crate::explanation::names::thing;
use crate::explanation::without::Json as LeftJson;
use crate::figures;
use crate::storage::slow_writes::{self, Summed, WhyJson};
use crate::storage::{observed_writes, words};
use crate::text::inert;
use crate::text::look::Look;

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
    if writes.threads_unnumbered > 0 {
        lines.push(format!(
            "It contains 32-bit and 64-bit programs, whose system calls have different numbers. Of {} of its threads, no \
             call shows which: their writes are missing.",
            writes.threads_unnumbered
        ));
    }
    if writes.machine_unknown {
        lines.push(
            "It does not say which machine recorded it, and none of its system calls shows that: which of them are \
             writes is unknown."
                .to_owned(),
        );
    }
    // Binder calls need the scheduler's events, too. If they are missing, that is reported only
    // once.
    let said = |doubt: &&Doubt| match doubt {
        Doubt::NotEveryInterrupt => false,
        Doubt::Lacks(Expected::SysEnter | Expected::SysExit) => !writes.within_file_systems,
        Doubt::Lacks(Expected::Switch | Expected::Waking | Expected::Wakeup) => false,
        _ => true,
    };
    for doubt in words::doubts(writes.doubts.iter().filter(said)) {
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

/// The writes by thread, system call and file with their layers, and the slow ones explained; or
/// one of these.
#[must_use]
pub fn text(writes: &RecordedWrites, only: Option<usize>, look: Look) -> String {
    let slow = writes.slow();
    let slow = slow_writes::of_recording(&writes.result, &slow);
    let causes = writes.causes.in_words(&thing);
    let over_limit = (!writes.slowest).then_some(writes.result.over_limit);
    let left = left(writes, &causes);
    let text = || {
        let summed = Summed { causes: &causes, left: &left, over_limit };
        slow_writes::text(&slow, summed, only, look)
    };
    if only.is_some() {
        return text();
    }
    let mut out = String::new();
    let _ = writeln!(out, "{}.\n", observed_writes::answer(&writes.result));
    out.push_str(&observed_writes::tables(&writes.result, &[], look));
    if !slow.is_empty() {
        let _ = write!(out, "\n{}", text());
    }
    out
}

/// What would be left without each of the main causes.
fn left(writes: &RecordedWrites, causes: &Across) -> Vec<Left> {
    without(causes, &writes.result, writes.slowest)
}

/// One line for each figure. `name` is the recording's path.
#[must_use]
pub fn csv(name: &str, writes: &RecordedWrites) -> String {
    let run = Run::new(Default::default(), writes.result.clone().into(), None);
    figures::whole_csv(name, &Analysed::bare(&run))
}

/// The same tables as in [`text`], and a line for each slow write.
#[must_use]
pub fn markdown(writes: &RecordedWrites, only: Option<usize>) -> String {
    let parts = observed_writes::parts(&writes.result, observed_writes::MOST_ROWS);
    let slow = writes.slow();
    let slow = slow_writes::markdown(&slow_writes::of_recording(&writes.result, &slow), only);
    format!("{}\n{}\n{slow}", parts.calls.markdown(), parts.layers.markdown())
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
    causes: Vec<Cause>,
    without: Vec<LeftJson>,
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
    #[serde(flatten)]
    why: WhyJson,
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
                layers: slow_writes::times(&layers),
                others_commits: others.collect(),
                why: WhyJson::of(&layers),
            }
        });
        let result = &writes.result;
        Self {
            elapsed_ns: result.elapsed_ns,
            rows: &result.rows,
            slow_writes: slow_writes.collect(),
            over_limit: result.over_limit,
            causes: slow_writes::summed(&writes.causes),
            without: left(writes, &writes.causes.in_words(&thing)).iter().map(LeftJson::from).collect(),
            unseen: result.unseen,
        }
    }
}
