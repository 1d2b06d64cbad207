//! Counts writes by thread, system call and file. Those with the most time have rows of their own.
//! Must not know where writes come from.

use roundtrip_latency::{Deadline, Histogram};

use super::{Durable, MAX_ROWS, WriteRow};
use crate::heaviest::{Finished, Heaviest, Others, Row};
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
#[derive(Debug)]
pub struct Rows(Heaviest<RowKey, WriteRow>);

impl Default for Rows {
    /// Without writes.
    fn default() -> Self {
        let others = RowKey {
            process: Process::default(),
            tid: 0,
            call: "",
            durable: Durable::Unknown,
            file: String::new(),
        };
        Self(Heaviest::new(MAX_ROWS, row(&others, String::new())))
    }
}

impl Rows {
    /// Counts a write, and returns the place of its row. `thread` is called for each new row, and
    /// returns the thread's name.
    pub fn add(
        &mut self,
        key: RowKey,
        thread: impl FnOnce() -> String,
        write: Counted,
        deadline: Deadline,
    ) -> usize {
        let place = self.0.place(key, |key| row(key, thread()));
        if let Some(row) = self.0.at(place) {
            row.latency.record(write.latency_ns);
            row.missed += u64::from(write.latency_ns > deadline.ns);
            row.failed += u64::from(write.result < 0);
            row.throttled += u64::from(write.throttled);
            if write.writes {
                row.bytes += u64::try_from(write.result).unwrap_or(0);
            }
        }
        place
    }

    /// Whether the table should be shrunk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Merges those with the least time. Returns the new place of each row, by its place before.
    #[must_use = "whoever has kept places must change them"]
    pub fn shrink(&mut self) -> Vec<usize> {
        self.0.shrink()
    }

    /// The rows, not divided among layers, sorted by total time, with the sum of all others last.
    /// Also returns the new place of each row, by its place before.
    #[must_use]
    pub fn finish(self) -> (Vec<WriteRow>, Vec<usize>) {
        let Finished { mut rows, places, others } = self.0.finish();
        rows.extend(others.map(|Others { row, rows, beyond_ns }| WriteRow {
            stands_for: rows,
            beyond_ns,
            ..row
        }));
        (rows, places)
    }
}

impl Row for WriteRow {
    fn sum_ns(&self) -> u64 {
        self.latency.sum_ns()
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.missed += other.missed;
        self.failed += other.failed;
        self.throttled += other.throttled;
    }
}

/// A row without writes.
fn row(key: &RowKey, thread: String) -> WriteRow {
    let RowKey { process, tid, call, durable, file } = key.clone();
    WriteRow {
        process,
        tid,
        thread,
        call: call.to_owned(),
        durable,
        file,
        latency: Histogram::growing(),
        bytes: 0,
        missed: 0,
        failed: 0,
        throttled: 0,
        divided: None,
        stands_for: 0,
        beyond_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(rows: &mut Rows, tid: u32, latency_ns: u64) -> usize {
        let process = Process { pid: tid, name: "thread".into() };
        let key = RowKey { process, tid, call: "fsync", durable: Durable::Call, file: "x".into() };
        let counted = Counted { latency_ns, result: 0, writes: false, throttled: false };
        rows.add(key, || format!("t{tid}"), counted, Deadline { ns: 900 })
    }

    #[test]
    fn a_flood_of_threads_leaves_a_row_to_the_program_that_writes_most() {
        let mut rows = Rows::default();
        let mut places = Vec::new();
        let add = |rows: &mut Rows, places: &mut Vec<usize>, tid, ns| {
            places.push(add(rows, tid, ns));
            if rows.is_full() {
                let moved = rows.shrink();
                places.iter_mut().for_each(|place| *place = moved[*place]);
            }
        };
        (10..5_010).for_each(|tid| add(&mut rows, &mut places, tid, 1_000));
        (0..200).for_each(|_| add(&mut rows, &mut places, 7, 800));
        let (rows, moved) = rows.finish();
        places.iter_mut().for_each(|place| *place = moved[*place]);
        assert_eq!(rows.len(), MAX_ROWS + 1);
        let (first, others) = (&rows[0], &rows[MAX_ROWS]);
        assert_eq!((first.tid, first.latency.count(), first.missed), (7, 200, 0));
        assert_eq!((first.thread.as_str(), first.stands_for, others.call.as_str()), ("t7", 0, ""));
        assert_eq!(others.stands_for, 5_001 - MAX_ROWS as u64);
        assert_eq!(rows.iter().map(|row| row.latency.count()).sum::<u64>(), 5_200);
        assert_eq!(rows.iter().map(|row| row.missed).sum::<u64>(), 5_000);
        assert!((1_000..=12_000).contains(&others.beyond_ns), "{}", others.beyond_ns);
        // Each write is still in the row that counts it.
        for (place, row) in rows.iter().enumerate() {
            let here = places.iter().filter(|at| **at == place).count() as u64;
            assert_eq!(here, row.latency.count(), "{place}");
        }
    }
}
