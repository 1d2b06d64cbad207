//! Counts writes by thread, system call and file. The number of rows is limited, to limit the
//! memory. Must not know where writes come from.

use std::collections::HashMap;

use roundtrip_latency::{Deadline, Histogram};

use super::{Divided, Durable, MAX_ROWS, WriteRow};
use crate::observe::Process;

/// Identifies a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The process that made the write.
    pub process: Process,
    /// The id of the writing thread.
    pub tid: u32,
    /// The system call's name.
    pub call: &'static str,
    /// Why the call waits for the device.
    pub durable: Durable,
    /// The file's name; empty for a call without a file.
    pub file: String,
}

/// The properties of one write that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How long the write took, in nanoseconds.
    pub latency_ns: u64,
    /// The system call's result; negative for an error.
    pub result: i64,
    /// Whether the result is a number of bytes.
    pub writes: bool,
    /// Whether the kernel throttled the write because too many pages were dirty.
    pub throttled: bool,
}

/// The rows so far.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<WriteRow>,
    places: HashMap<RowKey, usize>,
    others: u64,
}

impl Rows {
    /// Counts a write, and returns the index of its row. `None` if the write would need a row
    /// beyond [`MAX_ROWS`]. `thread` is called for each new row, and returns the thread's name.
    pub fn add(
        &mut self,
        key: RowKey,
        thread: impl FnOnce() -> String,
        write: Counted,
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
                let RowKey { process, tid, call, durable, file } = key.clone();
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
        row.latency.record(write.latency_ns);
        row.missed += u64::from(write.latency_ns > deadline.ns);
        row.failed += u64::from(write.result < 0);
        row.throttled += u64::from(write.throttled);
        if write.writes {
            row.bytes += u64::try_from(write.result).unwrap_or(0);
        }
        Some(place)
    }

    /// The number of writes that would have needed further rows.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The rows with their layers, sorted by total time. Also returns the new position of each row,
    /// indexed by the number that [`Rows::add`] returned.
    #[must_use]
    pub fn finish(self, divided: Vec<Option<Divided>>) -> (Vec<WriteRow>, Vec<usize>) {
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
