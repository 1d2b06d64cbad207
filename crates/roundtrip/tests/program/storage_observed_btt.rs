//! The device's part of an observed program's writes, against `btt` on the same requests.
#![allow(clippy::print_stderr)] // The test reports on standard error what it could not try.

#[path = "../../../layers/tests/blktrace/mod.rs"]
mod blktrace;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::support::storage::folder;
use blktrace::{blktrace, btt};
use roundtrip_analysis::observed_writes::slow;
use roundtrip_layers::storage::{Layer, Request};
use roundtrip_run::{RECORDING, Run};
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::{Event, Recording};

/// Each write is one request without a flush, because `btt` leaves out flushes.
const JOB: &str = "fio --name=job --directory=. --size=2M --bs=4k --rw=write --ioengine=psync --overwrite=1 \
                   --io_size=400k --sync_file_range=wait_before,write,wait_after:1 --output=/dev/null";

#[test]
fn device_time_of_an_observed_program_equals_btts() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "the kernel's trace needs root");
    }
    for program in ["fio", "btt"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(Need::Program(program), format!("no {program} here"));
        }
    }
    let directory = folder("observed-btt");
    let mut observe = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    observe.args(["storage", "observe", "--deadline", "1ns", "--explain-limit", "200", "--buffer", "32M"]);
    observe.args(["--quiet", "--out", "run", "--", "sh", "-c", JOB]);
    let output = observe.current_dir(&directory).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let run = directory.join("run");
    let stored = Run::read(&run).unwrap();
    let result = stored.results.observed_writes.as_ref().unwrap();
    let slow_writes = slow(result, &run).results;
    let ours = slow_writes.iter().filter(|slow| result.rows[slow.write.row].call == "sync_file_range");
    let ours: Vec<_> =
        ours.filter(|slow| !slow.layers.requests.is_empty() && slow.layers.missing.is_none()).collect();
    assert!(ours.len() >= 50, "{} of {} writes", ours.len(), slow_writes.len());
    let requests: Vec<&Request> = ours.iter().flat_map(|slow| &slow.layers.requests).collect();
    assert!(requests.iter().all(|request| request.leaf && !request.flush), "{requests:?}");
    let dev = requests[0].dev;

    // The same requests' events; several snapshots hold the same ones.
    let of_request = |request: &&Request| {
        let queued = request.queued.iter().map(|queued| queued.0).collect::<Vec<_>>();
        queued.into_iter().chain([request.issued_ns, request.completed_ns])
    };
    let times: BTreeSet<u64> = requests.iter().flat_map(of_request).collect();
    let recording = Recording::open(&run.join(RECORDING)).unwrap();
    let mut events = Vec::new();
    let mut seen = BTreeSet::new();
    let snapshots: BTreeSet<u32> = ours.iter().filter_map(|slow| slow.write.snapshot).collect();
    for snapshot in snapshots {
        let trace = recording.read(snapshot).unwrap();
        let new = |event: &Event| times.contains(&event.time_ns) && !seen.contains(&event.time_ns);
        events.extend(blktrace(&trace, dev, new));
        seen.extend(trace.events.iter().map(|event| event.time_ns));
    }
    let ([_, mean_s, _], count) = btt(&events, "observed").unwrap();
    assert_eq!(count, requests.len());
    // btt also counts the time between the controller's interrupt and the request's completion,
    // which is not the device's.
    let device_ns: u64 = ours.iter().map(|slow| slow.layers.total_ns(Layer::Device)).sum();
    let behind_ns: u64 = requests.iter().map(|request| request.completed_ns - request.ended_ns).sum();
    let btt_ns = mean_s * 1e9 * count as f64;
    let apart_ns = ((device_ns + behind_ns) as f64 - btt_ns).abs();
    // btt prints the mean to the nanosecond.
    assert!(apart_ns <= count as f64, "device {device_ns} + {behind_ns} ns, btt {btt_ns} ns");
    std::fs::remove_dir_all(&directory).unwrap();
}
