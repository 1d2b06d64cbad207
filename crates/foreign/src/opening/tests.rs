//! The same text in every packing is the same recording, and a file that unpacks to too much is
//! refused in one line.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use lzma_rust2::{XzOptions, XzWriter};
use rawzip::{CompressionMethod, ZipArchiveWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{Input, Limits, holds_recording};
use crate::{Error, Foreign, Result, read, read_within};

const HEAD: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/4   #P:2\n#\n";

/// A call of the kernel's text.
const EVENTS: &str = "\
          client-10    (   10) [000] d..2. 100.000020: binder_transaction: transaction=1 dest_node=5 dest_proc=20 \
dest_thread=0 reply=0 flags=0x10 code=0x1
          client-10    (   10) [000] d..2. 100.000030: sched_switch: prev_comm=client prev_pid=10 prev_prio=120 \
prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
          server-20    (   20) [001] ..... 100.000050: binder_transaction_received: transaction=1
          server-20    (   20) [001] d..2. 100.000152: sched_waking: comm=client pid=10 prio=120 target_cpu=000
";

fn text() -> String {
    format!("{HEAD}{EVENTS}")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(6)).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut out);
    for (name, bytes) in members {
        let builder = archive.new_file(name).compression_method(CompressionMethod::DEFLATE);
        let (mut entry, config) = builder.start().unwrap();
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
        writer.write_all(bytes).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    out
}

fn utf16(text: &str, byte_order_mark: bool, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let mark = byte_order_mark.then_some(0xfeff);
    mark.into_iter().chain(text.replace('\n', "\r\n").encode_utf16()).flat_map(bytes).collect()
}

/// What a line feed becomes on its way through a terminal.
fn with_line_ends(bytes: &[u8], end: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| if *byte == b'\n' { end.to_vec() } else { vec![*byte] }).collect()
}

/// `atrace -z`: the text's line ends, and those in the compressed bytes.
fn atrace(end_of_text: &str, end_of_packed: &[u8]) -> Vec<u8> {
    let head = format!("capturing trace... done{end_of_text}TRACE:{end_of_text}");
    // Until the packed bytes contain a line feed, as almost all do.
    let mut text = text();
    let packed = loop {
        let packed = zlib(text.as_bytes());
        if packed.contains(&b'\n') {
            break packed;
        }
        text.push_str("#\n");
    };
    [head.as_bytes(), &with_line_ends(&packed, end_of_packed)].concat()
}

/// A page of systrace: until 2014 with the text as a string.
fn page(as_string: bool) -> String {
    let viewer = "<script>var x = 1;</script>\n".repeat(100);
    let (begin, text, end) = if as_string {
        ("  var linuxPerfData = \"\\\n", text().replace('\n', "\\n\\\n"), "\";\n")
    } else {
        ("", text(), "")
    };
    format!(
        "<!DOCTYPE html>\n<html>\n<head>{viewer}</head>\n<body>\n  <script>\n{begin}{text}{end}  </script>\n\
         </body>\n</html>\n"
    )
}

/// What the reader found: events, damage and notes.
fn events(foreign: &Foreign) -> (usize, Option<&str>) {
    (foreign.trace.event_count(), foreign.damage.as_deref())
}

