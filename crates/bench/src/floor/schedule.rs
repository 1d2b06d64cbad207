//! The order of blocks: shuffled anew in each round, the same in each run, so that no cell always follows the same
//! one. Must not know what is ordered.

/// A source of orders. A small xorshift generator (Marsaglia, "Xorshift RNGs", 2003): fairness is needed, not secrecy.
pub(super) struct Shuffle(u64);

impl Shuffle {
    pub(super) fn new() -> Shuffle {
        Shuffle(0x9E37_79B9_7F4A_7C15)
    }

    /// The numbers below `count`, in the next order.
    pub(super) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_holds_everything_once_and_differs_from_the_one_before() {
        let mut shuffle = Shuffle::new();
        let (one, two) = (shuffle.order(50), shuffle.order(50));
        assert_ne!(one, two);
        for mut order in [one, two] {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..50));
        }
        assert!(shuffle.order(0).is_empty());
    }
}
