//! A table of the rows with the most time. What has no row of its own is in one further row, so
//! that no sum lacks anything. Must not know what a row counts.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// The place of what has no row of its own.
pub const OTHERS: usize = 0;

/// A row of a table.
pub trait Row {
    /// Its total time, in nanoseconds.
    fn sum_ns(&self) -> u64;

    /// Adds what another row counts.
    fn merge(&mut self, other: &Self);
}

/// The rows so far. Each has a place, which [`Heaviest::shrink`] changes.
///
/// A row that was merged may come back, and then lacks its earlier time. How much that can be is
/// known: of all that have no row, none has more time than [`Others::beyond_ns`] (A. Metwally, D.
/// Agrawal and A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
/// Streams", 2005).
#[derive(Debug)]
pub struct Heaviest<K, R> {
    most: usize,
    /// The first one is [`OTHERS`].
    rows: Vec<R>,
    /// By row: how much time it may lack at the most, because it was merged before, in nanoseconds.
    lacks_ns: Vec<u64>,
    places: HashMap<K, usize>,
    /// How many rows were merged.
    merged: u64,
    /// Whether anything is in the first row.
    has_others: bool,
    /// When rows were last merged, no key without a row had more time than this, in nanoseconds.
    beyond_ns: u64,
    /// The time of the first row then, in nanoseconds.
    others_ns: u64,
}

/// A complete table.
#[derive(Debug)]
pub struct Finished<R> {
    /// The rows, the one with the most time first.
    pub rows: Vec<R>,
    /// The place in `rows` of each row, by its place before.
    pub places: Vec<usize>,
    /// What has no row of its own; `None` if everything has one. Its place is behind all others.
    pub others: Option<Others<R>>,
}

/// What has no row of its own.
#[derive(Debug)]
pub struct Others<R> {
    /// Its sum.
    pub row: R,
    /// How many rows it was, at the least.
    pub rows: u64,
    /// No one of them has more time than this, and no row lacks more, in nanoseconds.
    pub beyond_ns: u64,
}

impl<K: Eq + Hash, R: Row> Heaviest<K, R> {
    /// An empty table that keeps `most` rows, at least one. `others` is an empty row, to which
    /// everything else is added.
    #[must_use]
    pub fn new(most: usize, others: R) -> Self {
        Self {
            most,
            rows: vec![others],
            lacks_ns: vec![0],
            places: HashMap::new(),
            merged: 0,
            has_others: false,
            beyond_ns: 0,
            others_ns: 0,
        }
    }

    /// All rows by their place, the first of them [`OTHERS`].
    #[must_use]
    pub fn rows(&self) -> &[R] {
        &self.rows
    }

    /// The row at a place.
    pub fn at(&mut self, place: usize) -> Option<&mut R> {
        self.rows.get_mut(place)
    }

    /// The place of the row with this key; `None` if it has no row.
    #[must_use]
    pub fn find(&self, key: &K) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// The keys that have rows.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.places.keys()
    }

    /// The place of the row with this key. If there is none, `make` makes it. [`OTHERS`] if the
    /// table has four times as many rows as it may keep.
    pub fn place(&mut self, key: K, make: impl FnOnce(&K) -> R) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        if self.rows.len() > self.most.saturating_mul(4) {
            self.has_others = true;
            return OTHERS;
        }
        let place = self.rows.len();
        self.rows.push(make(&key));
        self.lacks_ns.push(self.beyond_ns);
        self.places.insert(key, place);
        place
    }

    /// Whether there are twice as many rows as the table may keep.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rows.len() > self.most.saturating_mul(2)
    }

    /// The most time of anything without a row, in nanoseconds. It may all be in the first row.
    fn beyond_ns(&self) -> u64 {
        self.beyond_ns.saturating_add(self.rows[OTHERS].sum_ns().saturating_sub(self.others_ns))
    }

    /// Merges the rows with the least time into the first, so that as many remain as the table may
    /// keep. Returns the new place of each row, by its place before.
    #[must_use = "whoever has kept places must change them"]
    pub fn shrink(&mut self) -> Vec<usize> {
        let at_most_ns: Vec<u64> = self
            .rows
            .iter()
            .zip(&self.lacks_ns)
            .map(|(row, lacks)| row.sum_ns().saturating_add(*lacks))
            .collect();
        let mut kept = by_time(&at_most_ns);
        let gone = kept.split_off(kept.len().min(self.most));
        self.beyond_ns = gone.first().map_or(0, |&place| at_most_ns[place]).max(self.beyond_ns());
        kept.sort_unstable();
        let places = places(&kept, self.rows.len(), OTHERS, OTHERS + 1);
        let before = std::mem::take(&mut self.rows);
        for ((row, lacks_ns), &place) in
            before.into_iter().zip(std::mem::take(&mut self.lacks_ns)).zip(&places)
        {
            match self.rows.first_mut() {
                Some(others) if place == OTHERS => others.merge(&row),
                _ => {
                    self.rows.push(row);
                    self.lacks_ns.push(lacks_ns);
                }
            }
        }
        self.merged += gone.len() as u64;
        self.has_others |= !gone.is_empty();
        self.others_ns = self.rows[OTHERS].sum_ns();
        self.places.retain(|_, place| {
            *place = places[*place];
            *place != OTHERS
        });
        places
    }

    /// The rows that the table may keep.
    #[must_use]
    pub fn finish(mut self) -> Finished<R> {
        let mut moved = self.shrink();
        let sums_ns: Vec<u64> = self.rows.iter().map(Row::sum_ns).collect();
        let order = by_time(&sums_ns);
        let ended = places(&order, sums_ns.len(), order.len(), 0);
        moved.iter_mut().for_each(|place| *place = ended[*place]);
        let mut rows: Vec<Option<R>> = self.rows.into_iter().map(Some).collect();
        let others = rows[OTHERS].take().filter(|_| self.has_others);
        Finished {
            rows: order.into_iter().filter_map(|place| rows[place].take()).collect(),
            places: moved,
            others: others.map(|row| Others { row, rows: self.merged.max(1), beyond_ns: self.beyond_ns }),
        }
    }
}

