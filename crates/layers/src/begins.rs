//! Finds the elements of a list that begin before a given time. The list is sorted by when its
//! elements end, so a long element may begin before all that precede it. Must not know what the
//! elements are.

/// When each element of a list begins, as a tree of minima.
#[derive(Debug, Default)]
pub(crate) struct Begins {
    /// The root is at 1, and the children of the node at `n` are at `2n` and `2n + 1`. The second
    /// half has the elements' times, in nanoseconds, and `u64::MAX` after them.
    earliest_ns: Vec<u64>,
    elements: usize,
}

impl Begins {
    pub(crate) fn new(begin_ns: impl ExactSizeIterator<Item = u64>) -> Self {
        let elements = begin_ns.len();
        let leaves = elements.next_power_of_two();
        let mut earliest_ns = vec![u64::MAX; 2 * leaves];
        earliest_ns[leaves..].iter_mut().zip(begin_ns).for_each(|(leaf, ns)| *leaf = ns);
        for node in (1..leaves).rev() {
            earliest_ns[node] = earliest_ns[2 * node].min(earliest_ns[2 * node + 1]);
        }
        Self { earliest_ns, elements }
    }

    /// The indices, from `first` on and ascending, of the elements that begin at `until_ns` or
    /// before. Finding each takes logarithmic time.
    pub(crate) fn until(&self, first: usize, until_ns: u64) -> impl Iterator<Item = usize> + '_ {
        let mut next = first;
        std::iter::from_fn(move || {
            let index = self.next(next, until_ns)?;
            next = index + 1;
            Some(index)
        })
    }

    fn next(&self, first: usize, until_ns: u64) -> Option<usize> {
        if first >= self.elements {
            return None;
        }
        let leaves = self.earliest_ns.len() / 2;
        let mut node = leaves + first;
        while self.earliest_ns[node] > until_ns {
            // What follows a right child is the sibling of an ancestor.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < leaves {
            node *= 2;
            if self.earliest_ns[node] > until_ns {
                node += 1;
            }
        }
        Some(node - leaves).filter(|&index| index < self.elements)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn those_are_found_that_a_look_at_each_finds(
            begin_ns in prop::collection::vec(prop_oneof![0..20_u64, Just(u64::MAX)], 0..40),
            first in 0..45_usize,
            until_ns in prop_oneof![0..20_u64, Just(u64::MAX)],
        ) {
            let begins = Begins::new(begin_ns.iter().copied());
            let expected = (first..begin_ns.len()).filter(|&index| begin_ns[index] <= until_ns);
            prop_assert_eq!(begins.until(first, until_ns).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}
