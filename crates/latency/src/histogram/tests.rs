//! Tests of the histogram, in both of its forms.

use proptest::prelude::*;

use super::*;

fn stored(histogram: &Histogram) -> Histogram {
    let json = serde_json::to_string(histogram).expect("a histogram serialises");
    serde_json::from_str(&json).expect("and comes back")
}

#[test]
fn an_empty_histogram_has_a_count_and_nothing_else() {
    let empty = Histogram::new();
    assert_eq!((empty.count(), empty.min_ns(), empty.max_ns()), (0, None, None));
    assert_eq!((empty.mean_ns(), empty.stdev_ns(), empty.percentile_ns(50.0)), (None, None, None));
    assert_eq!(stored(&empty), empty);
}

#[test]
fn a_duration_above_the_range_is_counted_as_clamped_and_stays_the_maximum() {
    let histogram: Histogram = [10, Histogram::HIGHEST_NS, Histogram::HIGHEST_NS * 2].into_iter().collect();
    assert_eq!((histogram.count(), histogram.clamped()), (3, 1));
    assert_eq!(histogram.max_ns(), Some(Histogram::HIGHEST_NS * 2));
    assert_eq!(stored(&histogram), histogram);
}

#[test]
fn a_percentile_needs_one_sample_beyond_it() {
    assert!(!resolvable(9_999, 99.99) && resolvable(10_000, 99.99));
    assert!(!resolvable(999, 99.9) && resolvable(1_000, 99.9));
    assert!(!resolvable(0, 50.0) && !resolvable(1, 50.0) && resolvable(2, 50.0));
    let steps: Histogram = (1..=1000).collect();
    assert_eq!(
        PERCENTS.map(|percent| steps.percentile_ns(percent)),
        [Some(500), Some(900), Some(950), Some(990), Some(999), None]
    );
    assert_eq!([0, 1, 1000, 1001].map(|rank| steps.ranked_ns(rank)), [None, Some(1), Some(1000), None]);
}

#[test]
fn the_standard_deviation_of_small_values_is_exact() {
    let histogram: Histogram = [2, 4, 4, 4, 5, 5, 7, 9].into_iter().collect();
    assert_eq!((histogram.mean_ns(), histogram.stdev_ns()), (Some(5.0), Some(2.0)));
}

#[test]
fn more_durations_narrow_the_interval_of_a_percentile() {
    let of = |count: u64| (1..=count).collect::<Histogram>().percentile(50.0).expect("not empty");
    // Conover's example: ceil(16 * 0.5 -+ 1.96 * sqrt(16 * 0.25)), the 5th and the 12th of 16.
    assert_eq!((of(16).low_ns, of(16).high_ns), (Some(5), Some(12)));
    assert_eq!((of(1000).low_ns, of(1000).high_ns), (Some(470), Some(531)));
    assert_eq!(of(3).low_ns, None);
    let tail = |count: u64| (1..=count).collect::<Histogram>().percentile(99.0).expect("not empty");
    assert_eq!((tail(100).ns, tail(100).high_ns, tail(1000).high_ns), (99, None, Some(997)));
}

#[test]
fn the_intervals_hold_the_true_value_in_95_of_100_samples() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 2000 + 1
    };
    let (mut median, mut tail, mut mean) = (0, 0, 0);
    for _ in 0..1000 {
        let sample: Histogram = (0..500).map(|_| uniform()).collect();
        let holds = |percent: f64, value: u64| {
            let Percentile { low_ns, high_ns, .. } = sample.percentile(percent).expect("not empty");
            low_ns.zip(high_ns).is_some_and(|(low, high)| (low..=high).contains(&value))
        };
        median += u32::from(holds(50.0, 1000));
        tail += u32::from(holds(95.0, 1900));
        let (low, high) = sample.mean_interval_ns().expect("500 durations");
        mean += u32::from((low..=high).contains(&1000.5));
    }
    for (what, held) in [("median", median), ("p95", tail), ("mean", mean)] {
        assert!((930..=970).contains(&held), "{what}: {held} of 1000");
    }
}

fn durations() -> impl Strategy<Value = Vec<u64>> {
    // All orders of magnitude, and some out of range.
    proptest::collection::vec((0_u32..45, any::<u64>()).prop_map(|(bits, v)| v & ((1 << bits) - 1)), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_growing_histogram_counts_like_a_fixed_one(values in durations()) {
        let mut growing = Histogram::growing();
        values.iter().for_each(|&value| growing.record(value));
        let fixed: Histogram = values.iter().copied().collect();
        prop_assert_eq!(&growing, &fixed);
        prop_assert_eq!(&fixed, &growing);
        prop_assert_eq!(growing.buckets().collect::<Vec<_>>(), fixed.buckets().collect::<Vec<_>>());
        for percent in [0.0, 50.0, 99.0, 100.0] {
            prop_assert_eq!(growing.percentile(percent), fixed.percentile(percent));
        }
        prop_assert_eq!(growing.stdev_ns(), fixed.stdev_ns());
        let mut merged = Histogram::growing();
        merged.merge(&fixed);
        merged.merge(&growing);
        let mut twice = fixed.clone();
        twice.merge(&fixed);
        prop_assert_eq!(merged, twice);
        let mut mixed = fixed.clone();
        mixed.merge(&growing);
        prop_assert_eq!(mixed.count(), 2 * fixed.count());
    }

    #[test]
    fn merging_stored_histograms_equals_recording_everything_in_one(a in durations(), b in durations()) {
        let (left, right): (Histogram, Histogram) =
            (a.iter().copied().collect(), b.iter().copied().collect());
        let mut merged = stored(&left);
        merged.merge(&stored(&right));
        let together: Histogram = a.into_iter().chain(b).collect();
        prop_assert_eq!(merged, together);
    }

    #[test]
    fn percentiles_stay_within_the_stated_error(mut values in durations(), percent in 0.0..100.0_f64) {
        values.retain(|&v| v <= Histogram::HIGHEST_NS);
        prop_assume!(!values.is_empty());
        let histogram: Histogram = values.iter().copied().collect();
        values.sort_unstable();
        let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1] as f64;
        prop_assert_eq!(histogram.percentile_ns(percent), histogram.ranked_ns(rank as u64)
            .filter(|_| resolvable(values.len() as u64, percent)));
        let read = histogram.ranked_ns(rank as u64).expect("there are samples") as f64;
        prop_assert!((read - exact).abs() <= exact * Histogram::RELATIVE_ERROR, "{read} for {exact}");
    }
}
