//! A write's time divided as the study of 2012 divided it. Pure: layers in, times out.

use roundtrip_layers::storage::{Breakdown, Layer};

/// The names of the parts. The study had the first three.
pub(crate) const PARTS: [&str; 5] = ["platform", "kernel", "device", "contention", "unexplained"];

/// The mean time of a write in each part, in nanoseconds. Contention, the waits for a CPU that
/// other threads had, is in none of the others.
pub(crate) fn means_ns(breakdown: &Breakdown) -> [f64; PARTS.len()] {
    let calls = breakdown.calls.max(1) as f64;
    let behind = |layer: &Layer| breakdown.behind_ns.get(layer).copied().unwrap_or(0) as f64 / calls;
    let of = |layer| breakdown.mean_ns(layer) - behind(&layer);
    let [platform, device, unexplained] = [Layer::Platform, Layer::Device, Layer::Unexplained].map(of);
    let contention = Layer::ALL.iter().map(behind).sum::<f64>();
    let whole = breakdown.sum_ns as f64 / calls;
    let kernel = (whole - platform - device - contention - unexplained).max(0.0);
    [platform, kernel, device, contention, unexplained]
}
