//! Aggregates writes by thread, system call and file. The number of rows bounds the memory.

use std::collections::HashMap;

use latency::{Deadline, Histogram};
use run::observe::Process;
use run::storage::observe::{Divided, Durable, MAX_ROWS, WriteRow};
use writes::Observed;

/// What makes a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) process: Process,
    pub(super) tid: u32,
    pub(super) call: &'static str,
    pub(super) durable: Durable,
    pub(super) file: String,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<WriteRow>,
    places: HashMap<Key, usize>,
    /// Writes for which there was no row any more.
    pub(super) others: u64,
}

impl Rows {
    /// Counts a write, and tells its row.
    pub(super) fn add(
        &mut self,
        key: Key,
        thread: impl FnOnce() -> String,
        write: &Observed,
        deadline: Deadline,
    ) -> Option<usize> {
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if self.rows.len() >= MAX_ROWS => {
                self.others += 1;
                return None;
            }
            None => {
                let place = self.rows.len();
                let Key { process, tid, call, durable, file } = key.clone();
                self.rows.push(WriteRow {
                    process,
                    tid,
                    thread: thread(),
                    call: call.to_owned(),
                    durable,
                    file,
                    latency: Histogram::growing(),
                    bytes: 0,
                    missed: 0,
                    failed: 0,
                    throttled: 0,
                    divided: None,
                });
                self.places.insert(key, place);
                place
            }
        };
        let row = &mut self.rows[place];
        row.latency.record(write.latency_ns());
        row.missed += u64::from(write.latency_ns() > deadline.ns);
        row.failed += u64::from(write.result < 0);
        row.throttled += u64::from(write.throttled);
        if write.operation.writes() {
            row.bytes += u64::try_from(write.result).unwrap_or(0);
        }
        Some(place)
    }

    /// The rows with where their time went, the one with the most time in it first; and where each
    /// was before.
    pub(super) fn finish(self, divided: Vec<Option<Divided>>) -> (Vec<WriteRow>, Vec<usize>) {
        let divided = divided.into_iter().chain(std::iter::repeat(None));
        let mut rows: Vec<(usize, WriteRow)> = (0..)
            .zip(self.rows.into_iter().zip(divided).map(|(row, divided)| WriteRow { divided, ..row }))
            .collect();
        rows.sort_by_key(|(place, row)| (std::cmp::Reverse(row.latency.sum_ns()), *place));
        let mut places = vec![0; rows.len()];
        for (now, (before, _)) in rows.iter().enumerate() {
            places[*before] = now;
        }
        (rows.into_iter().map(|(_, row)| row).collect(), places)
    }
}
