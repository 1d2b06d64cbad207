//! Packed recordings, and folders with a recording: `explain` and `trace convert` read them like
//! the plain file. Another file is named in one line.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::process::{roundtrip, stderr, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// The kernel's text of binder calls and of writes. The files are zlib streams, as `atrace -z`
/// writes them.
const CALLS: &str = "x86_64-6.1/kernel-6.1.txt.z";
const WRITES: &str = "x86_64-6.18-writes/kernel.txt.z";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(name)
}

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-packed-{}-{test}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Runs the program with paths in this folder.
    fn run(&self, command: &str, path: &Path) -> Output {
        roundtrip(command).arg(path).current_dir(&self.0).output().unwrap()
    }

    fn json(&self, path: &Path) -> Value {
        let output = self.run("explain --slowest 5 --format json", path);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn refused(&self, command: &str, path: &Path, expected: &str) {
        let output = self.run(command, path);
        let error = stderr(&output);
        assert!(!output.status.success() && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_packed_recording_is_explained_and_converted_like_what_is_in_it() {
    let folder = Folder::new("convert");
    for (name, what) in [(CALLS, "slow_calls"), (WRITES, "writes")] {
        let packed = folder.put("packed.gz", &gzip(&std::fs::read(fixture(name)).unwrap()));
        let expected = folder.json(&fixture(name));
        assert!(!expected[what].is_null(), "{expected}");
        assert_eq!(folder.json(&packed), expected);
        let of = |value: &Value| match what {
            "writes" => value[what]["rows"].as_array().unwrap().len(),
            _ => value[what].as_array().unwrap().len(),
        };
        for out in ["out.perfetto-trace", "out.txt"] {
            let converted = folder.run(&format!("trace convert --force -o {out}"), &packed);
            assert!(converted.status.success(), "{}", stderr(&converted));
            // The text of a request omits what is not kept of it.
            if (what, out) != ("writes", "out.txt") {
                assert_eq!(of(&folder.json(&folder.0.join(out))), of(&expected), "{name} to {out}");
            }
        }
        let again = folder.run("explain --slowest 5 --force -o explained.perfetto-trace", &packed);
        assert!(again.status.success(), "{}", stderr(&again));
        let written =
            String::from_utf8_lossy(&std::fs::read(folder.0.join("explained.perfetto-trace")).unwrap())
                .into_owned();
        let slice = if what == "writes" { "slow write 5" } else { "slow call 5" };
        assert!(written.contains(slice), "{name}: {}", text(&again.stdout));
    }
}

/// A line of the kernel's text as `perf script` prints the event.
fn as_perf_prints(line: &str) -> Option<String> {
    let (who, rest) = line.split_once(" [")?;
    let (comm, tid) = who.split(" (").next()?.trim().rsplit_once('-')?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (flags_and_time, rest) = rest.split_once(": ")?;
    let (event, said) = rest.split_once(": ")?;
    let time = flags_and_time.split_whitespace().last()?;
    Some(format!("{comm:>16} {tid:>6} [{cpu}] {time:>12}: some_system:{event}: {said}\n"))
}

#[test]
fn what_perf_script_prints_is_explained_and_converted_like_the_kernels_text() {
    let folder = Folder::new("perf");
    let mut kernels = String::new();
    flate2::read::ZlibDecoder::new(std::fs::File::open(fixture(CALLS)).unwrap())
        .read_to_string(&mut kernels)
        .unwrap();
    let perfs: String = kernels.lines().filter_map(as_perf_prints).collect();
    let perfs = folder.put("perf.txt.gz", &gzip(perfs.as_bytes()));
    let calls = |path: &Path| -> Vec<Value> {
        let calls = folder.json(path)["slow_calls"].as_array().unwrap().clone();
        calls.iter().map(|call| call["latency_ns"].clone()).collect()
    };
    let expected = calls(&fixture(CALLS));
    assert!(expected.len() == 5 && expected.iter().all(Value::is_number), "{expected:?}");
    assert_eq!(calls(&perfs), expected);
    for (command, out) in [
        ("trace convert -o", "perf.perfetto-trace"),
        ("trace convert -o", "perf.txt"),
        ("explain --slowest 5 -o", "explained.perfetto-trace"),
    ] {
        let written = folder.run(&format!("{command} {out}"), &perfs);
        assert!(written.status.success(), "{}", stderr(&written));
        assert_eq!(calls(&folder.0.join(out)), expected, "{out}");
    }
}

#[test]
fn a_folder_is_read_if_it_holds_one_recording() {
    let folder = Folder::new("folder");
    let path = folder.0.clone();
    folder.put("notes.txt", b"nothing\n");
    folder.refused("explain", &path, "run.json");
    std::fs::copy(fixture(CALLS), path.join("first.z")).unwrap();
    assert_eq!(folder.json(&path), folder.json(&fixture(CALLS)));
    folder.refused("trace convert --snapshot 1 -o out.txt", &path, "--snapshot applies only");
    std::fs::copy(fixture(WRITES), path.join("second.z")).unwrap();
    for command in ["explain", "trace convert -o out.txt"] {
        folder.refused(command, &path, "several recordings: give one of first.z, second.z");
    }
    assert!(!path.join("out.txt").exists());
}

#[test]
fn another_file_is_named_with_what_to_do() {
    let folder = Folder::new("other");
    let chromes = folder.put("trace.json", b"{\"traceEvents\": [{\"ph\": \"X\"}]}");
    let picture = folder.put("screen.png", b"\x89PNG\r\n\x1a\n\0\0");
    for command in ["explain", "trace convert -o out.txt"] {
        folder.refused(command, &chromes, "a trace of user space in Chrome's JSON");
        folder.refused(command, &picture, "a picture (PNG), not a recording that this program reads: record");
    }
}
