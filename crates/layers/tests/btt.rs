//! Compares the time of requests at a device with the output of `btt` from Debian's blktrace
//! package, for the same events in blktrace's format (include/uapi/linux/blktrace_api.h).
#![allow(clippy::print_stderr)] // How a test says what it could not try.

mod recorded;

use std::path::Path;
use std::process::Command;

use layers::storage::{Request, Writes};
use recorded::{Recorded, kind};
use skips::{Need, skip};
use tracefs::Trace;

/// Actions with their categories: a queued, an issued, and a completed write.
const QUEUE: u32 = 1 | (1 << 4 | WRITE) << 16;
const ISSUE: u32 = 7 | (1 << 6 | WRITE) << 16;
const COMPLETE: u32 = 8 | (1 << 7 | WRITE) << 16;
const WRITE: u32 = 1 << 1;

/// The events of a device as a blktrace file, without flushes: they have no sectors, and `btt`
/// ignores them.
fn blktrace(trace: &Trace, dev: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 0_u32;
    for event in &trace.events {
        let action = match kind(trace, event).as_str() {
            "block/block_bio_queue" => QUEUE,
            "block/block_rq_issue" => ISSUE,
            "block/block_rq_complete" => COMPLETE,
            _ => continue,
        };
        let number = |name: &str| trace.field(event, name).and_then(|value| value.number()).unwrap();
        if number("dev") != u64::from(dev) || number("nr_sector") == 0 {
            continue;
        }
        sequence += 1;
        out.extend(0x6561_7407_u32.to_ne_bytes());
        out.extend(sequence.to_ne_bytes());
        out.extend(event.time_ns.to_ne_bytes());
        out.extend(number("sector").to_ne_bytes());
        out.extend((number("nr_sector") as u32 * 512).to_ne_bytes());
        out.extend(action.to_ne_bytes());
        out.extend(event.tid.to_ne_bytes());
        out.extend(dev.to_ne_bytes());
        out.extend(event.cpu.to_ne_bytes());
        // No error, and no data after the event.
        out.extend([0; 4]);
    }
    out
}

/// How long requests were at the device according to btt, in seconds (minimum, mean, maximum), and
/// the number of their parts.
fn btt(events: &[u8], name: &str) -> Option<([f64; 3], usize)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("btt-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("events");
    std::fs::write(&file, events).unwrap();
    let output = Command::new("btt").arg("-i").arg(&file).current_dir(&folder).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.ok()?.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("D2C"));
    let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect();
    let times_s = [1, 2, 3].map(|at: usize| fields[at].parse().unwrap());
    Some((times_s, fields[4].parse().unwrap()))
}

#[test]
fn the_devices_time_is_what_btt_makes_of_the_same_events() {
    for name in ["disk", "journalled"] {
        let recorded = Recorded::load(name);
        let writes = Writes::new(&recorded.trace, recorded.devices.clone());
        for dev in [recorded.device, recorded.devices.leaves[0]] {
            let Some((times_s, count)) = btt(&blktrace(&recorded.trace, dev), name) else {
                return skip(Need::Program("btt"), "no btt here; it is in Debian's blktrace package");
            };
            let ours: Vec<&Request> =
                writes.requests().iter().filter(|request| request.dev == dev && !request.flush).collect();
            // btt counts a request once for each part that was queued and merged into it.
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
