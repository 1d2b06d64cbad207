//! The frequencies and idle states of a CPU. Must not know what ran on it.

use super::{CpuLine, During, during};

impl CpuLine {
    /// The CPU's frequencies in kHz during a stretch, as far as they are known.
    pub(crate) fn frequencies(&self, from_ns: u64, to_ns: u64) -> Vec<During<u32>> {
        let mut all = during(&self.frequencies, from_ns, to_ns, 0);
        all.retain(|during| during.what > 0);
        all
    }

    /// The idle state in which the CPU was last before an instant, and when it left it;
    /// `u64::MAX` if it did not. `None` if no event shows it.
    pub(crate) fn last_idle(&self, time_ns: u64) -> Option<(u32, u64)> {
        let after = self.idle.partition_point(|change| change.0 < time_ns);
        let index = self.idle[..after].iter().rposition(|change| change.1.is_some())?;
        let left_ns = self.idle.get(index + 1).map_or(u64::MAX, |change| change.0);
        Some((self.idle[index].1?, left_ns))
    }

    /// Its highest frequency in the recording, in kHz.
    pub(crate) fn most_khz(&self) -> u32 {
        self.frequencies.iter().map(|change| change.1).max().unwrap_or(0)
    }
}
