//! The calls that are stored beside the snapshots. Must not know which calls were slow.

use roundtrip_latency::Sample;
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::{CALLS, RecordedCalls};

use super::super::tape::{Open, Tape};
use super::Flight;

impl Flight {
    /// Whether there are snapshots whose calls are not stored yet.
    pub(in crate::ipc::latency) fn wants_calls(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| !tape.open.is_empty())
    }

    /// Adds one caller's calls that lie in these snapshots. `complete` says whether these are all.
    pub(in crate::ipc::latency) fn recorded(
        &mut self,
        series: usize,
        pair: usize,
        caller: Scheduling,
        complete: bool,
        samples: &[Sample],
    ) {
        for Open { number, window, calls } in self.tape.iter_mut().flat_map(|tape| &mut tape.open) {
            let within: Vec<Sample> = samples.iter().copied().filter(|sample| window.holds(sample)).collect();
            if !within.is_empty() || !complete {
                let (snapshot, count) = (*number, within.len() as u64);
                calls
                    .push((RecordedCalls { snapshot, series, pair, caller, calls: count, complete }, within));
            }
        }
    }

    /// Stores the collected calls. If there is no space for them, recording ends.
    pub(in crate::ipc::latency) fn store_calls(&mut self) {
        let spare = self.spare_snapshots();
        let Some(tape) = &mut self.tape else { return };
        let open = std::mem::take(&mut tape.open);
        for Open { number, mut calls, .. } in open.into_iter().filter(|open| !spare.contains(&open.number)) {
            // Clients may answer in any order.
            calls.sort_by_key(|(of, _)| (of.series, of.pair));
            let bytes: Vec<u8> = calls.iter().flat_map(|(_, calls)| Sample::encode_all(calls)).collect();
            let put = |tape: &Option<Tape>| match tape {
                Some(tape) => tape.recording.put_beside(number, CALLS, &bytes),
                None => Ok(()),
            };
            let stored = match put(&self.tape) {
                Err(_) if self.give_back() => put(&self.tape),
                stored => stored,
            };
            if let Err(error) = stored {
                self.give_up(format!("recording ended: {error}"));
                return;
            }
            self.recorded.extend(calls.into_iter().map(|(of, _)| of));
        }
    }
}
