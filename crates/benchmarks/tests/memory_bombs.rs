//! Perfetto traces of which each byte asks for as much memory as it can: what they take is bounded,
//! and grows at most with their size.

use roundtrip_foreign::{Input, Limits};

mod counted;

const MIB: usize = 1 << 20;

/// The most memory for any of them, in bytes.
const MOST_BYTES: usize = 256 * MIB;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    varint(number << 3 | 2, &mut out);
    varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

fn number(number: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(number << 3, &mut out);
    varint(value, &mut out);
    out
}

/// Fields that `make` numbers, about as many bytes as asked for.
fn fields(bytes: usize, make: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 64);
    (0..)
        .take_while(|&at| {
            out.extend(make(at));
            out.len() < bytes
        })
        .for_each(drop);
    out
}

/// A packet whose field is a message, in a message, and so on.
fn packet(path: &[u64], inner: Vec<u8>) -> Vec<u8> {
    path.iter().rev().chain([&1]).fold(inner, |inner, &number| field(number, &inner))
}

/// A column that nobody needs.
fn unused_column(bytes: usize) -> Vec<u8> {
    packet(&[1, 4, 99], vec![0; bytes])
}

/// Switches in one bundle.
fn switches(bytes: usize) -> Vec<u8> {
    let columns = [(1, 1), (2, 0), (3, 5), (4, 0x78), (6, 0)];
    let columns = columns.map(|(number, value)| field(number, &vec![value; bytes / 5]));
    packet(&[1, 4], [columns.concat(), field(5, b"a")].concat())
}

/// A column of numbers that are sent one by one.
fn single_numbers(bytes: usize) -> Vec<u8> {
    packet(&[1, 4], fields(bytes, |_| number(1, 1)))
}

fn thread_names(bytes: usize) -> Vec<u8> {
    packet(&[1, 4], fields(bytes, |at| field(5, format!("{at:x}").as_bytes())))
}

fn processes(bytes: usize) -> Vec<u8> {
    packet(&[2], fields(bytes, |at| field(1, &[number(1, at), field(3, b"x")].concat())))
}

fn symbols(bytes: usize) -> Vec<u8> {
    packet(&[12], fields(bytes, |at| field(26, &[number(1, at), field(2, b"x")].concat())))
}

fn refused_events(bytes: usize) -> Vec<u8> {
    packet(&[34], fields(bytes, |at| field(6, format!("{at:x}").as_bytes())))
}

fn processors(bytes: usize) -> Vec<u8> {
    packet(&[34], fields(bytes, |at| field(2, &[number(1, at), number(3, 1)].concat())))
}

fn described_events(bytes: usize) -> Vec<u8> {
    packet(&[1], fields(bytes, |at| field(11, &[number(1, at), field(2, &field(1, b"x"))].concat())))
}

fn packets(bytes: usize) -> Vec<u8> {
    fields(bytes, |_| field(1, &[]))
}

fn bundles(bytes: usize) -> Vec<u8> {
    fields(bytes, |_| packet(&[1], Vec::new()))
}

/// The most memory that reading takes, and the number of allocations.
fn taken(mebibytes: usize, make: fn(usize) -> Vec<u8>) -> (usize, usize) {
    let bytes = [packet(&[], number(10, 1)), make(mebibytes * MIB)].concat();
    let (_, peak_bytes, allocations) = counted::counted(|| {
        // It may be refused, or be damaged from some place on.
        roundtrip_foreign::read_within(Input::memory(&bytes), &Limits::default())
            .map(|foreign| foreign.trace.event_count())
    });
    (peak_bytes, allocations)
}

// The only test in this file, because the counters cover the whole process.
#[test]
fn no_trace_takes_more_memory_or_steps_than_its_size_explains() {
    type Make = fn(usize) -> Vec<u8>;
    let kinds: [(&str, Make); 11] = [
        ("unused column", unused_column),
        ("switches", switches),
        ("single numbers", single_numbers),
        ("thread names", thread_names),
        ("processes", processes),
        ("symbols", symbols),
        ("refused events", refused_events),
        ("processors", processors),
        ("described events", described_events),
        ("packets", packets),
        ("bundles", bundles),
    ];
    for (name, make) in kinds {
        let [small, middle, large] = [2, 6, 18].map(|mebibytes| taken(mebibytes, make));
        assert!(large.0 < MOST_BYTES, "{name}: {} bytes", large.0);
        for (less, more) in [(small, middle), (middle, large)] {
            // Three times the size. A table that grows may double.
            assert!(more.1 <= 4 * less.1 + 1000, "{name}: {} allocations, then {}", less.1, more.1);
            assert!(more.0 <= 6 * less.0 + MIB, "{name}: {} bytes, then {}", less.0, more.0);
        }
    }
}
