//! From the text of a recording to the explanation of its slow calls: reading it, finding the
//! calls, and explaining twenty of them. The time for each event must not depend on their number.

mod recorded;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use roundtrip_analysis::slow_calls::{self, Wanted};
use roundtrip_layers::Basis;

fn recordings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("recordings");
    group.sample_size(10);
    for calls in [2_000, 8_000] {
        let mut text = Vec::new();
        recorded::write(calls, &mut text);
        let foreign = roundtrip_foreign::read(&text).expect("a recording");
        group.throughput(Throughput::Elements(foreign.trace.events.len() as u64));
        group.bench_with_input(BenchmarkId::new("read", calls), &text, |bencher, text| {
            bencher.iter(|| roundtrip_foreign::read(text));
        });
        group.bench_with_input(BenchmarkId::new("explain", calls), &foreign, |bencher, foreign| {
            bencher.iter(|| {
                let wanted = Wanted { deadline_ns: 2_500_000, slowest: false, limit: 20 };
                let basis = Basis::of(&foreign.trace);
                let found = slow_calls::recorded(&basis, wanted);
                let explained = slow_calls::explain_recorded(&found.kept, &basis, |_| true);
                assert_eq!(explained.len(), 20);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, recordings);
criterion_main!(benches);
