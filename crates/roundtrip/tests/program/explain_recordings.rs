//! Explained recordings of other tools: each has the same causes as Roundtrip's own recording of
//! the same calls. `peers/interop/src/foreign.rs` made them simultaneously, in guests with one and
//! with two CPUs.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::process::text;
use flate2::read::ZlibDecoder;
use serde_json::Value;

/// The recordings of Perfetto, trace-cmd and the kernel, each with the precision of its times.
const RECORDINGS: [(&str, i64); 5] = [
    ("perfetto-56.perfetto-trace", 0),
    ("trace-cmd-3.4-v7-zstd.dat", 0),
    ("trace-cmd-3.4-v7-zlib.dat", 0),
    ("trace-cmd-3.4-v6.dat", 0),
    ("kernel-6.1.txt", 1000),
];

/// The recordings of a guest with two CPUs, between which threads migrate.
const RECORDINGS_OF_TWO: [(&str, i64); 3] = [RECORDINGS[0], RECORDINGS[1], RECORDINGS[4]];

fn all_fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings")
}

fn fixtures() -> PathBuf {
    all_fixtures().join("x86_64-6.1")
}

/// A recording of the guest with one CPU.
fn recording(name: &str) -> Vec<u8> {
    recorded(&fixtures(), name)
}

/// A recording. The large ones are stored compressed.
fn recorded(fixtures: &Path, name: &str) -> Vec<u8> {
    if let Ok(bytes) = std::fs::read(fixtures.join(name)) {
        return bytes;
    }
    let packed = std::fs::read(fixtures.join(format!("{name}.z"))).expect(name);
    let mut bytes = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).expect(name);
    bytes
}

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-recordings-{}-{test}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn explain(path: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("explain").args(options).arg(path).output().unwrap()
}

const OPTIONS: [&str; 4] = ["--deadline", "2ms", "--explain-limit", "200"];

