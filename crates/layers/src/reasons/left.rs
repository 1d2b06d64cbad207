//! What would be left of many slow operations without one of their causes: how long those that lost
//! time to it would have taken, and when those began that would have met their deadline. Must not
//! know what a cause is.

use std::collections::BTreeMap;

use roundtrip_latency::Histogram;

/// The least that [`OverTime::clumps`] returns. Operations that came at regular intervals may come
/// less regularly in another run.
const REGULAR: f64 = 0.5;

/// How much more the numbers in 64 stretches may vary than they seem to, if they vary little.
const SEEMS_REGULAR: f64 = 1.5;

/// A slow operation, as far as its time matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its start, in nanoseconds of any monotonic clock.
    pub start_ns: u64,
    /// Its duration, in nanoseconds.
    pub duration_ns: u64,
    /// Its deadline, in nanoseconds; `None` if it had none.
    pub deadline_ns: Option<u64>,
}

/// The times of slow operations, whatever delayed them.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// How long those took of whose delay at most a tenth is unknown.
    pub known: Histogram,
    /// How long the others took.
    pub unknown: Histogram,
    /// Those that missed their deadline.
    pub missed: OverTime,
}

impl Default for Timed {
    /// Without operations.
    fn default() -> Self {
        let (known, unknown) = (Histogram::growing(), Histogram::growing());
        Self { known, unknown, missed: OverTime::default() }
    }
}

impl Timed {
    /// Adds an operation, whose delay may be unknown.
    pub(super) fn add(&mut self, of: Operation, unknown: bool) {
        let durations = if unknown { &mut self.unknown } else { &mut self.known };
        durations.record(of.duration_ns);
        if of.missed() {
            self.missed.add(of.start_ns);
        }
    }

    /// Adds other operations.
    pub(super) fn merge(&mut self, other: &Self) {
        self.known.merge(&other.known);
        self.unknown.merge(&other.unknown);
        self.missed.merge(&other.missed);
    }
}

/// What operations that lost time to a cause would have been without it.
#[derive(Clone, Debug, PartialEq)]
pub struct Without {
    /// How long they took.
    pub took: Histogram,
    /// How long they would have taken.
    pub would_take: Histogram,
    /// Those that missed their deadline, and would have met it.
    pub saved: OverTime,
}

impl Default for Without {
    /// Without operations. There is one for each cause, so they start small.
    fn default() -> Self {
        let (took, would_take) = (Histogram::growing(), Histogram::growing());
        Self { took, would_take, saved: OverTime::default() }
    }
}

impl Without {
    /// Adds an operation that lost this time to the cause, in nanoseconds.
    pub(super) fn add(&mut self, of: Operation, lost_ns: u64) {
        let would_take_ns = of.duration_ns.saturating_sub(lost_ns);
        self.took.record(of.duration_ns);
        self.would_take.record(would_take_ns);
        if of.deadline_ns.is_some_and(|deadline_ns| of.missed() && would_take_ns <= deadline_ns) {
            self.saved.add(of.start_ns);
        }
    }

    /// Adds other operations.
    pub(super) fn merge(&mut self, other: &Self) {
        self.took.merge(&other.took);
        self.would_take.merge(&other.would_take);
        self.saved.merge(&other.saved);
    }
}

impl Operation {
    /// Whether it missed its deadline.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.deadline_ns.is_some_and(|deadline_ns| self.duration_ns > deadline_ns)
    }
}

/// How many operations began in each stretch of time. The stretches have one length, a power of
/// two, which grows so that there are at most [`OverTime::MOST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTime {
    /// The length of a stretch is two to the power of this, in nanoseconds.
    shift: u32,
    /// The number of operations in each stretch that has some, by its number.
    counts: BTreeMap<u64, u64>,
}

impl Default for OverTime {
    /// Without operations, in stretches of a millisecond.
    fn default() -> Self {
        Self { shift: 20, counts: BTreeMap::new() }
    }
}

impl OverTime {
    /// The most stretches with operations.
    pub const MOST: usize = 256;

    /// Stored counts: the binary logarithm of the stretches' length in nanoseconds, and the number
    /// of operations in each by its number.
    #[must_use]
    pub fn stored(shift: u32, counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let shift = shift.clamp(1, 63);
        let mut out = Self { shift, counts: BTreeMap::new() };
        for (stretch, count) in counts {
            // The stretches may have become longer. No later one begins in 64 bits.
            out.count((stretch.min(u64::MAX >> shift)) >> (out.shift - shift), count);
        }
        out
    }

    /// The binary logarithm of the stretches' length in nanoseconds, and the number of operations
    /// in each that has some.
    pub fn counts(&self) -> (u32, impl Iterator<Item = (u64, u64)> + '_) {
        (self.shift, self.counts.iter().map(|(stretch, count)| (*stretch, *count)))
    }

    /// Adds an operation.
    fn add(&mut self, start_ns: u64) {
        self.count(start_ns >> self.shift, 1);
    }

    /// Adds other operations.
    fn merge(&mut self, other: &Self) {
        self.widen(other.shift);
        for (stretch, count) in &other.counts {
            self.count(stretch >> (self.shift - other.shift), *count);
        }
    }

    /// Adds operations to a stretch of the length at the time of the call.
    fn count(&mut self, stretch: u64, count: u64) {
        let of = self.counts.entry(stretch).or_default();
        *of = of.saturating_add(count);
        while self.counts.len() > Self::MOST {
            self.widen(self.shift + 1);
        }
    }

    /// Makes the stretches at least this long.
    fn widen(&mut self, shift: u32) {
        if shift > self.shift {
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            for (stretch, count) in &self.counts {
                let of = counts.entry(stretch >> (shift - self.shift)).or_default();
                *of = of.saturating_add(*count);
            }
            *self = Self { shift, counts };
        }
    }

