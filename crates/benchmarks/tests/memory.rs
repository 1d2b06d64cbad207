//! Memory and work for a large recording grow in proportion to its events, and memory is less than
//! the text itself.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use roundtrip_analysis::slow_calls::{self, Wanted};
use roundtrip_foreign::{Input, Limits};
use roundtrip_layers::Basis;

mod counted;
#[path = "../benches/recorded/mod.rs"]
mod recorded;

/// What it took to read and explain a recording.
#[derive(Debug)]
struct Taken {
    events: usize,
    file_bytes: u64,
    read_bytes: u64,
    peak_bytes: usize,
    allocations: usize,
}

fn taken(calls: u64) -> Taken {
    let path = std::env::temp_dir().join(format!("roundtrip-memory-{}", std::process::id()));
    let mut out = BufWriter::new(File::create(&path).unwrap());
    recorded::write(calls, &mut out);
    out.flush().unwrap();
    drop(out);
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();

    let (read_bytes, last) = (Cell::new(0), Cell::new(0));
    let progress = |done: u64, _| {
        // It starts again for each pass.
        read_bytes.set(read_bytes.get() + done.checked_sub(last.get()).unwrap_or(done));
        last.set(done);
    };
    let input = Input::file(&file).unwrap().with_progress(&progress);
    let (events, peak_bytes, allocations) = counted::counted(|| {
        let foreign = roundtrip_foreign::read_within(input, &Limits::default()).unwrap();
        let wanted = Wanted { deadline_ns: 2_500_000, slowest: false, limit: 20 };
        let basis = Basis::of(&foreign.trace);
        let found = slow_calls::recorded(&basis, wanted);
        let explained = slow_calls::explain_recorded(&found.kept, &basis, |_| true);
        assert_eq!((found.kept.all_calls(), explained.len()), (calls, 20));
        foreign.trace.event_count()
    });
    Taken {
        events,
        file_bytes: file.metadata().unwrap().len(),
        read_bytes: read_bytes.get(),
        peak_bytes,
        allocations,
    }
}

// The only test in this file, because the counters cover the whole process.
#[test]
fn memory_and_work_grow_with_the_events_and_memory_stays_small() {
    let (some, more) = (taken(4_000), taken(16_000));
    let events = more.events - some.events;
    assert!(events > 100_000, "{more:?}");
    // The whole text used to be in memory, with its events of 48 bytes each.
    let per_event = (more.peak_bytes - some.peak_bytes) / events;
    let formerly = more.file_bytes as usize / more.events + 48;
    assert!(
        per_event * 3 <= formerly,
        "{per_event} bytes for each event, {formerly} formerly: {some:?} {more:?}"
    );
    // The first bytes are looked at to tell the format.
    assert!(more.read_bytes <= more.file_bytes + (1 << 20), "{more:?}");
    let allocations = more.allocations - some.allocations;
    assert!(allocations < events / 10, "{allocations} allocations for {events} events");
}
