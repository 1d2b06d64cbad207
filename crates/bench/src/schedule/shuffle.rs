//! The order of a measurement's blocks: shuffled for each round, and the same in every run.

use fastrand::Rng;

/// A generator of orders. It must be fair, not unpredictable.
pub(crate) struct Shuffle(Rng);

impl Shuffle {
    pub(crate) fn new() -> Self {
        Self(Rng::with_seed(0x9E37_79B9_7F4A_7C15))
    }

    /// The numbers below `count`, in a new order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..count).collect();
        self.0.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_contains_every_block_once_and_differs_from_the_previous_one() {
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
