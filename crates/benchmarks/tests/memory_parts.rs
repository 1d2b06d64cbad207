//! A Perfetto trace and a `trace.dat` are read in parts: memory grows with their events, not with
//! their bytes.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use roundtrip_foreign::{Input, Limits};

mod counted;

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(number << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend(bytes);
}

fn number(number: u64, value: u64, out: &mut Vec<u8>) {
    varint(number << 3, out);
    varint(value, out);
}

/// Packets of 64 KiB that are not read, each with a bundle of one event, `cpu_idle`.
fn perfetto(mebibytes: u64, out: &mut dyn std::io::Write) {
    for packet in 0..mebibytes * 16 {
        let (mut idle, mut event, mut bundle, mut whole, mut trace) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        number(1, 1, &mut idle);
        number(2, 0, &mut idle);
        number(1, 1_000_000 + packet, &mut event);
        number(2, 7, &mut event);
        field(13, &idle, &mut event);
        number(1, 0, &mut bundle);
        field(2, &event, &mut bundle);
        field(1, &bundle, &mut whole);
        field(900, &vec![b'x'; 1 << 16], &mut whole);
        field(1, &whole, &mut trace);
        out.write_all(&trace).unwrap();
    }
}

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const FORMAT: &str = "name: cpu_idle\nID: 9\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";

/// A page with one event; a discarded one fills the rest.
fn page(time_ns: u64) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE);
    page.extend(time_ns.to_le_bytes());
    page.extend((PAGE as u64 - 16).to_le_bytes());
    // A record of four words.
    page.extend(4_u32.to_le_bytes());
    for word in [9_u32, 7, 1, 0] {
        page.extend(word.to_le_bytes());
    }
    page.extend((29_u32 | 1 << 5).to_le_bytes());
    let rest = PAGE - page.len();
    page.extend((rest as u32).to_le_bytes());
    page.resize(PAGE, 0);
    page
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Version 6, with two CPUs.
fn trace_dat(mebibytes: u64, out: &mut dyn std::io::Write) {
    let mut head = b"\x17\x08\x44tracing6\0\0\x08\x00\x10\x00\x00".to_vec();
    head.extend(b"header_page\0");
    text(HEADER_PAGE, &mut head);
    head.extend(b"header_event\0");
    text(HEADER_EVENT, &mut head);
    head.extend(0_u32.to_le_bytes());
    head.extend(1_u32.to_le_bytes());
    head.extend(b"power\0");
    head.extend(1_u32.to_le_bytes());
    text(FORMAT, &mut head);
    head.extend(0_u32.to_le_bytes());
    head.extend(0_u32.to_le_bytes());
    text("7 idler\n", &mut head);
    head.extend(2_u32.to_le_bytes());
    head.extend(b"flyrecord\0");
    let each = mebibytes * MIB / 2;
    let begin = (head.len() as u64 + 32).next_multiple_of(PAGE as u64);
    for cpu in 0..2 {
        head.extend((begin + cpu * each).to_le_bytes());
        head.extend(each.to_le_bytes());
    }
    head.resize(begin as usize, 0);
    out.write_all(&head).unwrap();
    for number in 0..mebibytes * MIB / PAGE as u64 {
        let of_cpu = number % (each / PAGE as u64);
        out.write_all(&page(1_000_000 + of_cpu * 1_000)).unwrap();
    }
}

/// How many events a recording of this size has, and how much memory they took.
fn taken(mebibytes: u64, write: fn(u64, &mut dyn std::io::Write)) -> (usize, usize) {
    let path = std::env::temp_dir().join(format!("roundtrip-memory-parts-{}", std::process::id()));
    let mut out = BufWriter::new(File::create(&path).unwrap());
    write(mebibytes, &mut out);
    out.flush().unwrap();
    drop(out);
    let file = File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (events, peak_bytes, _) = counted::counted(|| {
        let input = Input::file(&file).unwrap();
        let foreign = roundtrip_foreign::read_within(input, &Limits::default()).unwrap();
        assert_eq!(foreign.damage, None);
        foreign.trace.event_count()
    });
    (events, peak_bytes)
}

// The only test in this file, because the counters cover the whole process.
#[test]
fn a_recording_of_few_events_takes_little_memory_whatever_its_size() {
    type Write = fn(u64, &mut dyn std::io::Write);
    for (write, per_mebibyte) in [(perfetto as Write, 16), (trace_dat as Write, 256)] {
        let ((few, some_bytes), (many, more_bytes)) = (taken(4, write), taken(36, write));
        assert_eq!((few, many), (4 * per_mebibyte, 36 * per_mebibyte));
        let grown = more_bytes.saturating_sub(some_bytes);
        assert!(grown < 32 << 20 >> 4, "{grown} bytes for 32 MiB: {some_bytes}, {more_bytes}");
        assert!(more_bytes < 4 << 20, "{more_bytes}");
    }
}