    /// The number of operations.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How the number of operations in a stretch varies, compared with operations that each come by
    /// themselves at any time: its variance divided by its mean. More than 1 if they come in
    /// clumps, less if they come at regular intervals, but 0.5 at the least. The operations are
    /// these without `others`, which are some of them. They came within `elapsed_ns`, if that is
    /// longer than from the first to the last stretch.
    ///
    /// The variance is half the mean square of the differences between neighbouring stretches
    /// (J. von Neumann, 1941), which does not take a slow change of the rate for clumps.
    #[must_use]
    pub fn clumps(&self, others: &Self, elapsed_ns: u64) -> f64 {
        let found = [16, 64]
            .map(|stretches| self.clumps_in(stretches, others, elapsed_ns))
            .into_iter()
            .fold(0.0, f64::max);
        if found < 1.0 { (found * SEEMS_REGULAR).clamp(REGULAR, 1.0) } else { found }
    }

    /// The same in at most so many stretches.
    fn clumps_in(&self, most: u64, others: &Self, elapsed_ns: u64) -> f64 {
        let (mut all, mut others) = (self.clone(), others.clone());
        all.widen(others.shift);
        let ends = |of: &Self| Some((*of.counts.first_key_value()?.0, *of.counts.last_key_value()?.0));
        let between = |of: &Self| ends(of).map_or(0, |(first, last)| last - first + 1);
        while between(&all).max(elapsed_ns >> all.shift) > most {
            all.widen(all.shift + 1);
        }
        others.widen(all.shift);
        let Some((mut first, mut last)) = ends(&all) else { return 1.0 };
        let elapsed = elapsed_ns >> all.shift;
        if between(&all) < elapsed {
            last = first + elapsed - 1;
        } else if between(&all) > 4 {
            // They reach both ends of the time, which covers the outermost stretches only in part.
            (first, last) = (first + 1, last - 1);
        }
        let count = |of: &Self, stretch| of.counts.get(&stretch).copied().unwrap_or(0);
        let left: Vec<f64> = (first..=last)
            .map(|stretch| count(&all, stretch).saturating_sub(count(&others, stretch)) as f64)
            .collect();
        let mean = left.iter().sum::<f64>() / left.len() as f64;
        let squares: f64 = left.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
        if left.len() < 2 || mean == 0.0 { 1.0 } else { squares / (left.len() - 1) as f64 / 2.0 / mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_time(starts_ms: impl IntoIterator<Item = u64>) -> OverTime {
        let mut out = OverTime::default();
        starts_ms.into_iter().for_each(|ms| out.add(ms * 1_000_000));
        out
    }

    #[test]
    fn stretches_become_longer_and_lose_no_operation() {
        let mut all = over_time(0..10_000);
        assert_eq!(all.sum(), 10_000);
        assert!(all.counts.len() <= OverTime::MOST && all.shift > 20, "{all:?}");
        let (shift, counts) = all.counts();
        assert_eq!(OverTime::stored(shift, counts.collect::<Vec<_>>()), all);
        let few = over_time([3, 5_000]);
        let (mut one, mut other) = (all.clone(), few.clone());
        one.merge(&few);
        other.merge(&all);
        assert_eq!(one, other);
        assert_eq!(one.sum(), 10_002);
        all.add(u64::MAX);
        assert!(all.counts.len() <= OverTime::MOST);
    }

    #[test]
    fn stored_numbers_of_any_size_do_not_overflow() {
        let counts = (0..300).map(|number| (u64::MAX - number * 7, u64::MAX));
        for shift in [0, 20, 63, u32::MAX] {
            let stored = OverTime::stored(shift, counts.clone());
            assert!(stored.counts.len() <= OverTime::MOST && stored.shift <= 63, "{stored:?}");
            assert_eq!(stored.sum(), u64::MAX);
            assert!(stored.clumps(&stored, u64::MAX).is_finite());
            assert!(stored.clumps(&OverTime::default(), u64::MAX).is_finite());
        }
    }

    #[test]
    fn operations_at_equal_distances_are_regular_and_those_of_one_moment_are_a_clump() {
        let regular = over_time((0..200).map(|number| number * 50));
        assert_eq!(regular.clumps(&OverTime::default(), 10_000_000_000), REGULAR);
        let together = over_time((0..10).flat_map(|clump| (0..20).map(move |ms| clump * 1_000 + 7 + ms)));
        let clumps = together.clumps(&OverTime::default(), 10_000_000_000);
        assert!((10.0..25.0).contains(&clumps), "{clumps}");
        // Without all but one of each clump, too few are left to be sure that they are regular.
        let others = over_time((0..10).flat_map(|clump| (1..20).map(move |ms| clump * 1_000 + 7 + ms)));
        assert_eq!(together.clumps(&others, 10_000_000_000), 1.0);
        // Independent operations at random times (a linear congruential generator) are neither.
        let mut seed = 1_u64;
        let any_time: Vec<f64> = (0..100)
            .map(|_| {
                let starts = (0..200).map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 33) % 10_000
                });
                over_time(starts.collect::<Vec<_>>()).clumps(&OverTime::default(), 10_000_000_000)
            })
            .collect();
        assert!(any_time.iter().filter(|clumps| **clumps >= 1.0).count() >= 90, "{any_time:?}");
        // A burst at the start of a long run is one clump.
        assert!(over_time(0..100).clumps(&OverTime::default(), 60_000_000_000) > 40.0);
        assert_eq!(OverTime::default().clumps(&OverTime::default(), 0), 1.0);
    }
}