/// The places of all rows but the first, the one with the most time first.
fn by_time(times_ns: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (OTHERS + 1..times_ns.len()).collect();
    order.sort_unstable_by_key(|&place| (Reverse(times_ns[place]), place));
    order
}

/// The new place of each of `count` rows: those in `order` have consecutive ones from `first` on,
/// the others have the place `rest`.
fn places(order: &[usize], count: usize, rest: usize, first: usize) -> Vec<usize> {
    let mut places = vec![rest; count];
    for (place, &before) in (first..).zip(order) {
        places[before] = place;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Sum(u64);

    impl Row for Sum {
        fn sum_ns(&self) -> u64 {
            self.0
        }

        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
        }
    }

    /// A table with these keys and times, shrunk whenever it is full.
    fn table(most: usize, times: impl IntoIterator<Item = (u32, u64)>) -> Heaviest<u32, Sum> {
        let mut table = Heaviest::new(most, Sum::default());
        for (key, ns) in times {
            let place = table.place(key, |_| Sum::default());
            table.at(place).unwrap().0 += ns;
            if table.is_full() {
                let _ = table.shrink();
            }
        }
        table
    }

    #[test]
    fn rows_keep_their_time_and_what_is_merged_is_in_the_sum() {
        let Finished { rows, places, others } = table(2, [(7, 5), (8, 9), (7, 2)]).finish();
        assert_eq!((rows, places), (vec![Sum(9), Sum(7)], vec![2, 1, 0]));
        assert!(others.is_none());
        let Finished { rows, places, others } = table(2, [(7, 5), (8, 9), (9, 1), (7, 2)]).finish();
        assert_eq!((rows, places), (vec![Sum(9), Sum(7)], vec![2, 1, 0, 2]));
        let others = others.unwrap();
        assert_eq!((others.row, others.rows, others.beyond_ns), (Sum(1), 1, 1));
    }

    #[test]
    fn a_row_with_much_time_has_a_place_however_many_others_come_before_and_after() {
        let many = |from: u32| (from..from + 600).map(|key| (key, 20));
        let heavy = (0..200)
            .flat_map(|turn| [(1, 50)].into_iter().chain((0..5).map(move |n| (10_000 + turn * 5 + n, 3))));
        let times: Vec<_> = many(100).chain(heavy).chain(many(1000)).collect();
        let sum: u64 = times.iter().map(|(_, ns)| ns).sum();
        let Finished { rows, others, .. } = table(10, times).finish();
        let others = others.unwrap();
        assert_eq!(rows.len(), 10);
        assert_eq!(rows.iter().map(|row| row.0).sum::<u64>() + others.row.0, sum, "nothing is lost");
        let first = rows[0].0;
        assert!(first <= 10_000 && first + others.beyond_ns >= 10_000, "{first}, {}", others.beyond_ns);
        assert!(others.beyond_ns <= sum / 10, "{} of {sum}", others.beyond_ns);
    }

    #[test]
    fn a_table_that_nobody_shrinks_stays_small_and_says_what_may_be_missing() {
        let mut table = Heaviest::new(2, Sum::default());
        for key in 0..100_u64 {
            let place = table.place(key, |_| Sum::default());
            table.at(place).unwrap().0 += 10;
        }
        assert_eq!(table.rows().len(), 9);
        let others = table.finish().others.unwrap();
        assert_eq!((others.row, others.rows), (Sum(980), 6));
        // All that had no row may have been one.
        assert_eq!(others.beyond_ns, 920);
    }
}
