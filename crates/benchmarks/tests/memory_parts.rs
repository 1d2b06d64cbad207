//! A Perfetto trace and a `trace.dat`, packed as a whole or in parts, are read in parts: memory
//! grows with their events, not with their bytes.

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

/// Version 7, with one CPU, whose pages are compressed ten at a time.
fn trace_dat_7(mebibytes: u64, out: &mut dyn std::io::Write) {
    let mut head = b"\x17\x08\x44tracing7\0\0\x08\x00\x10\x00\x00zlib\x001\0".to_vec();
    let place = head.len();
    head.extend(0_u64.to_le_bytes());
    let section = |head: &mut Vec<u8>, id: u16, flags: u16, contents: &[u8]| {
        let at = head.len() as u64;
        head.extend([id, flags].map(u16::to_le_bytes).concat());
        head.extend(0_u32.to_le_bytes());
        head.extend((contents.len() as u64).to_le_bytes());
        head.extend(contents);
        at.to_le_bytes().to_vec()
    };
    let mut headers = b"header_page\0".to_vec();
    text(HEADER_PAGE, &mut headers);
    headers.extend(b"header_event\0");
    text(HEADER_EVENT, &mut headers);
    let mut formats = [&1_u32.to_le_bytes()[..], b"power\0", &1_u32.to_le_bytes()].concat();
    text(FORMAT, &mut formats);
    let headers = section(&mut head, 16, 0, &headers);
    let formats = section(&mut head, 18, 0, &formats);
    let mut buffer = section(&mut head, 3, 1, &[]);
    let pages = mebibytes * MIB / PAGE as u64;
    let chunk = |first: u64| -> Vec<u8> {
        (first..pages.min(first + 10)).flat_map(|number| page(1_000_000 + number * 1_000)).collect()
    };
    let packed = |first: u64| {
        let (chunk, mut out) = (chunk(first), Vec::new());
        let packed = zlib(&chunk);
        out.extend([packed.len(), chunk.len()].map(|bytes| (bytes as u32).to_le_bytes()).concat());
        out.extend(packed);
        out
    };
    let length = 4 + (0..pages).step_by(10).map(|first| packed(first).len() as u64).sum::<u64>();
    buffer.extend(b"\0boot\0");
    buffer.extend([PAGE as u32, 1, 0].map(u32::to_le_bytes).concat());
    let mut options = Vec::new();
    // Where the pages begin depends on the length of the options.
    let option_bytes = 3 * 6 + headers.len() + formats.len() + buffer.len() + 16;
    let begin = head.len() as u64 + 16 + option_bytes as u64;
    buffer.extend([begin, length].map(u64::to_le_bytes).concat());
    for (id, data) in [(16_u16, &headers), (18, &formats), (3, &buffer)] {
        options.extend(id.to_le_bytes());
        options.extend((data.len() as u32).to_le_bytes());
        options.extend(data);
    }
    let at = section(&mut head, 0, 0, &options);
    head[place..place + 8].copy_from_slice(&at);
    assert_eq!(head.len() as u64, begin);
    out.write_all(&head).unwrap();
    out.write_all(&(pages.div_ceil(10) as u32).to_le_bytes()).unwrap();
    (0..pages).step_by(10).for_each(|first| out.write_all(&packed(first)).unwrap());
}

/// A zlib stream (RFC 1950) of blocks that are stored as they are.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    bytes.chunks(0xffff).for_each(|block| stored(block, &mut out));
    out.extend([1, 0, 0, 0xff, 0xff]);
    let (mut low, mut high) = (1_u32, 0_u32);
    for &byte in bytes {
        low = (low + u32::from(byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend((high << 16 | low).to_be_bytes());
    out
}

fn stored(block: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    out.extend((block.len() as u16).to_le_bytes());
    out.extend((!(block.len() as u16)).to_le_bytes());
    out.extend(block);
}

/// Packs what is written as gzip (RFC 1952), in blocks that are stored as they are.
struct Gzip<'a> {
    to: &'a mut dyn std::io::Write,
    table: [u32; 256],
    sum: u32,
    bytes: u32,
}

impl<'a> Gzip<'a> {
    fn new(to: &'a mut dyn std::io::Write) -> Self {
        to.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]).unwrap();
        let mut table = [0; 256];
        for (number, entry) in (0_u32..).zip(&mut table) {
            *entry =
                (0..8).fold(number, |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 });
        }
        Self { to, table, sum: !0, bytes: 0 }
    }

    fn end(self) {
        self.to.write_all(&[1, 0, 0, 0xff, 0xff]).unwrap();
        self.to.write_all(&[(!self.sum).to_le_bytes(), self.bytes.to_le_bytes()].concat()).unwrap();
    }
}

impl std::io::Write for Gzip<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(0xffff)];
        for byte in bytes {
            self.sum = self.sum >> 8 ^ self.table[usize::from(self.sum as u8 ^ byte)];
        }
        self.bytes += bytes.len() as u32;
        let mut block = Vec::new();
        stored(bytes, &mut block);
        self.to.write_all(&block).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// The same as [`trace_dat`], packed as a whole.
fn packed_trace_dat(mebibytes: u64, out: &mut dyn std::io::Write) {
    let mut gzip = Gzip::new(out);
    trace_dat(mebibytes, &mut gzip);
    gzip.end();
}

/// The same as [`trace_dat_7`], packed as a whole.
fn packed_trace_dat_7(mebibytes: u64, out: &mut dyn std::io::Write) {
    let mut gzip = Gzip::new(out);
    trace_dat_7(mebibytes, &mut gzip);
    gzip.end();
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
    let kinds: [(Write, usize); 5] = [
        (perfetto, 16),
        (trace_dat, 256),
        (trace_dat_7, 256),
        (packed_trace_dat, 256),
        (packed_trace_dat_7, 256),
    ];
    for (write, per_mebibyte) in kinds {
        let ((few, some_bytes), (many, more_bytes)) = (taken(4, write), taken(36, write));
        assert_eq!((few, many), (4 * per_mebibyte, 36 * per_mebibyte));
        let grown = more_bytes.saturating_sub(some_bytes);
        assert!(grown < 32 << 20 >> 4, "{grown} bytes for 32 MiB: {some_bytes}, {more_bytes}");
        assert!(more_bytes < 4 << 20, "{more_bytes}");
    }
}
