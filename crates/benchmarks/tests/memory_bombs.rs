//! Files of which each byte asks for as much memory as it can: what they take is bounded, and grows
//! at most with their size.

use std::path::Path;

use roundtrip_analysis::recorded_writes::recorded_writes;
use roundtrip_analysis::slow_calls::Wanted;
use roundtrip_foreign::{Input, Limits};
use roundtrip_layers::Basis;
use roundtrip_run::Run;
use roundtrip_tracefs::Recording;

mod counted;

const MIB: usize = 1 << 20;

/// The most memory for any of them, in bytes.
const MOST_BYTES: usize = 400 * MIB;

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

/// Lines of the kernel's text, about as many bytes as asked for.
fn lines(bytes: usize, line: impl Fn(u64) -> String) -> Vec<u8> {
    fields(bytes, |at| line(at).into_bytes())
}

fn text_threads(bytes: usize) -> Vec<u8> {
    lines(bytes, |at| {
        format!("x-{at} ({at}) [000] d..2. 1.000001: binder_transaction_received: transaction=5\n")
    })
}

fn text_names(bytes: usize) -> Vec<u8> {
    lines(bytes, |at| {
        format!("x-7 [000] d..2. 1.000001: sched_waking: comm={at:x} pid=5 prio=98 target_cpu=001\n")
    })
}

/// Events that each come before the one before them.
fn text_backwards(bytes: usize) -> Vec<u8> {
    let from = 1_000_000_000_000;
    lines(bytes, |at| {
        let us = from - at;
        format!(
            "x-7 [000] d..2. {}.{:06}: binder_transaction_received: transaction=5\n",
            us / 1_000_000,
            us % 1_000_000
        )
    })
}

/// One write that waits again and again.
fn text_waits(bytes: usize) -> Vec<u8> {
    lines(bytes, |at| {
        let what = match at {
            0 => "sys_enter: NR 74 (3, 0, 0, 0, 0, 0)",
            _ if at % 2 == 1 => {
                "sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=D ==> next_comm=y next_pid=8 next_prio=120"
            }
            _ => "sched_waking: comm=x pid=7 prio=120 target_cpu=000",
        };
        format!("x-7 [000] d..2. 1.{at:06}: {what}\n")
    })
}

/// Writes while requests begin and never end.
fn text_requests(bytes: usize) -> Vec<u8> {
    lines(bytes, |at| {
        let what = match at % 4 {
            0 => format!("block_bio_queue: 254,0 FWFS {at} + 8 [x]"),
            1 => format!("block_rq_issue: 254,0 WS 4096 () {at} + 8 none,0,0 [x]"),
            2 => "sys_enter: NR 74 (3, 0, 0, 0, 0, 0)".to_owned(),
            _ => "sys_exit: NR 74 = 0".to_owned(),
        };
        format!("x-7 [000] d..2. 1.{at:06}: {what}\n")
    })
}

fn text_empty_lines(bytes: usize) -> Vec<u8> {
    let first = "x-7 [000] d..2. 1.000001: binder_transaction_received: transaction=5\n";
    [first.as_bytes(), &vec![b'\n'; bytes]].concat()
}

/// A `trace.dat` of version 6 with lists of symbols and of threads.
fn trace_dat(symbols: &[u8], threads: &[u8]) -> Vec<u8> {
    let format = |name: &str| {
        std::fs::read(format!("../../fixtures/tracefs/x86_64-6.18/events/{name}")).expect("a fixture")
    };
    let long = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes(), bytes].concat();
    let short = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let mut file = b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0header_page\0".to_vec();
    file.extend(long(&format("header_page")));
    file.extend(b"header_event\0");
    file.extend(long(&format("header_event")));
    file.extend([0; 8]);
    file.extend([short(symbols), short(b""), long(threads), vec![0; 4]].concat());
    file.extend(b"flyrecord\0");
    file
}

fn trace_dat_symbols(bytes: usize) -> Vec<u8> {
    trace_dat(&lines(bytes, |at| format!("{at:x} t a\n")), b"")
}

fn trace_dat_threads(bytes: usize) -> Vec<u8> {
    trace_dat(b"", &lines(bytes, |at| format!("{at} a\n")))
}

/// A stored run with more in this list or map.
fn run(inside: &str, bytes: usize, part: impl Fn(u64) -> String) -> Vec<u8> {
    let text =
        std::fs::read_to_string("../../fixtures/runs/x86_64-6.1-observed/run.json").expect("a fixture");
    let (before, after) = text.split_once(inside).expect("it has this part");
    [before.as_bytes(), inside.as_bytes(), &lines(bytes, part), after.as_bytes()].concat()
}

fn run_strings(bytes: usize) -> Vec<u8> {
    run("\"binder_devices\":[", bytes, |_| "\"\",".to_owned())
}

fn run_facts(bytes: usize) -> Vec<u8> {
    run("\"facts\":{", bytes, |at| format!("\"{at}\":{{\"value\":1,\"from\":\"\"}},"))
}

fn run_unknown(bytes: usize) -> Vec<u8> {
    run("\"facts\":{", bytes, |at| format!("\"{at}\":{{\"value\":[],\"from\":\"\",\"more\":[[],{{}}]}},"))
}

