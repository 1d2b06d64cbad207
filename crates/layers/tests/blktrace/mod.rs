//! Writes the block layer's events as blktrace does (include/uapi/linux/blktrace_api.h), and reads
//! the report that `btt` of Debian's blktrace package makes from them.

use std::path::Path;
use std::process::Command;

use roundtrip_tracefs::{Body, Event, Trace};

/// Action and category of each event: a write is queued, issued, completed.
const QUEUE: u32 = 1 | (1 << 4 | WRITE) << 16;
const ISSUE: u32 = 7 | (1 << 6 | WRITE) << 16;
const COMPLETE: u32 = 8 | (1 << 7 | WRITE) << 16;
const WRITE: u32 = 1 << 1;

/// The wanted events of a device as a blktrace file. Flushes have no sectors, and are left out, as
/// `btt` does.
pub(crate) fn blktrace(trace: &Trace, dev: u32, wanted: impl Fn(&Event) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = 0_u32;
    for event in trace.events.iter().filter(|event| wanted(event)) {
        let Body::Other { event: kind, .. } = event.body else { continue };
        let action = match trace.names.text(kind) {
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
        // No error, and no further data.
        out.extend([0; 4]);
    }
    out
}

/// How long the device had requests according to btt, in seconds (minimum, mean, maximum), and the
/// number of bios in them.
pub(crate) fn btt(events: &[u8], name: &str) -> Option<([f64; 3], usize)> {
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
