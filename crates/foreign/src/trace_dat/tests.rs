//! Made-up pages of two CPUs in both versions, whole, cut off and damaged.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::read;

const HEADER_PAGE: &str = "field: u64 timestamp; offset:0; size:8; signed:0;\n\
    field: local_t commit; offset:8; size:8; signed:1;\n\
    field: int overwrite; offset:8; size:1; signed:1;\n\
    field: char data; offset:16; size:4080; signed:1;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const FORMAT: &str = "name: cpu_idle\nID: 9\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";

/// The number of pages of each CPU: more than one read takes.
const PAGES: u64 = 100;

/// A CPU's pages, with one event each.
fn pages() -> Vec<u8> {
    let mut pages = Vec::new();
    for number in 0..PAGES {
        let from = pages.len();
        pages.extend((1_000_000 + number * 1_000).to_le_bytes());
        pages.extend(20_u64.to_le_bytes());
        for word in [4_u32, 9, 7, 1, 0] {
            pages.extend(word.to_le_bytes());
        }
        pages.resize(from + 4096, 0);
    }
    pages
}

fn long(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn headers() -> Vec<u8> {
    [&b"header_page\0"[..], &long(HEADER_PAGE), b"header_event\0", &long(HEADER_EVENT)].concat()
}

fn formats() -> Vec<u8> {
    let (one, group) = (1_u32.to_le_bytes(), b"power\0");
    [&one[..], group, &one, &long(FORMAT)].concat()
}

fn version6() -> Vec<u8> {
    let zero = 0_u32.to_le_bytes();
    let mut file = b"\x17\x08\x44tracing6\0\0\x08\x00\x10\x00\x00".to_vec();
    file.extend([headers(), zero.to_vec(), formats(), [zero, zero].concat(), long("7 idler\n")].concat());
    file.extend(2_u32.to_le_bytes());
    file.extend(b"flyrecord\0");
    let (begin, length) = (file.len() as u64 + 32, pages().len() as u64);
    for cpu in 0..2 {
        file.extend([begin + cpu * length, length].map(u64::to_le_bytes).concat());
    }
    file.extend([pages(), pages()].concat());
    file
}

/// Pages in chunks of ten, compressed, after their number.
fn chunks() -> Vec<u8> {
    let pages = pages();
    let chunks = pages.chunks(10 * 4096);
    let mut out = u32::try_from(chunks.len()).unwrap().to_le_bytes().to_vec();
    for chunk in chunks {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(chunk).unwrap();
        let packed = encoder.finish().unwrap();
        out.extend([packed.len(), chunk.len()].map(|length| (length as u32).to_le_bytes()).concat());
        out.extend(packed);
    }
    out
}

fn version7() -> Vec<u8> {
    let mut file = b"\x17\x08\x44tracing7\0\0\x08\x00\x10\x00\x00zlib\x001\0".to_vec();
    let place = file.len();
    file.extend(0_u64.to_le_bytes());
    let section = |file: &mut Vec<u8>, id: u16, flags: u16, contents: &[u8]| {
        let at = file.len() as u64;
        file.extend([id, flags].map(u16::to_le_bytes).concat());
        file.extend(0_u32.to_le_bytes());
        file.extend((contents.len() as u64).to_le_bytes());
        file.extend(contents);
        at
    };
    let headers = section(&mut file, 16, 0, &headers());
    let formats = section(&mut file, 18, 0, &formats());
    let buffer = section(&mut file, 3, 1, &[]);
    let cpus = [0_u32, 1].map(|cpu| {
        let at = file.len() as u64;
        file.extend(chunks());
        (cpu, at, file.len() as u64 - at)
    });
    let mut data = buffer.to_le_bytes().to_vec();
    data.extend(b"\0boot\0");
    data.extend([4096_u32, 2].map(u32::to_le_bytes).concat());
    for (cpu, at, length) in cpus {
        data.extend(cpu.to_le_bytes());
        data.extend([at, length].map(u64::to_le_bytes).concat());
    }
    let mut options = Vec::new();
    let places = [headers, formats].map(|place| place.to_le_bytes().to_vec());
    for (id, data) in [16_u16, 18, 3].into_iter().zip(places.into_iter().chain([data])) {
        options.extend(id.to_le_bytes());
        options.extend((data.len() as u32).to_le_bytes());
        options.extend(data);
    }
    let at = section(&mut file, 0, 0, &options);
    file[place..place + 8].copy_from_slice(&at.to_le_bytes());
    file
}

#[test]
fn both_versions_have_the_events_of_all_pages_in_order() {
    for file in [version6(), version7()] {
        let foreign = read(&file).unwrap();
        assert_eq!(foreign.damage, None);
        let events = &foreign.trace.events;
        assert_eq!(events.len() as u64, 2 * PAGES);
        assert!(events.is_sorted_by_key(|event| (event.time_ns, event.cpu)));
        assert_eq!((events[0].time_ns, events.last().unwrap().time_ns), (1_000_000, 1_099_000));
    }
}

#[test]
fn a_file_is_read_like_memory() {
    let path = std::env::temp_dir().join(format!("roundtrip-trace-dat-{}", std::process::id()));
    for bytes in [version6(), version7()] {
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let input = crate::Input::file(&file).unwrap();
        let mut foreign = crate::read_within(input, &crate::Limits::default()).unwrap();
        foreign.trace.unpack();
        assert_eq!(foreign.trace.events, read(&bytes).unwrap().trace.events);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_file_that_is_packed_as_a_whole_is_read_like_the_file_itself() {
    for bytes in [version6(), version7()] {
        let (plain, packed) = (read(&bytes).unwrap(), read(&gzip(&bytes)).unwrap());
        assert_eq!(packed.damage, None);
        assert_eq!(packed.trace.events, plain.trace.events);
        assert_eq!(packed.trace.complete_from_ns, plain.trace.complete_from_ns);
        assert_eq!((packed.clock, packed.trace.comms), (plain.clock, plain.trace.comms));
    }
    let whole = gzip(&version6());
    let damage = read(&whole[..whole.len() * 2 / 3]).unwrap().damage;
    assert_eq!(damage.as_deref(), Some("it is cut off"));
}

#[test]
fn a_file_whose_parts_are_far_out_of_order_is_not_unpacked_again_and_again() {
    // Each section of options points to the one before it, a quarter of a megabyte earlier.
    let mut file = b"\x17\x08\x44tracing7\0\0\x08\x00\x10\x00\x00none\x001\0".to_vec();
    let place = file.len();
    file.extend(0_u64.to_le_bytes());
    let mut next = 0_u64;
    for _ in 0..40 {
        let at = file.len() as u64;
        file.extend([0_u8; 8]);
        file.extend(14_u64.to_le_bytes());
        file.extend([&0_u16.to_le_bytes()[..], &8_u32.to_le_bytes(), &next.to_le_bytes()].concat());
        file.resize(file.len() + (1 << 18), 7);
        next = at;
    }
    file[place..place + 8].copy_from_slice(&next.to_le_bytes());
    assert!(read(&file).unwrap_err().to_string().contains("no recording of events"));
    let refused = read(&gzip(&file)).unwrap_err().to_string();
    assert!(refused.contains("unpacked too often"), "{refused}");
}

#[test]
fn pages_that_end_early_are_read_as_far_as_they_go_and_the_cpu_is_named() {
    let whole = version6();
    let foreign = read(&whole[..whole.len() - 10 * 4096]).unwrap();
    assert_eq!(foreign.trace.events.len() as u64, 2 * PAGES - 10);
    assert_eq!(foreign.damage.as_deref(), Some("it is cut off in the pages of CPU 1"));
    let (mut damaged, chunks) = (version7(), chunks());
    let at = damaged.windows(chunks.len()).position(|bytes| bytes == chunks).unwrap();
    damaged[at + chunks.len() - 40..at + chunks.len()].fill(0xff);
    let foreign = read(&damaged).unwrap();
    assert!(foreign.trace.events.len() as u64 >= 2 * PAGES - 10, "{}", foreign.trace.events.len());
    let damage = foreign.damage.unwrap_or_default();
    assert!(damage.starts_with("in the pages of CPU 0: at byte "), "{damage}");
}

/// A file of version 7 without compression: `many` options point to the same section of formats.
fn shared_section(many: usize, padding: usize) -> Vec<u8> {
    let mut file = b"\x17\x08\x44tracing7\0\0\x08\x00\x10\x00\x00none\x001\0".to_vec();
    let place = file.len();
    file.extend(0_u64.to_le_bytes());
    let section = |file: &mut Vec<u8>, id: u16, contents: &[u8]| {
        let at = file.len() as u64;
        file.extend([id, 0].map(u16::to_le_bytes).concat());
        file.extend(0_u32.to_le_bytes());
        file.extend((contents.len() as u64).to_le_bytes());
        file.extend(contents);
        at
    };
    let symbols = [&(padding as u32).to_le_bytes()[..], &vec![b'x'; padding]].concat();
    let shared = section(&mut file, 19, &symbols);
    let mut options = Vec::new();
    for _ in 0..many {
        options.extend([&19_u16.to_le_bytes()[..], &8_u32.to_le_bytes(), &shared.to_le_bytes()].concat());
    }
    let at = section(&mut file, 0, &options);
    file[place..place + 8].copy_from_slice(&at.to_le_bytes());
    file
}

#[test]
fn a_section_that_many_options_share_is_refused_instead_of_read_again_and_again() {
    let refused = |many, padding| read(&shared_section(many, padding)).unwrap_err().to_string();
    assert!(refused(1, 1 << 20).contains("no recording of events"));
    assert!(refused(60_000, 1 << 20).contains("its sections overlap"), "{}", refused(60_000, 1 << 20));
    // A chain of options that points to itself.
    let mut file = shared_section(1, 10);
    let own = file.len() as u64 - 30;
    file.truncate(file.len() - 14);
    file.extend([&0_u16.to_le_bytes()[..], &8_u32.to_le_bytes(), &own.to_le_bytes()].concat());
    assert!(read(&file).unwrap_err().to_string().contains("its sections overlap"));
}

#[test]
fn pages_that_several_cpus_share_are_read_once() {
    let whole = version6();
    let begin = whole.len() - 2 * pages().len();
    let mut shared = whole.clone();
    // Both CPUs have the pages of both: twice as many as the file has.
    for cpu in 0..2 {
        let at = begin - 32 + cpu * 16;
        let place = [begin as u64, 2 * pages().len() as u64];
        shared[at..at + 16].copy_from_slice(&place.map(u64::to_le_bytes).concat());
    }
    let foreign = read(&shared).unwrap();
    let damage = foreign.damage.unwrap_or_default();
    assert_eq!(damage, "in the pages of CPU 1: they are also those of another CPU");
    assert!(foreign.trace.events.iter().all(|event| event.cpu == 0));
    // Compressed pages are small, so two CPUs may share them before they exceed the file.
    let (mut shared, chunks) = (version7(), chunks());
    let first = shared.windows(chunks.len()).position(|bytes| bytes == chunks).unwrap();
    let second = first + chunks.len();
    let place = (second as u64).to_le_bytes();
    let at = shared.windows(8).rposition(|bytes| bytes == place).unwrap();
    shared[at..at + 8].copy_from_slice(&(first as u64).to_le_bytes());
    assert_eq!(read(&shared).unwrap().trace.events.len() as u64, 2 * PAGES, "as long as there are no more");
}

#[test]
fn more_systems_and_formats_than_a_kernel_has_are_refused() {
    let of = |formats: &[u8]| {
        let mut file = b"\x17\x08\x44tracing6\0\0\x08\x00\x10\x00\x00".to_vec();
        file.extend([&headers()[..], formats].concat());
        read(&file).unwrap_err().to_string()
    };
    let zero = 0_u32.to_le_bytes();
    let systems = [&zero[..], &u32::MAX.to_le_bytes()].concat();
    assert!(of(&systems).contains("more than any kernel"), "{}", of(&systems));
    let formats = [&100_000_u32.to_le_bytes()[..], &long("name:a").repeat(100_000)].concat();
    assert!(of(&formats).contains("more than have numbers"), "{}", of(&formats));
}
