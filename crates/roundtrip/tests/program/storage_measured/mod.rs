//! Measurements that need a quiet machine: the cost of recording, a comparison with fio, and causes
//! with effects of microseconds. `cargo xtask storage` runs them. Each prints and judges its
//! figures. The kinds of block that a measurement compares alternate. Two of the kinds are
//! identical: if their results differ, the machine is not quiet enough.
#![allow(clippy::print_stdout)] // Prints the figures.

mod causes;
mod fio;
mod recording;

use std::collections::BTreeMap;

use roundtrip_skips::{Need, skip};

/// How much two identical kinds of block may differ. If they differ more, the result is not judged.
const CALM: f64 = 0.03;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(Need::Root, "this needs root");
    }
    root
}

/// The median over rounds with its 95% confidence interval: low, median, high. Uses order
/// statistics, with the normal approximation of the binomial distribution.
fn with_interval(mut ratios: Vec<f64>) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len() as f64;
    let away = 0.98 * n.sqrt();
    let low = (n / 2.0 - away).floor().max(0.0) as usize;
    let high = ((n / 2.0 + away).ceil() as usize).min(ratios.len() - 1);
    [ratios[low], ratios[ratios.len() / 2], ratios[high]]
}

/// Runs each kind of block once per round, in shuffled order. Returns the results of each, by
/// round.
fn rounds<K: Copy + Ord>(
    kinds: &[K],
    count: usize,
    mut block: impl FnMut(K) -> f64,
) -> BTreeMap<K, Vec<f64>> {
    let mut out: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    let mut state = 0x9e37_79b9_u64;
    for _ in 0..count {
        let mut order = kinds.to_vec();
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        for kind in order {
            out.entry(kind).or_default().push(block(kind));
        }
    }
    out
}

fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    with_interval(of.iter().zip(to).map(|(of, to)| of / to).collect())
}
