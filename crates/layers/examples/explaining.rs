//! How long it takes until slow calls are explained from a full recording: pages into events, events into who did what when,
//! and that into parts and a verdict. In the time that this thread's CPU worked for it (other load makes it slower only through
//! shared caches).
//!
//! ```text
//! cargo run --release -p layers --example explaining
//! ```
//!
//! The pages are the reader's fixtures', repeated to 8 MiB for each CPU, as `atrace -b 8000` keeps.

#[path = "../../tracefs/tests/common/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::error::Error;
use std::io::Write as _;

use fixture::Fixture;
use layers::{RoundTrip, Side, Timeline};
use rustix::time::{ClockId, clock_gettime};
use tracefs::{Body, CpuPages, Period, Trace};

const BYTES: usize = 8 << 20;
const REPETITIONS: usize = 7;
/// Calls that are explained, spread over the recording: as many as a run keeps.
const CALLS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    for fixture in Fixture::all() {
        let cpus = fixture.repeated(BYTES);
        let pages: Vec<_> =
            cpus.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let bytes: usize = pages.iter().map(|pages| pages.bytes.len()).sum();
        let trips = round_trips(&tracefs::read(&fixture.formats, &pages, Period::default())?);
        if trips.is_empty() {
            continue;
        }
        // Of the whole, then of its three parts.
        let mut best_ns = [i64::MAX; 4];
        let mut events = 0;
        for _ in 0..REPETITIONS {
            let begin_ns = cpu_time_ns();
            let trace = tracefs::read(&fixture.formats, &pages, Period::default())?;
            let read_ns = cpu_time_ns();
            let timeline = Timeline::new(&trace);
            let known_ns = cpu_time_ns();
            for trip in &trips {
                let parts = layers::explain(&timeline, trip).parts;
                let sum_ns: u64 = parts.iter().map(layers::Part::duration_ns).sum();
                assert_eq!(sum_ns, trip.end_ns - trip.start_ns, "parts add up");
            }
            let end_ns = cpu_time_ns();
            let took = [end_ns - begin_ns, read_ns - begin_ns, known_ns - read_ns, end_ns - known_ns];
            best_ns = std::array::from_fn(|at| best_ns[at].min(took[at]));
            events = trace.events.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let [whole, read, timeline, explain] = best_ns.map(|ns| ns as f64 / 1e6);
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let megabytes_s = bytes as f64 / 1e3 / whole;
        writeln!(
            std::io::stdout(),
            "{}: {} CPUs, {} MiB, {events} events, {} calls: {whole:.0} ms, {megabytes_s:.0} MB/s \
             (reading {read:.0} ms, who did what {timeline:.0} ms, explaining {explain:.1} ms)",
            fixture.name,
            pages.len(),
            bytes >> 20,
            trips.len(),
        )?;
    }
    Ok(())
}

/// Round trips between two threads: from where one wakes the other until it has been woken by that and runs again.
fn round_trips(trace: &Trace) -> Vec<RoundTrip> {
    let mut trips = Vec::new();
    let mut open: Option<(u64, u32, u32)> = None;
    for event in &trace.events {
        match (event.body, open) {
            (Body::Waking { thread, .. }, None) if event.tid != 0 && thread.tid != event.tid => {
                open = Some((event.time_ns, event.tid, thread.tid));
            }
            // Whoever is not answered soon made no call.
            (_, Some((start_ns, ..))) if event.time_ns > start_ns + 1_000_000 => open = None,
            (Body::Switch { next, .. }, Some((start_ns, client, server))) if next.tid == client => {
                let side = |tid| Side { tid: Some(tid), ..Side::default() };
                trips.push(RoundTrip {
                    start_ns,
                    end_ns: event.time_ns,
                    client: side(client),
                    server: Some(side(server)),
                    ..RoundTrip::default()
                });
                open = None;
            }
            _ => {}
        }
    }
    let step = trips.len().div_ceil(CALLS).max(1);
    trips.into_iter().step_by(step).collect()
}

fn cpu_time_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
