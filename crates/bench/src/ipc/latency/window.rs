//! Which calls lie in a recorded window. The parent notes each recorded window in a file, and each
//! client keeps its latest calls until it has read that file. Costs nothing within a call. Must not
//! know what is recorded, nor how calls are made.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use roundtrip_latency::Sample;

use crate::error::{Error, Result};

/// How long a client keeps calls outside all known windows, in nanoseconds. A window reaches back
/// 50 ms, and the parent notes it as soon as its pages are stored.
const KEEP_NS: u64 = 500_000_000;

/// A period that was recorded completely, in nanoseconds of CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Window {
    const BYTES: usize = 16;

    /// Whether any part of a call was recorded.
    pub(super) fn holds(&self, sample: &Sample) -> bool {
        sample.start_ns <= self.to_ns && sample.end_ns >= self.from_ns
    }

    /// Appends the window to the file that clients read.
    pub(super) fn note(&self, path: &Path) -> Result<()> {
        let bytes = [self.from_ns.to_le_bytes(), self.to_ns.to_le_bytes()].concat();
        let noted =
            File::options().create(true).append(true).open(path).and_then(|mut file| file.write_all(&bytes));
        noted.map_err(|cause| Error::file("write", path, cause))
    }
}

/// The windows that a client knows, shared by all of its callers.
#[derive(Debug)]
pub(super) struct Windows {
    file: File,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    windows: Vec<Window>,
    /// The number of windows, from the first, whose calls the parent has received.
    answered: usize,
}

impl Windows {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|cause| Error::file("open", path, cause))?;
        Ok(Self { file, known: Mutex::default() })
    }

    /// The windows whose calls the parent has not received yet, and the number of windows before
    /// them.
    fn unanswered(&self) -> Result<(Vec<Window>, usize)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; Window::BYTES];
        let failed = |cause| Error::system("read which calls were recorded", cause);
        // A half-written window is read the next time.
        while {
            let at = known.windows.len() * Window::BYTES;
            self.file.read_at(&mut bytes, at as u64).map_err(failed)? == bytes.len()
        } {
            let (from_ns, to_ns) = bytes.split_at(8);
            let number = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
            known.windows.push(Window { from_ns: number(from_ns), to_ns: number(to_ns) });
        }
        Ok((known.windows[known.answered..].to_vec(), known.answered))
    }

    /// Marks all known windows as reported to the parent.
    pub(super) fn answered(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.answered = known.windows.len();
    }
}

/// The latest calls of one caller, and earlier ones that lie in a window.
#[derive(Debug, Default)]
pub(super) struct History {
    recent: Vec<Sample>,
    recorded: Vec<Sample>,
    /// The end of the last discarded call, in nanoseconds.
    forgotten_ns: u64,
    /// How many windows were known at the last search.
    seen: usize,
    incomplete: bool,
}

impl History {
    /// Adds calls that followed the earlier ones, and discards those too old to lie in a window.
    pub(super) fn add(&mut self, samples: &[Sample], windows: &Windows) -> Result<()> {
        self.recent.extend_from_slice(samples);
        let Some(newest) = self.recent.last() else { return Ok(()) };
        let until_ns = newest.end_ns.saturating_sub(KEEP_NS);
        let old = self.recent.partition_point(|sample| sample.end_ns < until_ns);
        if old > 0 {
            let windows = self.look(windows)?;
            self.forgotten_ns = self.recent[old - 1].end_ns;
            let old = self.recent.drain(..old);
            self.recorded.extend(old.filter(|sample| within(sample, &windows)));
        }
        Ok(())
    }

    /// The calls that lie in windows not yet reported to the parent, and whether these are all.
    pub(super) fn recorded(&mut self, windows: &Windows) -> Result<(Vec<Sample>, bool)> {
        let windows = self.look(windows)?;
        let mut recorded = std::mem::take(&mut self.recorded);
        recorded.extend(self.recent.iter().filter(|sample| within(sample, &windows)));
        Ok((recorded, !std::mem::take(&mut self.incomplete)))
    }

    fn look(&mut self, windows: &Windows) -> Result<Vec<Window>> {
        let (unanswered, before) = windows.unanswered()?;
        // Discarded calls were searched only for the windows known at that time.
        let mut new = unanswered.iter().skip(self.seen.saturating_sub(before));
        self.incomplete |= new.any(|window| window.from_ns <= self.forgotten_ns);
        self.seen = before + unanswered.len();
        Ok(unanswered)
    }
}

fn within(sample: &Sample, windows: &[Window]) -> bool {
    windows.iter().any(|window| window.holds(sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn call(start_ns: u64) -> Sample {
        Sample { start_ns, end_ns: start_ns + 10, ..Sample::default() }
    }

    fn note(path: &Path, from_ns: u64, to_ns: u64) {
        Window { from_ns, to_ns }.note(path).unwrap();
    }

    #[test]
    fn calls_in_a_window_are_reported_once_at_any_age() {
        let path = std::env::temp_dir().join(format!("roundtrip-windows-{}", std::process::id()));
        File::create(&path).unwrap();
        let windows = Windows::open(&path).unwrap();
        let mut history = History::default();
        history.add(&[100, 200, 300].map(call), &windows).unwrap();
        // From the end of the first to the start of the third.
        note(&path, 110, 300);
        history.add(&[5 * SECOND_NS, 6 * SECOND_NS].map(call), &windows).unwrap();
        let (calls, complete) = history.recorded(&windows).unwrap();
        assert_eq!((calls, complete), ([100, 200, 300].map(call).to_vec(), true));
        windows.answered();
        // Calls that are still kept are found in a later window. Discarded calls are reported as
        // missing.
        note(&path, 6 * SECOND_NS, 7 * SECOND_NS);
        assert_eq!(history.recorded(&windows).unwrap(), (vec![call(6 * SECOND_NS)], true));
        windows.answered();
        note(&path, 5 * SECOND_NS, 5 * SECOND_NS + 1);
        assert_eq!(history.recorded(&windows).unwrap(), (Vec::new(), false));
        windows.answered();
        assert_eq!(history.recorded(&windows).unwrap(), (Vec::new(), true));
        std::fs::remove_file(&path).unwrap();
    }
}
