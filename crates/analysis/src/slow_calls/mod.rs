//! From what a run has kept of its slow calls to their explanations: reads the recording, and turns
//! what was measured into what is to be explained. Neither side knows the other; must not know how
//! explanations are shown.

mod measured;
mod observed;
pub(crate) mod recorded;

use std::path::Path;

use layers::{Explanation, RoundTrip, Timeline};
use run::{RECORDING, Run};
use tracefs::{Recording, Trace};

use crate::damage::refuse_damage;
use crate::error::{Error, Result};
pub use measured::{Calls, recorded_calls};
pub use recorded::{Recorded, Wanted, explain_recorded, recorded};

/// What a run has kept of its slow calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// The calls, the slowest first.
    pub calls: Vec<SlowCall>,
    /// How many calls there were in all, slow or not.
    pub all_calls: u64,
    /// What each was allowed, in nanoseconds.
    pub deadline_ns: u64,
    /// The median of all calls, in nanoseconds.
    pub usual_ns: Option<u64>,
    /// Whether the slowest calls were kept, whether they missed the deadline or not.
    pub slowest: bool,
    /// How many were to be kept at most.
    pub limit: u64,
    /// Slow calls beyond that.
    pub over_limit: u64,
    /// Calls that were made before there were enough to compare them with.
    pub before_comparison: u64,
    /// Why there is no recording for a call that has none.
    pub not_recorded: String,
}

/// A slow call as a run has kept it.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowCall {
    /// Counted from 1, the slowest first.
    pub number: usize,
    /// Calls of one kind, in the order in which kinds are shown.
    pub kind: (usize, usize),
    /// What that kind is called: "hwbinder, pair P0".
    pub kind_name: String,
    /// What the call was: "hwbinder, pair P0, fifo:99 caller".
    pub what: String,
    /// The call's instants and threads, and what is usual.
    pub trip: RoundTrip,
    /// Which snapshot of the recording holds it; `None` when none does.
    pub snapshot: Option<u32>,
}

impl Kept {
    /// Those of a run; `None` for a run that was not to keep any.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        let virtualised = run.environment.cpus.virtualised == Some(true);
        let measured = run.results.latency.as_ref().and_then(|result| measured::kept(result, virtualised));
        measured.or_else(|| observed::kept(run.results.observed_calls.as_ref()?, virtualised))
    }

    /// With numbers, the slowest first. Of the same length, the earlier comes first: as they are
    /// stored.
    fn ranked(mut self) -> Self {
        self.calls.sort_by_key(|call| std::cmp::Reverse(call.trip.duration_ns()));
        (1..).zip(&mut self.calls).for_each(|(number, call)| call.number = number);
        self
    }
}

/// A slow call with its explanation.
pub struct Explained {
    /// The call as the run has kept it.
    pub call: SlowCall,
    /// What it was allowed, in nanoseconds.
    pub deadline_ns: u64,
    /// What it spent its time on.
    pub explanation: Explanation,
    /// Why there are no kernel events for it.
    pub without_events: Option<String>,
    /// What of its recording is damaged, at the first call of each snapshot.
    pub damage: Option<Error>,
}

/// Explains those of the kept calls that are wanted, the slowest first. `directory` has the run's
/// recording, in which names are changed by `rename`.
///
/// # Errors
/// When the recording is there and cannot be read.
pub fn explain(
    kept: &Kept,
    directory: &Path,
    wanted: impl Fn(&SlowCall) -> bool,
    rename: Option<&dyn Fn(&str) -> String>,
) -> Result<Vec<Explained>> {
    let recording = directory.join(RECORDING);
    let recording = recording.exists().then(|| Recording::open(&recording)).transpose()?;
    // Calls that were made at the same time share a snapshot.
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
                        trace.names.change(|name| Some(rename(name)));
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
                layers::explain(&Timeline::new(trace), &call.trip)
            }
            _ => layers::explain_without_events(&call.trip),
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
