//! The calls of a run that are stored beside its recording. Must not know what they are used for.

use std::ops::RangeInclusive;

use roundtrip_latency::{Placement, Policy, Sample};
use roundtrip_run::ipc::latency::{CALLS, CallsOf, Explained, RecordedCalls};
use roundtrip_tracefs::Recording;

use crate::error::{Error, Result};

/// All calls within a snapshot's window, slow or not, by caller. `None` for a recording without
/// stored calls.
///
/// # Errors
/// [`roundtrip_tracefs::Error`] if the calls cannot be read, [`roundtrip_run::Error::NotARun`] if
/// they are not the calls that the run lists.
pub(crate) fn recorded_calls(
    explained: &Explained,
    recording: &Recording,
    snapshot: u32,
) -> Result<Option<Vec<CallsOf>>> {
    let Some(bytes) = recording.beside(snapshot, CALLS)? else { return Ok(None) };
    let damaged = |reason: String| {
        let path = recording.directory().join(format!("snapshots/{snapshot:04}/{CALLS}"));
        Error::from(roundtrip_run::Error::NotARun { path, reason })
    };
    let samples = Sample::decode_all(&bytes).map_err(|error| damaged(error.to_string()))?;
    let mut samples = samples.into_iter();
    let of = explained.recorded.iter().filter(|of| of.snapshot == snapshot);
    let calls = of.map(|&of| {
        let calls: Vec<Sample> = samples.by_ref().take(of.calls.try_into().unwrap_or(usize::MAX)).collect();
        (of, calls)
    });
    let calls: Vec<_> = calls.collect();
    let whole = calls.iter().all(|(of, calls)| of.calls == calls.len() as u64);
    if !whole || samples.next().is_some() {
        return Err(damaged("damaged: it does not contain the calls that the run lists".into()));
    }
    let header = recording.snapshot(snapshot)?;
    let recorded =
        header.started_ns.or(header.stopped_ns).unwrap_or(0)..=header.stopped_ns.unwrap_or(u64::MAX);
    if !calls.iter().all(|(of, calls)| plausible(of, calls, &recorded)) {
        return Err(damaged("damaged: it contains impossible calls".into()));
    }
    Ok(Some(calls))
}

/// Whether these can be the calls of one caller during the recording: they start in chronological
/// order, have the caller's policy and a valid priority, and lie at least partly within the
/// recording.
fn plausible(of: &RecordedCalls, calls: &[Sample], recorded: &RangeInclusive<u64>) -> bool {
    let one = |call: &Sample| {
        let Placement { policy, priority, nice, .. } = call.caller;
        let known = !matches!(policy, Policy::Unknown(_)) && policy == of.caller.policy;
        known
            && priority <= 99
            && (-20..=19).contains(&nice)
            && call.start_ns <= call.end_ns
            && call.start_ns <= *recorded.end()
            && call.end_ns >= *recorded.start()
    };
    calls.iter().all(one) && calls.is_sorted_by_key(|call| call.start_ns)
}