#[test]
fn the_same_text_is_read_however_it_is_packed() {
    let text = text();
    let plain = text.as_bytes();
    let gz = gzip(plain);
    let skippable = b"\x51\x2a\x4d\x18\x03\0\0\0abc";
    for (how, bytes) in [
        ("as it is", plain.to_vec()),
        ("with CR LF", text.replace('\n', "\r\n").into_bytes()),
        ("with a byte order mark", [b"\xef\xbb\xbf", plain].concat()),
        ("UTF-16", utf16(&text, true, u16::to_le_bytes)),
        ("UTF-16, high byte first", utf16(&text, true, u16::to_be_bytes)),
        ("UTF-16 without a mark", utf16(&text, false, u16::to_le_bytes)),
        ("gzip", gz.clone()),
        ("gzip in two members", [gzip(&plain[..100]), gzip(&plain[100..])].concat()),
        ("xz", xz(plain)),
        ("xz in two streams", [xz(&plain[..100]), xz(&plain[100..])].concat()),
        ("zstd", zstd(plain)),
        ("zstd in frames", [skippable, &zstd(&plain[..100])[..], &zstd(&plain[100..]), skippable].concat()),
        ("zip", zip(&[("notes.txt", b"nothing"), ("empty", b""), ("a/trace.txt", plain)])),
        ("gzip in zip", zip(&[("picture.png", b"\x89PNG\0"), ("trace.txt.gz", &gz)])),
        ("gzip of UTF-16", gzip(&utf16(&text, true, u16::to_le_bytes))),
        ("atrace -z", atrace("\n", b"\n")),
        ("atrace -z, CR LF before the packed bytes", atrace("\r\n", b"\n")),
        ("atrace -z, CR LF everywhere", atrace("\r\n", b"\r\n")),
        ("atrace -z, CR CR LF everywhere", atrace("\r\r\n", b"\r\r\n")),
        ("systrace's page", page(false).into_bytes()),
        ("systrace's page with CR LF", page(false).replace('\n', "\r\n").into_bytes()),
        ("systrace's page of 2012", page(true).into_bytes()),
    ] {
        let foreign = read(&bytes).unwrap_or_else(|error| panic!("{how}: {error}"));
        assert_eq!(events(&foreign), (4, None), "{how}");
        assert_eq!(foreign.trace.comms.len(), 2, "{how}: {:?}", foreign.trace.comms);
        assert!(holds_recording(Input::memory(&bytes), &Limits::default()), "{how}");
    }
}