/// Writes a recording of this program: the pages of one CPU, with records of 16 bytes.
fn write_pages(bytes: usize, recording: &Path) {
    const PAGE_BYTES: usize = 4096;
    let fixture = Path::new("../../fixtures/tracefs/x86_64-6.18/events");
    let write = |name: &str, bytes: &[u8]| {
        let path = recording.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let format = std::fs::read_to_string(fixture.join("irq/softirq_entry/format")).unwrap();
    let id: u16 = format.lines().find_map(|line| line.strip_prefix("ID: ")?.parse().ok()).unwrap();
    write("formats/irq/softirq_entry", format.as_bytes());
    for name in ["header_page", "header_event"] {
        write(&format!("formats/{name}"), &std::fs::read(fixture.join(name)).unwrap());
    }
    let names = r#""recorded":["irq/softirq_entry"],"missing":[]"#;
    let machine = r#""clock":"boot","machine":"x86_64","kernel_release":"","byte_order":"little""#;
    write(
        "recording.json",
        format!(
            r#"{{"schema":"roundtrip.recording","version":1,{machine},"page_bytes":{PAGE_BYTES},{names}}}"#
        )
        .as_bytes(),
    );
    let stats = r#"{"entries":0,"overrun":0,"commit_overrun":0,"dropped":0}"#;
    let snapshot = format!(r#"{{"cpus":{{"0":{stats}}},"processes":{{}},"comms":{{}}}}"#);
    write("snapshots/0001/snapshot.json", snapshot.as_bytes());
    // A length of three words, one nanosecond after the record before.
    let record = [&(3_u32 | 1 << 5).to_le_bytes()[..], &id.to_le_bytes(), &[0; 10]].concat();
    let records = record.repeat((PAGE_BYTES - 16) / record.len());
    let page = |at: u64| {
        let head = [at * 1000, records.len() as u64].map(u64::to_le_bytes).concat();
        let mut page = [head, records.clone()].concat();
        page.resize(PAGE_BYTES, 0);
        page
    };
    let pages: Vec<u8> = (0..(bytes / PAGE_BYTES) as u64).flat_map(page).collect();
    write("snapshots/0001/cpu0.pages", &pages);
}

/// Reads a file of any kind, and divides the writes of a recording. It may be refused, or be
/// damaged from some place on.
fn read(bytes: &[u8]) {
    if bytes.starts_with(b"{") {
        let _ = roundtrip_stored::read_text::<Run>(bytes);
    } else if let Ok(foreign) = roundtrip_foreign::read_within(Input::memory(bytes), &Limits::default()) {
        let wanted = Wanted { deadline_ns: 20_000_000, slowest: false, limit: 20 };
        let _ = recorded_writes(&Basis::of(&foreign.trace), wanted);
    }
}

/// The most memory that reading takes, and the number of allocations.
fn taken(mebibytes: usize, make: fn(usize) -> Vec<u8>) -> (usize, usize) {
    let made = make(mebibytes * MIB);
    // Perfetto's traces begin with a packet that is empty but for a number.
    let first = if made.starts_with(b"\x0a") { packet(&[], number(10, 1)) } else { Vec::new() };
    let bytes = [first, made].concat();
    let ((), peak_bytes, allocations) = counted::counted(|| read(&bytes));
    (peak_bytes, allocations)
}

/// The same for one of this program's recordings.
fn taken_by_pages(mebibytes: usize) -> (usize, usize) {
    let folder = std::env::temp_dir().join(format!("roundtrip-pages-{}", std::process::id()));
    write_pages(mebibytes * MIB, &folder);
    let recording = Recording::open(&folder).unwrap();
    let (read, peak_bytes, allocations) = counted::counted(|| recording.read(1));
    std::fs::remove_dir_all(folder).unwrap();
    match read {
        Ok(trace) => assert!(trace.events.len() > mebibytes * MIB / 20, "all events are read"),
        Err(error) => {
            assert!(mebibytes > 50, "{error}");
            assert!(error.to_string().contains("items: record for a shorter time"), "{error}");
        }
    }
    (peak_bytes, allocations)
}

// The only test in this file, because the counters cover the whole process.
#[test]
fn no_file_takes_more_memory_or_steps_than_its_size_explains() {
    type Make = fn(usize) -> Vec<u8>;
    let kinds: [(&str, Make); 22] = [
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
        ("threads of a text", text_threads),
        ("names of a text", text_names),
        ("events of a text backwards", text_backwards),
        ("empty lines of a text", text_empty_lines),
        ("waits of a write", text_waits),
        ("requests without an end", text_requests),
        ("symbols of a trace.dat", trace_dat_symbols),
        ("threads of a trace.dat", trace_dat_threads),
        ("strings of a run", run_strings),
        ("facts of a run", run_facts),
        ("unknown parts of a run", run_unknown),
    ];
    for (name, make) in kinds {
        compare(name, [2, 6, 18].map(|mebibytes| taken(mebibytes, make)));
    }
    compare("pages of a recording", [6, 18, 54].map(taken_by_pages));
}

/// Compares the memory and the allocations of files of three sizes, each three times as large as
/// the one before.
fn compare(name: &str, [small, middle, large]: [(usize, usize); 3]) {
    assert!(large.0 < MOST_BYTES, "{name}: {} bytes", large.0);
    for (less, more) in [(small, middle), (middle, large)] {
        // A table that grows may double.
        assert!(more.1 <= 4 * less.1 + 1000, "{name}: {} allocations, then {}", less.1, more.1);
        assert!(more.0 <= 6 * less.0 + MIB, "{name}: {} bytes, then {}", less.0, more.0);
    }
}
