//! Durations over the course of a run: a bounded number of equal bins, each with counts, extremes
//! and a coarse histogram. This file knows no clocks or files.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, resolvable};

/// The durations of calls by the time when they began.
///
/// There are at most [`Self::MOST_BINS`] bins, so the size does not grow with the number of calls.
/// If a call lies beyond the last possible bin, the width of all bins doubles.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    start_ns: u64,
    width_ns: u64,
    /// The bins from the start on. Bins without calls are empty.
    bins: Vec<Bin>,
}

/// The calls that began in one bin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bin {
    count: u64,
    missed: u64,
    min_ns: u64,
    max_ns: u64,
    /// The counts by the highest value of each bucket.
    counts: BTreeMap<u64, u64>,
}

impl Timeline {
    /// The largest number of bins.
    pub const MOST_BINS: usize = 256;
    /// The initial width of a bin, in nanoseconds.
    pub const FINEST_NS: u64 = 100_000;
    /// Largest relative error of a bin's percentile: a bucket is at most 1/16 of its values wide.
    pub const RELATIVE_ERROR: f64 = 1.0 / 16.0;

    /// An empty timeline for calls that begin at `start_ns` (CLOCK_BOOTTIME) or later.
    #[must_use]
    pub fn new(start_ns: u64) -> Self {
        Self { start_ns, width_ns: Self::FINEST_NS, bins: Vec::new() }
    }

    /// The CLOCK_BOOTTIME instant at which the first bin begins. For merged runs, that of the first
    /// run.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// The width of a bin, in nanoseconds.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The bins that have calls, ascending, with their start in nanoseconds since the timeline's
    /// start.
    pub fn bins(&self) -> impl Iterator<Item = (u64, &Bin)> {
        let begins = (0..).map(|index| index * self.width_ns);
        begins.zip(&self.bins).filter(|(_, bin)| bin.count > 0)
    }

    /// Adds a call: its start (CLOCK_BOOTTIME), its duration, and whether it missed its deadline.
    pub fn record(&mut self, began_ns: u64, took_ns: u64, missed: bool) {
        let bin = self.bin(began_ns.saturating_sub(self.start_ns));
        bin.count += 1;
        bin.missed += u64::from(missed);
        bin.min_ns = bin.min_ns.min(took_ns);
        bin.max_ns = bin.max_ns.max(took_ns);
        *bin.counts.entry(bucket(took_ns)).or_default() += 1;
    }

    /// Adds the calls of `other`. Each keeps its time since the start of its own timeline.
    pub fn merge(&mut self, other: &Self) {
        while self.width_ns < other.width_ns {
            self.widen();
        }
        other.bins().for_each(|(from_ns, bin)| self.bin(from_ns).add(bin));
    }

    /// The bin of a time since the start.
    fn bin(&mut self, since_ns: u64) -> &mut Bin {
        while since_ns / self.width_ns >= Self::MOST_BINS as u64 {
            self.widen();
        }
        let index = (since_ns / self.width_ns) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::EMPTY);
        }
        &mut self.bins[index]
    }

    fn widen(&mut self) {
        self.width_ns *= 2;
        let two = |bins: &[Bin]| {
            let mut both = bins[0].clone();
            bins[1..].iter().for_each(|bin| both.add(bin));
            both
        };
        self.bins = self.bins.chunks(2).map(two).collect();
    }
}

impl Bin {
    /// The number of calls that began in the bin.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number of these calls that missed their deadline.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The shortest call, exactly, in nanoseconds.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The longest call, exactly, in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The duration that `percent` (0–100) of the calls do not exceed, in nanoseconds, within
    /// [`Timeline::RELATIVE_ERROR`] and clamped to the exact extremes. `None` if it is not
    /// [`resolvable`].
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = (percent / 100.0 * self.count as f64 * (1.0 - 1e-12)).ceil().max(1.0) as u64;
        let mut below = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        let value = reached.map(|(&top_ns, _)| top_ns.clamp(self.min_ns, self.max_ns));
        value.filter(|_| resolvable(self.count, percent))
    }

    const EMPTY: Self = Self { count: 0, missed: 0, min_ns: u64::MAX, max_ns: 0, counts: BTreeMap::new() };

    fn add(&mut self, other: &Self) {
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        // A file of unknown origin may contain any value.
        self.count = self.count.saturating_add(other.count);
        self.missed = self.missed.saturating_add(other.missed);
        for (&top_ns, &count) in &other.counts {
            let ours = self.counts.entry(top_ns).or_default();
            *ours = ours.saturating_add(count);
        }
    }
}

/// The highest value of the bucket of a value: the value's five leading bits, then ones.
fn bucket(value_ns: u64) -> u64 {
    let free = (u64::BITS - value_ns.leading_zeros()).saturating_sub(5);
    value_ns | ((1 << free) - 1)
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    start_ns: u64,
    width_ns: u64,
    bins: Vec<StoredBin>,
}

