//! Stores only the buckets in use, in 16 bytes each. The buckets are those of the fixed form.

/// The buckets in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Sparse {
    /// The highest value of each bucket in nanoseconds, ascending, and its count.
    counts: Vec<(u64, u64)>,
    total: u64,
}

/// The width of a value's bucket: below 2048 each nanosecond has one, above it 1024 share a power
/// of two.
fn width(value: u64) -> u64 {
    1 << value.checked_ilog2().unwrap_or(0).saturating_sub(10)
}

impl Sparse {
    /// Counts `value` `times` times.
    pub(super) fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.total += times;
        let highest = value | (width(value) - 1);
        match self.counts.binary_search_by_key(&highest, |(value, _)| *value) {
            Ok(place) => self.counts[place].1 += times,
            Err(place) => {
                // Doubling the capacity would leave up to half of it unused.
                if self.counts.len() == self.counts.capacity() {
                    self.counts.reserve_exact(self.counts.len() / 4 + 1);
                }
                self.counts.insert(place, (highest, times));
            }
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.total += other.total;
        let mut both = Vec::with_capacity(self.counts.len() + other.counts.len());
        both.extend(self.counts.iter().chain(&other.counts).copied());
        both.sort_by_key(|(value, _)| *value);
        both.dedup_by(|again, first| {
            let same = again.0 == first.0;
            first.1 += if same { again.1 } else { 0 };
            same
        });
        both.shrink_to_fit();
        self.counts = both;
    }

    pub(super) fn len(&self) -> u64 {
        self.total
    }

    /// The highest value and the count of each bucket in use, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().copied()
    }

    /// The highest value of the bucket of the `rank`-th shortest duration, counted from 1.
    pub(super) fn ranked(&self, rank: u64) -> u64 {
        let mut below = 0;
        let at = self.counts.iter().find(|(_, times)| {
            below += times;
            below >= rank
        });
        at.or(self.counts.last()).map_or(0, |(value, _)| *value)
    }

    /// The standard deviation, from the middle of each bucket.
    pub(super) fn stdev(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let total = self.total as f64;
        let middles = || {
            self.iter().map(|(highest, times)| ((highest - (width(highest) - 1) / 2) as f64, times as f64))
        };
        let mean = middles().fold(0.0, |sum, (middle, times)| sum + middle * times / total);
        let squares = middles().fold(0.0, |sum, (middle, times)| sum + (middle - mean).powi(2) * times);
        (squares / total).sqrt()
    }
}
