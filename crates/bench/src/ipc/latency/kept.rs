//! Which slow calls a run keeps. Must not know how they are recorded.

use std::cmp::Reverse;

use roundtrip_run::ipc::latency::Miss;
use roundtrip_sorting::SmallSort as _;

/// Which calls to drop, the last one first, to keep the `most` of the highest rank. If none of
/// these was recorded, the highest-ranked recorded call stays as well: it is the only one that can
/// be explained.
pub(super) fn too_many(calls: &[((bool, u64), bool)], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.small_sort_by_key(|&index| Reverse(calls[index].0));
    let mut dropped = order.split_off(most.min(order.len()));
    if !order.iter().any(|&index| calls[index].1)
        && let Some(spare) = dropped.iter().position(|&index| calls[index].1)
    {
        dropped.remove(spare);
    }
    dropped.sort_unstable_by_key(|&index| Reverse(index));
    dropped
}

/// How many of the slowest calls of all clients were not kept.
pub(super) fn unkept(slowest_ns: Vec<Vec<u64>>, count: usize, misses: &[Miss]) -> u64 {
    let mut all: Vec<u64> = slowest_ns.into_iter().flatten().collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.truncate(count);
    let mut kept: Vec<u64> = misses.iter().map(|miss| miss.sample.latency_ns()).collect();
    let mut missing = 0;
    for ns in all {
        match kept.iter().position(|&other| other == ns) {
            Some(index) => drop(kept.swap_remove(index)),
            None => missing += 1,
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that are ranked by latency alone.
    fn calls(latencies: &[(u64, bool)]) -> Vec<((bool, u64), bool)> {
        latencies.iter().map(|&(ns, recorded)| ((true, ns), recorded)).collect()
    }

    #[test]
    fn the_fastest_of_too_many_calls_is_dropped() {
        assert_eq!(too_many(&calls(&[(9, true), (7, true), (8, true)]), 2), [1]);
        assert_eq!(too_many(&calls(&[(9, true), (7, true)]), 2), [0; 0]);
    }

    #[test]
    fn slower_calls_without_a_recording_do_not_replace_the_last_recorded_one() {
        assert_eq!(too_many(&calls(&[(5, true), (9, false)]), 1), [0; 0]);
        assert_eq!(too_many(&calls(&[(5, true), (9, false), (8, false)]), 1), [2]);
        assert_eq!(too_many(&calls(&[(5, true), (9, false), (6, true)]), 1), [0], "the slower recorded one");
        assert_eq!(too_many(&calls(&[(5, true), (9, false), (10, true)]), 1), [1, 0]);
    }
}
