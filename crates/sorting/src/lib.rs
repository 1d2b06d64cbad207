//! Stable sorting in little code, for lists that are sorted rarely. Must not know what is sorted.
//!
//! A stable sort of the standard library takes more than four kilobytes of the binary for each type
//! and each order. This one sorts the places, with one copy of that code, and then moves the items,
//! so it is slower.

use std::cmp::Ordering;

/// Methods of slices.
pub trait SmallSort<T> {
    /// As `sort_by`.
    fn small_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As `sort_by_key`.
    fn small_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.small_sort_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> SmallSort<T> for [T] {
    fn small_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let order = order(self.len(), &mut |one, other| compare(&self[one], &self[other]));
        rearrange(order, &mut |one, other| self.swap(one, other));
    }
}

/// The places of `count` items in their order.
fn order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Moves the item at `order[n]` to the place `n`, for each `n`.
fn rearrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        // Follows a cycle of moves until it comes back to the first item.
        let mut to = first;
        loop {
            let from = std::mem::replace(&mut order[to], to);
            if from == first {
                break;
            }
            swap(to, from);
            to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_as_by_the_standard_library() {
        // Every list of up to six items with four different keys. The second part is the place.
        for count in 0..=6_u32 {
            for number in 0..4_u32.pow(count) {
                let mut ours: Vec<(u32, u32)> =
                    (0..count).map(|place| (number >> (2 * place) & 3, place)).collect();
                let mut theirs = ours.clone();
                ours.small_sort_by_key(|item| item.0);
                theirs.sort_by_key(|item| item.0);
                assert_eq!(ours, theirs);
            }
        }
        let mut ours: Vec<u64> =
            (0..1000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).collect();
        let mut theirs = ours.clone();
        ours.small_sort_by(|one, other| other.cmp(one));
        theirs.sort_by(|one, other| other.cmp(one));
        assert_eq!(ours, theirs);
    }
}
