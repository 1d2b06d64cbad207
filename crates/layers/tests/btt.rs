//! Compares the time that requests spend in a device with the result of `btt` (Debian's blktrace
//! package) for the same events.
#![allow(clippy::print_stderr)] // The test prints what it could not try.

mod blktrace;
mod recorded;

use blktrace::{blktrace, btt};
use recorded::Recorded;
use roundtrip_layers::storage::{Request, Writes};
use roundtrip_skips::{Need, skip};

#[test]
fn the_devices_time_is_what_btt_makes_of_the_same_events() {
    for name in ["disk", "journalled"] {
        let recorded = Recorded::load(name);
        let writes = Writes::new(&recorded.trace, recorded.devices.clone());
        for dev in [recorded.device, recorded.devices.leaves[0]] {
            let Some((times_s, count)) = btt(&blktrace(&recorded.trace, dev, |_| true), name) else {
                return skip(Need::Program("btt"), "no btt here; it is in Debian's blktrace package");
            };
            let ours: Vec<&Request> =
                writes.requests().iter().filter(|request| request.dev == dev && !request.flush).collect();
            // btt counts a request once for each bio that was queued and merged into it.
            let parts: usize = ours.iter().map(|request| request.queued.len()).sum();
            let took_ns = |request: &&Request| request.completed_ns - request.issued_ns;
            let sum_ns: u64 = ours.iter().map(|request| took_ns(request) * request.queued.len() as u64).sum();
            let [least_s, mean_s, most_s] = times_s;
            let is = |ns: f64, s: f64| assert!((ns / 1e9 - s).abs() <= 1e-9, "{name}: {ns} ns, btt {s} s");
            assert_eq!((dev, parts), (dev, count), "{name}");
            is(sum_ns as f64 / parts as f64, mean_s);
            is(ours.iter().map(took_ns).min().unwrap() as f64, least_s);
            is(ours.iter().map(took_ns).max().unwrap() as f64, most_s);
        }
    }
}
