//! From events to explanations: building the timeline of a recording, and explaining one call. The
//! events are those of the reader's fixtures, repeated to 1 MiB for each CPU.

#[path = "../../tracefs/tests/common/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fixture::Fixture;
use roundtrip_layers::{RoundTrip, Side, Timeline};
use roundtrip_tracefs::{Body, CpuPages, Period, Trace};

const BYTES: usize = 1 << 20;
/// The number of explained calls, spread over the recording: as many as a run keeps.
const CALLS: usize = 20;

fn explanation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("explanation");
    for fixture in Fixture::all() {
        let cpus = fixture.repeated(BYTES);
        let pages: Vec<_> =
            cpus.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let trace =
            roundtrip_tracefs::read(&fixture.formats, &pages, Period::default()).expect("whole pages");
        let trips = round_trips(&trace);
        if trips.is_empty() {
            continue;
        }
        group.throughput(Throughput::Elements(trace.events.len() as u64));
        group.bench_with_input(BenchmarkId::new("timeline", &fixture.name), &trace, |bencher, trace| {
            bencher.iter(|| Timeline::new(trace));
        });
        let timeline = Timeline::new(&trace);
        group.throughput(Throughput::Elements(trips.len() as u64));
        group.bench_with_input(BenchmarkId::new("calls", &fixture.name), &trips, |bencher, trips| {
            bencher.iter(|| {
                for trip in trips {
                    let parts = roundtrip_layers::explain(&timeline, trip).parts;
                    let sum_ns: u64 = parts.iter().map(roundtrip_layers::Part::duration_ns).sum();
                    assert_eq!(sum_ns, trip.end_ns - trip.start_ns, "parts add up");
                }
            });
        });
    }
    group.finish();
}

/// Round trips between two threads: from when one wakes the other until the other has woken it and
/// it runs again.
fn round_trips(trace: &Trace) -> Vec<RoundTrip> {
    let mut trips = Vec::new();
    let mut open: Option<(u64, u32, u32)> = None;
    for event in &trace.events {
        match (event.body, open) {
            (Body::Waking { thread, .. }, None) if event.tid != 0 && thread.tid != event.tid => {
                open = Some((event.time_ns, event.tid, thread.tid));
            }
            // Without a quick answer it was not a call.
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

criterion_group!(benches, explanation);
criterion_main!(benches);