fn json(path: &Path, options: &[&str]) -> Value {
    let output = explain(path, &[options, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Each call's start, the causes of its delay, and their durations.
fn causes(explained: &Value) -> Vec<(i64, String, i64)> {
    let calls = explained["slow_calls"].as_array().unwrap().iter();
    let mut calls: Vec<_> = calls
        .map(|call| {
            let cause = &call["explanation"]["causes"][0];
            let named = format!("{} {} {}", cause["kind"], cause["owner"], cause["thread"]["comm"]);
            (call["explanation"]["start_ns"].as_i64().unwrap(), named, cause["excess_ns"].as_i64().unwrap())
        })
        .collect();
    calls.sort();
    calls
}

/// Checks that each recording has the same causes as the run of the same calls, with almost the
/// same times. The times differ slightly, because each recorder takes its own time stamp of an
/// event.
fn have_the_causes_of_our_own(fixtures: &Path, recordings: &[(&str, i64)], most_ns: i64) {
    let folder = Folder::new(&fixtures.file_name().unwrap().to_string_lossy());
    let own = causes(&json(&fixtures.join("run"), &[]));
    assert!(own.len() >= 15, "the run has kept slow calls: {own:?}");
    for (name, rounding_ns) in recordings {
        let theirs = causes(&json(&folder.put(name, &recorded(fixtures, name)), &OPTIONS));
        assert_eq!(theirs.len(), own.len(), "{name}: {theirs:?}\n{own:?}");
        for (ours, theirs) in own.iter().zip(&theirs) {
            assert_eq!(ours.1, theirs.1, "{name}: {ours:?} {theirs:?}");
            assert!((ours.0 - theirs.0).abs() <= 20_000 + rounding_ns, "{name}: {ours:?} {theirs:?}");
            assert!((ours.2 - theirs.2).abs() <= most_ns + rounding_ns, "{name}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn each_tools_recording_has_the_same_causes_as_ours() {
    have_the_causes_of_our_own(&fixtures(), &RECORDINGS, 40_000);
}

#[test]
fn each_tools_recording_has_the_same_causes_with_migrating_threads() {
    let fixtures = all_fixtures().join("x86_64-6.1-two-cpus");
    let text = text(&recorded(&fixtures, "kernel-6.1.txt"));
    let migrated = text.lines().filter(|line| {
        line.contains(" sched_migrate_task: ")
            && ["comm=rsb-", "comm=binder:"].iter().any(|comm| line.contains(comm))
    });
    assert!(migrated.count() >= 10 && ["[000]", "[001]"].iter().all(|cpu| text.contains(cpu)));
    // The guest's time is the host's, which may run something else between two time stamps.
    have_the_causes_of_our_own(&fixtures, &RECORDINGS_OF_TWO, 100_000);
}

#[test]
fn the_report_first_names_the_recordings_format_and_what_it_lacks() {
    let folder = Folder::new("lacks");
    let name = "kernel-6.1.txt";
    let whole = recording(name);
    let said = text(&explain(&folder.put(name, &whole), &OPTIONS).stdout);
    assert!(said.contains("recorded as the kernel's text"), "{said}");
    assert!(said.contains("does not name its clock"), "{said}");
    let without =
        text(&whole).lines().filter(|line| !line.contains(" sched_waking: ")).collect::<Vec<_>>().join("\n");
    let said = text(&explain(&folder.put("without.txt", without.as_bytes()), &OPTIONS).stdout);
    assert!(said.contains("It has no event sched/sched_waking"), "{said}");
    let said = text(&explain(&folder.put("again.txt", &whole), &["--deadline", "10s"]).stdout);
    assert!(said.contains("None of the"), "{said}");
    let slowest = json(&folder.put("slowest.txt", &whole), &["--slowest", "3"]);
    assert_eq!(slowest["slow_calls"].as_array().unwrap().len(), 3);
}

#[test]
fn compressed_atrace_output_and_systrace_pages_are_read() {
    let folder = Folder::new("wrapped");
    let packed = std::fs::read(fixtures().join("kernel-6.1.txt.z")).unwrap();
    let plain = causes(&json(&folder.put("plain.txt", &recording("kernel-6.1.txt")), &OPTIONS));
    let atrace = [b"capturing trace... done\nTRACE:\n".as_slice(), &packed].concat();
    assert_eq!(causes(&json(&folder.put("atrace.z", &atrace), &OPTIONS)), plain);
    let text = text(&recording("kernel-6.1.txt"));
    let page = format!("<html><script class=\"trace-data\">\n{text}\n</script></html>\n");
    assert_eq!(causes(&json(&folder.put("page.html", page.as_bytes()), &OPTIONS)), plain);
}

/// A line of the kernel's text, changed as if the Rust driver of Android's kernels had written it:
/// its events have a prefix, contain the sending process instead of the receiving thread, and name
/// the returned value `ret`.
fn in_rust(line: &str) -> String {
    let Some((head, body)) = line.split_once(": binder_") else { return line.to_owned() };
    let body = body.replace("return: cmd=", "return: ret=").replace(" dest_node=", " target_node=");
    let words =
        body.split(' ').map(|word| if word.starts_with("dest_thread=") { "from_proc=1" } else { word });
    format!("{head}: rust_binder_{}", words.collect::<Vec<_>>().join(" "))
}

#[test]
fn events_of_the_c_and_rust_drivers_give_the_same_calls_and_causes() {
    let folder = Folder::new("rust");
    let c = text(&recording("kernel-6.1.txt"));
    let rust = c.lines().map(in_rust).collect::<Vec<_>>().join("\n");
    assert!(rust.contains(": rust_binder_transaction: ") && !rust.contains(": binder_"));
    let (c, rust) = (folder.put("c.txt", c.as_bytes()), folder.put("rust.txt", rust.as_bytes()));
    assert_eq!(causes(&json(&rust, &OPTIONS)), causes(&json(&c, &OPTIONS)));
    let said = |path: &Path| {
        let said = text(&explain(path, &OPTIONS).stdout);
        said.lines().take_while(|line| !line.is_empty()).skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(said(&rust), said(&c), "and lack the same");
}

#[test]
fn a_damaged_recording_is_explained_up_to_the_damage_and_fails() {
    let folder = Folder::new("damaged");
    for name in ["perfetto-56.perfetto-trace", "trace-cmd-3.4-v6.dat"] {
        let whole = recording(name);
        let cut = folder.put(name, &whole[..whole.len() * 9 / 10]);
        let output = explain(&cut, &OPTIONS);
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("is damaged: "), "{name}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let other = folder.put("other.bin", b"\x7fELF and nothing else");
    let error = text(&explain(&other, &[]).stderr);
    assert!(error.contains("a program or a library"), "{error}");
    let error = text(&explain(&fixtures().join("run"), &["--deadline", "1ms"]).stderr);
    assert!(error.contains("--deadline applies only to another tool's recording"), "{error}");
}

#[test]
fn an_explained_recording_is_written_for_perfetto_and_read_again() {
    let folder = Folder::new("perfetto");
    let name = "trace-cmd-3.4-v7-zstd.dat";
    let path = folder.put(name, &recording(name));
    let out = folder.0.join("out.perfetto-trace");
    let written = explain(&path, &[&OPTIONS[..], &["-o", out.to_str().unwrap()]].concat());
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(causes(&json(&out, &OPTIONS)), causes(&json(&path, &OPTIONS)));
}
