//! Reads pages of the kernel's trace into events: those of the reader's fixtures, repeated to 1 MiB
//! for each CPU.

#[path = "../../tracefs/tests/common/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fixture::Fixture;
use roundtrip_tracefs::{CpuPages, Period};

const BYTES: usize = 1 << 20;

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pages");
    for fixture in Fixture::all() {
        let cpus = fixture.repeated(BYTES);
        let pages: Vec<_> =
            cpus.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        let bytes: usize = pages.iter().map(|pages| pages.bytes.len()).sum();
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::from_parameter(&fixture.name), &pages, |bencher, pages| {
            bencher.iter(|| {
                let trace =
                    roundtrip_tracefs::read(&fixture.formats, pages, Period::default()).expect("whole pages");
                assert!(trace.losses.is_empty(), "{:?}", trace.losses.first());
                trace.events.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pages);
criterion_main!(benches);