/// The same events in the other forms of the kernel's text, and as `perf script` prints them.
fn other_forms() -> [(&'static str, String); 3] {
    let of = |line: fn(thread: (&str, &str), cpu: &str, us: &str, event: &str) -> String| -> String {
        let lines = EVENTS.lines().map(|text| {
            let (who, rest) = text.split_once(" (").unwrap();
            let (_, rest) = rest.split_once('[').unwrap();
            let (cpu, rest) = rest.split_once("] ").unwrap();
            let (_, rest) = rest.split_once(" 100.").unwrap();
            let (us, event) = rest.split_once(": ").unwrap();
            line(who.trim().split_once('-').unwrap(), cpu, us, event)
        });
        lines.collect()
    };
    let latency = of(|(comm, tid), cpu, us, event| {
        let (comm, cpu) = (&comm[..comm.len().min(8)], cpu.trim_start_matches("00"));
        format!("{comm:>8}-{tid:<10}{cpu}d..2. 100{us}us+: {event}\n")
    });
    let verbose = of(|(comm, tid), cpu, us, event| {
        let time: u64 = format!("100{us}").parse().unwrap();
        let cpu = cpu.trim_start_matches("00");
        format!("{comm:>16} {tid:>7} {cpu:>3} 1 00000002 00000000 [{time:08x}] 7.100ms (+0.020ms): {event}\n")
    });
    let perf = of(|(comm, tid), cpu, us, event| {
        let (event, said) = event.split_once(": ").unwrap();
        let system = if event.starts_with("sched") { "sched" } else { "binder" };
        format!("{comm:>16} {tid:>6} [{cpu}]   100.{us}: {system}:{event}: {said}\n")
    });
    let header = "# latency: 0 us, #4/4, CPU#0 | (M:PREEMPT VP:0, KP:0, SP:0 HP:0 #P:2)\n";
    [
        ("latency format", [header, &latency].concat()),
        ("verbose latency format", [header, &verbose].concat()),
        ("perf script", perf),
    ]
}

#[test]
fn each_form_of_text_is_read_out_of_each_container() {
    for (form, text) in other_forms() {
        let plain = text.as_bytes();
        for (how, bytes) in [
            ("as it is", plain.to_vec()),
            ("with CR LF", text.replace('\n', "\r\n").into_bytes()),
            ("UTF-16", utf16(&text, true, u16::to_le_bytes)),
            ("UTF-16 without a mark", utf16(&text, false, u16::to_be_bytes)),
            ("gzip", gzip(plain)),
            ("zlib", zlib(plain)),
            ("xz", xz(plain)),
            ("zstd", zstd(plain)),
            ("zip", zip(&[("notes.txt", b"nothing"), ("a/trace.txt", plain)])),
        ] {
            let mut foreign = read(&bytes).unwrap_or_else(|error| panic!("{form}, {how}: {error}"));
            assert_eq!(events(&foreign), (4, None), "{form}, {how}");
            foreign.trace.unpack();
            let last = foreign.trace.events.last().unwrap();
            assert_eq!((last.time_ns, last.cpu, last.tid), (100_000_152_000, 1, 20), "{form}, {how}");
            assert_eq!(foreign.trace.comms[&10], "client", "{form}, {how}");
            assert!(holds_recording(Input::memory(&bytes), &Limits::default()), "{form}, {how}");
        }
    }
}

#[test]
fn a_file_is_read_like_its_bytes_and_progress_is_told() {
    let path = std::env::temp_dir().join(format!("roundtrip-opening-{}", std::process::id()));
    let bytes = gzip(text().as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let told = std::cell::Cell::new((0, 0));
    let progress = |done, total| told.set((done, total));
    let input = Input::file(&file).unwrap().with_progress(&progress);
    assert_eq!(events(&read_within(input, &Limits::default()).unwrap()), (4, None));
    assert_eq!(told.get(), (bytes.len() as u64, bytes.len() as u64));
}

#[test]
fn what_is_cut_off_is_read_up_to_there_and_counts_as_damaged() {
    let (mut text, mut number) = (text(), 1_u64);
    while text.len() < 1 << 20 {
        text.push_str(EVENTS);
        text.push('#');
        // Digits that no compression shortens much.
        for _ in 0..12 {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            text.push_str(&format!("{number:016x}"));
        }
        text.push('\n');
    }
    for packed in [gzip(text.as_bytes()), xz(text.as_bytes()), zstd(text.as_bytes())] {
        let foreign = read(&packed[..packed.len() * 2 / 3]).unwrap();
        assert!(foreign.trace.events.len() > 100, "{}", foreign.trace.events.len());
        assert!(foreign.damage.is_some());
    }
}

fn refused(result: Result<Foreign>) -> String {
    let error = result.unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn a_file_that_unpacks_to_too_much_is_refused_in_one_line() {
    let most = Limits { unpacked_bytes: 1 << 20, ..Limits::default() };
    let much = EVENTS.repeat(4000);
    for packed in [gzip(much.as_bytes()), xz(much.as_bytes()), zstd(much.as_bytes())] {
        assert!(refused(read_within(Input::memory(&packed), &most)).contains("unpacks to more than 1 MiB"));
        assert!(read(&packed).is_ok());
    }
    let spaces = [EVENTS.as_bytes(), &vec![b' '; 20 << 20]].concat();
    for packed in [gzip(&spaces), zip(&[("spaces.txt", &spaces)])] {
        let result = read_within(Input::memory(&packed), &Limits { ratio: 20, ..Limits::default() });
        assert!(refused(result).contains("more than 20 times its size"));
    }
    let nested = (0..5).fold(text().into_bytes(), |inner, _| gzip(&inner));
    assert!(refused(read(&nested)).contains("packed more than 4 times"));
    let many = zip(&[("a", b"a"), ("b", b"b"), ("c", b"c")]);
    let two = Limits { members: 2, ..Limits::default() };
    assert!(refused(read_within(Input::memory(&many), &two)).contains("more than 2 members"));
    let short = Limits { file_bytes: 3 << 20, ..Limits::default() };
    assert!(
        refused(read_within(Input::memory(&spaces), &short)).contains("it has 20 MiB, and at most 3 MiB")
    );
}

#[test]
fn an_archive_with_several_recordings_or_none_says_so() {
    let text = text();
    let several = zip(&[("a.txt", text.as_bytes()), ("b.txt", text.as_bytes())]);
    assert!(matches!(read(&several), Err(Error::Several { names, .. }) if names == "a.txt, b.txt"));
    assert!(holds_recording(Input::memory(&several), &Limits::default()));
    let none = zip(&[("a.txt", b"hello")]);
    assert!(refused(read(&none)).contains("contains no recording"));
    assert!(refused(read(&gzip(&several))).contains("inside another file"));
    assert!(refused(read(&several[..several.len() - 30])).contains("zip archive"));
    assert!(!holds_recording(Input::memory(b"hello"), &Limits::default()));
}

#[test]
fn another_file_is_named_even_if_it_is_packed() {
    assert!(refused(read(&gzip(b"\x7fELF\0\0"))).contains("a program or a library"));
    assert!(refused(read(&utf16("hello\n", true, u16::to_le_bytes))).contains("a file of an unknown kind"));
    assert!(refused(read(b"")).contains("an empty file"));
    assert!(refused(read(&gzip(b"x")[..5])).contains("gzip: it is cut off"));
}