/// A bin's stored form. The percentiles are derived from the counts, and are not read back.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBin {
    from_ns: u64,
    count: u64,
    missed: u64,
    min_ns: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: u64,
    counts: Vec<(u64, u64)>,
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = |(from_ns, bin): (u64, &Bin)| StoredBin {
            from_ns,
            count: bin.count,
            missed: bin.missed,
            min_ns: bin.min_ns,
            p50_ns: bin.percentile_ns(50.0),
            p99_ns: bin.percentile_ns(99.0),
            max_ns: bin.max_ns,
            counts: bin.counts.iter().map(|(&top_ns, &count)| (top_ns, count)).collect(),
        };
        let Self { start_ns, width_ns, .. } = *self;
        Stored { start_ns, width_ns, bins: self.bins().map(stored).collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timeline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Stored::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Stored> for Timeline {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let doublings = stored.width_ns / Self::FINEST_NS;
        if !doublings.is_power_of_two() || !stored.width_ns.is_multiple_of(Self::FINEST_NS) {
            return Err(Error::TimelineContent("invalid bin width"));
        }
        let mut timeline = Self { start_ns: stored.start_ns, width_ns: stored.width_ns, bins: Vec::new() };
        for StoredBin { from_ns, count, missed, min_ns, max_ns, counts, .. } in stored.bins {
            if !from_ns.is_multiple_of(stored.width_ns) || from_ns / stored.width_ns >= Self::MOST_BINS as u64
            {
                return Err(Error::TimelineContent("a bin starts at an invalid time"));
            }
            let sum = counts.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
            let bin = Bin { count, missed, min_ns, max_ns, counts: counts.into_iter().collect() };
            if count == 0 || sum != Some(count) || missed > count || min_ns > max_ns {
                return Err(Error::TimelineContent("a bin's figures contradict each other"));
            }
            let empty = timeline.bin(from_ns);
            if empty.count > 0 {
                return Err(Error::TimelineContent("two bins begin at the same time"));
            }
            *empty = bin;
        }
        Ok(timeline)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START_NS: u64 = 5_000_000_000;

    fn of(calls: &[(u64, u64)]) -> Timeline {
        let mut timeline = Timeline::new(START_NS);
        calls
            .iter()
            .for_each(|&(after_ns, took_ns)| timeline.record(START_NS + after_ns, took_ns, took_ns > 1000));
        timeline
    }

    fn stored(timeline: &Timeline) -> Timeline {
        serde_json::from_str(&serde_json::to_string(timeline).expect("serialises")).expect("comes back")
    }

    #[test]
    fn a_bin_has_the_calls_that_began_in_it() {
        let timeline = of(&[(0, 20), (99_999, 30), (250_000, 5000)]);
        let bins: Vec<_> = timeline.bins().map(|(from, bin)| (from, bin.count(), bin.missed())).collect();
        assert_eq!(bins, [(0, 2, 0), (200_000, 1, 1)]);
        let (_, first) = timeline.bins().next().expect("two bins");
        assert_eq!((first.min_ns(), first.percentile_ns(50.0), first.max_ns()), (20, Some(20), 30));
        assert_eq!(first.percentile_ns(99.0), None);
    }

    #[test]
    fn a_long_run_has_a_bounded_number_of_bins_and_loses_no_call() {
        let hour_ns = 3_600_000_000_000;
        let timeline = of(&(0..10_000).map(|call| (call * (hour_ns / 10_000), 50)).collect::<Vec<_>>());
        let bins = timeline.bins().count();
        assert!((Timeline::MOST_BINS / 2..=Timeline::MOST_BINS).contains(&bins), "{bins}");
        assert_eq!(timeline.bins().map(|(_, bin)| bin.count()).sum::<u64>(), 10_000);
        assert_eq!(of(&[(u64::MAX - START_NS, 1)]).bins().count(), 1);
    }

    #[test]
    fn an_inconsistent_stored_form_is_rejected() {
        let good = serde_json::to_string(&of(&[(0, 20), (250_000, 5000)])).expect("serialises");
        for (from, to) in [
            ("\"width_ns\":100000", "\"width_ns\":0"),
            ("\"width_ns\":100000", "\"width_ns\":300000"),
            ("\"from_ns\":200000", "\"from_ns\":200001"),
            ("\"from_ns\":200000", "\"from_ns\":0"),
            ("\"from_ns\":200000", "\"from_ns\":25600000"),
            ("\"count\":1", "\"count\":2"),
            ("\"missed\":1", "\"missed\":2"),
            ("\"min_ns\":20", "\"min_ns\":21"),
            ("[20,1]", "[20,18446744073709551615]"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            assert!(serde_json::from_str::<Timeline>(&bad).is_err(), "{bad}");
        }
    }

    fn calls() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let spread = |bits: std::ops::Range<u32>| {
            (bits, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1))
        };
        proptest::collection::vec((spread(0..45), spread(0..45)), 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn merging_stored_timelines_equals_recording_everything_in_one(a in calls(), b in calls()) {
            let mut merged = stored(&of(&a));
            merged.merge(&stored(&of(&b)));
            let together = of(&a.into_iter().chain(b).collect::<Vec<_>>());
            prop_assert_eq!(merged.bins().collect::<Vec<_>>(), together.bins().collect::<Vec<_>>());
            prop_assert_eq!(merged.width_ns(), together.width_ns());
        }

        #[test]
        fn percentiles_stay_within_the_stated_error(
            mut values in proptest::collection::vec(0..1_u64 << 40, 1..60), percent in 0.0..100.0_f64,
        ) {
            let timeline = of(&values.iter().map(|&took_ns| (0, took_ns)).collect::<Vec<_>>());
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let read = timeline.bins().next().expect("one bin").1.percentile_ns(percent);
            prop_assert_eq!(read.is_some(), resolvable(values.len() as u64, percent));
            let near = |ns: u64| (ns as f64 - exact).abs() <= exact * Timeline::RELATIVE_ERROR;
            prop_assert!(read.is_none_or(near), "{read:?} for {exact}");
        }
    }
}
