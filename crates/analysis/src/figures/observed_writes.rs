//! The figures of other programs' writes, by process name, file and system call. Process ids differ
//! between runs, so writes that differ only in the process id are counted together.

use std::collections::BTreeMap;

use latency::Histogram;
use layers::storage::Layer;
use run::storage::observe::{ObserveWritesResult, WriteRow};

use super::{Better, Figure, Group, TIME, Unit};

/// The parts of a row that are the same in every run.
type Key<'a> = (&'a str, &'a str, &'a str);

/// All rows of one key.
#[derive(Default)]
struct Sum {
    latency: Histogram,
    missed: u64,
    failed: u64,
    divided: u64,
    layers: BTreeMap<Layer, u64>,
}

impl Sum {
    fn add(&mut self, row: &WriteRow) {
        self.latency.merge(&row.latency);
        self.missed += row.missed;
        self.failed += row.failed;
        let Some(divided) = &row.divided else { return };
        self.divided += divided.calls;
        for layer in Layer::ALL {
            if let Some(time) = divided.layers.get(layer.name()) {
                *self.layers.entry(layer).or_default() += time.sum_ns;
            }
        }
    }
}

pub(super) fn of_observed_writes(figures: &mut Vec<Figure>, result: &ObserveWritesResult) {
    let mut sums: BTreeMap<Key<'_>, Sum> = BTreeMap::new();
    for row in &result.rows {
        sums.entry((&row.process.name, &row.call, &row.file)).or_default().add(row);
    }
    for ((process, call, file), sum) in sums {
        let of = vec![
            ("test", "observed-writes".to_owned()),
            ("process", process.to_owned()),
            ("call", call.to_owned()),
            ("file", file.to_owned()),
        ];
        let mut group = Group { figures, of };
        let calls = sum.latency.count();
        let seconds = result.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 {
            group.add("rate", calls as f64 / seconds, (Unit::PerSecond, Better::Higher), calls, None);
        }
        group.times("", &sum.latency);
        group.misses("", sum.missed, calls);
        group.add("failed", sum.failed as f64, (Unit::Count, Better::Lower), calls, None);
        for (layer, ns) in sum.layers {
            let mean_ns = ns as f64 / sum.divided.max(1) as f64;
            group.add(format!("{}.mean", layer.name()), mean_ns, TIME, sum.divided, None);
        }
    }
}
