//! Explains the slow calls that a run has kept. Reads the recording, and converts measurements to
//! the input of the explanation, so that `run` and `layers` need not know each other. Must not know
//! how explanations are shown.

mod measured;
mod observed;
pub(crate) mod recorded;

use std::path::Path;

use roundtrip_latency::Histogram;
use roundtrip_layers::reasons::{Across, Operation};
use roundtrip_layers::{Explanation, RoundTrip, Timeline};
use roundtrip_run::{RECORDING, Run};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Recording, Trace};

use crate::damage::refuse_damage;
use crate::error::{Error, Result};
use crate::without::{Left, Whole};
pub use measured::{Calls, recorded_calls, sum_up_others};
pub use observed::Missed;
pub use recorded::{Recorded, Wanted, classify, explain_recorded, recorded};

/// The minimum number of calls of one kind for a meaningful median.
const MANY: u64 = 10;

/// The slow calls that a run has kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// The calls, slowest first.
    pub calls: Vec<SlowCall>,
    /// The durations of all calls, slow or not.
    pub durations: Histogram,
    /// How long the calls were measured, in nanoseconds; 0 if that is not known.
    pub elapsed_ns: u64,
    /// The deadline, in nanoseconds.
    pub deadline_ns: u64,
    /// True if the slowest calls were kept even if they met the deadline.
    pub slowest: bool,
    /// The maximum number of calls to keep.
    pub limit: u64,
    /// The number of further slow calls.
    pub over_limit: u64,
    /// What delayed those of them that a recording shows.
    pub others: Across,
    /// What delayed all slow calls, kept or not, if that was found while they were made and there
    /// are further ones. Then `others` is empty.
    pub all: Option<Across>,
    /// Slow calls that were made before there were enough calls to compare them with.
    pub before_comparison: u64,
    /// The reason why some calls have no recording.
    pub not_recorded: String,
}

/// A slow call that a run has kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowCall {
    /// Counted from 1, the slowest first.
    pub number: usize,
    /// Identifies calls of the same kind, in the order in which kinds are shown.
    pub kind: (usize, usize),
    /// The name of the kind: "hwbinder, pair P0".
    pub kind_name: String,
    /// A description of the call: "hwbinder, pair P0, fifo:99 caller".
    pub what: String,
    /// The call's timestamps and threads, and the usual duration.
    pub trip: RoundTrip,
    /// The snapshot that contains the call; `None` if there is none.
    pub snapshot: Option<u32>,
}

impl Kept {
    /// The total number of calls, slow or not.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        self.durations.count()
    }

    /// How many calls missed the deadline; `None` if these are the slowest ones.
    #[must_use]
    pub fn missed(&self) -> Option<u64> {
        (!self.slowest).then(|| self.calls.len() as u64 + self.over_limit)
    }

    /// How many of the further slow calls are classified.
    #[must_use]
    pub fn classified(&self) -> u64 {
        let all = self.all.as_ref().map(|all| all.operations().saturating_sub(self.calls.len() as u64));
        all.unwrap_or_else(|| self.others.operations())
    }

    /// The slow calls of a run; `None` if the plan did not request any.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        let virtualised = run.environment.cpus.virtualised == Some(true);
        let measured = run.results.latency.as_ref().and_then(|result| measured::kept(result, virtualised));
        measured.or_else(|| observed::kept(run.results.observed_calls.as_ref()?, virtualised))
    }

    /// Numbers the calls, slowest first. Calls of the same duration stay in the stored order, which
    /// is chronological.
    fn ranked(mut self) -> Self {
        self.calls.small_sort_by_key(|call| std::cmp::Reverse(call.trip.duration_ns()));
        (1..).zip(&mut self.calls).for_each(|(number, call)| call.number = number);
        self
    }
}

/// A call, as far as its time matters.
pub(crate) fn timed(trip: &RoundTrip) -> Operation {
    let RoundTrip { start_ns, deadline_ns, .. } = *trip;
    Operation { start_ns, duration_ns: trip.duration_ns(), deadline_ns }
}

/// A slow call with its explanation.
pub struct Explained {
    /// The call.
    pub call: SlowCall,
    /// The deadline, in nanoseconds.
    pub deadline_ns: u64,
    /// What delayed it.
    pub explanation: Explanation,
    /// Why there are no kernel events for the call; `None` if there are.
    pub without_events: Option<String>,
    /// The damage in its snapshot. Set only for the first call of each snapshot.
    pub damage: Option<Error>,
}

/// What delayed all slow calls that are known: those with details, and the others that could be
/// classified.
#[must_use]
pub fn across(explained: &[Explained], kept: &Kept) -> Across {
    if let Some(all) = &kept.all {
        return all.clone();
    }
    let mut across = Across::default();
    explained.iter().for_each(|one| across.add_timed(timed(&one.call.trip), &one.explanation.reasons));
    across.merge(&kept.others);
    across
}

/// What would be left without each of the main causes of these sums.
#[must_use]
pub fn without(across: &Across, kept: &Kept) -> Vec<Left> {
    let Kept { durations, elapsed_ns, .. } = kept;
    let missed = kept.missed().map(|missed| (kept.deadline_ns, missed));
    crate::without::without(across, Whole { durations, missed, elapsed_ns: *elapsed_ns })
}

/// Explains the selected calls, slowest first. `directory` contains the run's recording, whose
/// names are replaced by `rename`.
///
/// # Errors
/// If the recording exists but cannot be read.
pub fn explain(
    kept: &Kept,
    directory: &Path,
    wanted: impl Fn(&SlowCall) -> bool,
    rename: Option<&dyn Fn(&str) -> String>,
) -> Result<Vec<Explained>> {
    let recording = directory.join(RECORDING);
    let recording = recording.exists().then(|| Recording::open(&recording)).transpose()?;
    // Simultaneous calls share a snapshot.
    let mut last: Option<(u32, Trace)> = None;
    let mut damage = None;
    let mut out = Vec::new();
    for call in kept.calls.iter().filter(|call| wanted(call)) {
        let without_events = match (call.snapshot, &recording) {
            (Some(snapshot), Some(recording)) => {
                if last.as_ref().is_none_or(|(read, _)| *read != snapshot) {
                    let mut trace = recording.read(snapshot)?;
                    damage = refuse_damage(recording, snapshot, &trace).err();
                    if let Some(rename) = rename {
                        trace.change_names(rename);
                    }
                    last = Some((snapshot, trace));
                }
                None
            }
            (Some(_), None) => Some(format!("its recording is not in {}", directory.display())),
            (None, _) => Some(kept.not_recorded.clone()),
        };
        let explanation = match &last {
            Some((_, trace)) if without_events.is_none() => {
                roundtrip_layers::explain(&Timeline::new(trace), &call.trip)
            }
            _ => roundtrip_layers::explain_without_events(&call.trip),
        };
        out.push(Explained {
            call: call.clone(),
            deadline_ns: kept.deadline_ns,
            explanation,
            without_events,
            damage: damage.take(),
        });
    }
    Ok(out)
}
