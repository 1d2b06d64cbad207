//! Synchronous writes in other tools' recordings. Our own recorder and the kernel record one run at
//! the same time; trace-cmd makes a file of the kernel's pages, and its text is read too. Every
//! write has the same layers in each. The recordings in fixtures/recordings show how missing events
//! are reported.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::process::text;
use crate::support::storage::{Finally, folder};
use flate2::read::ZlibDecoder;
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::Tracefs;
use serde_json::Value;

/// The events that each recorder records: those that `storage observe` uses on any kernel.
const EVENTS: [&str; 24] = [
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
    "block/block_bio_queue",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "ext4/ext4_sync_file_enter",
    "jbd2/jbd2_start_commit",
    "jbd2/jbd2_end_commit",
    "writeback/balance_dirty_pages",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
];

/// The name of the thread whose system calls the kernel's instance records. Those of other programs
/// would fill its buffer on a busy machine, and take places among the slowest writes.
const NAME: &str = "rt-writer";

/// Writes with fsync, and with O_DSYNC.
const WRITER: &str = "import os\n\
    open('/proc/self/comm','w').write('rt-writer')\n\
    f=os.open('plain',os.O_RDWR|os.O_CREAT,0o600)\n\
    d=os.open('durable',os.O_RDWR|os.O_CREAT|os.O_DSYNC,0o600)\n\
    for i in range(60):\n os.write(f,b'x'*8192); os.fsync(f); os.write(d,b'y'*4096)\n";

fn explain(path: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("explain").args(options).arg(path).output().unwrap()
}

fn json(path: &Path, options: &[&str]) -> Value {
    let output = explain(path, &[options, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An instance of the kernel's trace, removed with this value.
struct Kernel {
    instance: PathBuf,
    _finally: Finally,
    /// A mount of its own, because there may be no other. Ends after the instance.
    _mount: Tracefs,
}

impl Kernel {
    fn record(tracefs: Tracefs) -> Self {
        let instance = tracefs.root().join(format!("instances/writes-{}", std::process::id()));
        std::fs::create_dir(&instance).unwrap();
        let _finally = Finally::run(&format!("rmdir '{}'", instance.display()));
        let this = Self { _finally, instance, _mount: tracefs };
        this.put("trace_clock", "boot");
        // The other threads' events also fill it while a busy machine makes the writes slow.
        this.put("buffer_size_kb", "65536");
        for event in ["sys_enter", "sys_exit"] {
            this.put(&format!("events/raw_syscalls/{event}/filter"), &format!("comm == \"{NAME}\""));
        }
        for event in EVENTS.iter().filter(|event| this.path(&format!("events/{event}")).exists()) {
            this.put(&format!("events/{event}/enable"), "1");
        }
        this
    }

    fn path(&self, file: &str) -> PathBuf {
        self.instance.join(file)
    }

    fn put(&self, file: &str, text: &str) {
        std::fs::write(self.path(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Stops, and stores the text and a trace-cmd file in a folder. trace-cmd's own recorder needs
    /// more permissions than root has on some machines, but the pages are the same.
    fn stop(&self, directory: &Path) {
        self.put("tracing_on", "0");
        std::fs::write(directory.join("trace.txt"), std::fs::read(self.path("trace")).unwrap()).unwrap();
        let mut pages = Vec::new();
        for cpu in 0.. {
            let place = self.path(&format!("per_cpu/cpu{cpu}"));
            if !place.exists() {
                break;
            }
            let name = format!("pages.cpu{cpu}");
            std::fs::write(directory.join(&name), without_waiting(&place.join("trace_pipe_raw"))).unwrap();
            pages.push(name);
        }
        let restore = |arguments: &[&str]| {
            // It mounts tracefs, and leaves it mounted.
            let mut command = Command::new("unshare");
            command.args(["--mount", "trace-cmd", "restore"]).args(arguments).current_dir(directory);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        };
        restore(&["-c", "-o", "head.dat"]);
        let pages = pages.iter().map(String::as_str);
        restore(&["-o", "trace.dat", "-i", "head.dat"].into_iter().chain(pages).collect::<Vec<_>>());
    }
}

/// All complete pages in a raw buffer. A shorter read would split a page.
fn without_waiting(path: &Path) -> Vec<u8> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part) {
            Ok(0) => return bytes,
            Ok(length) => bytes.extend(&part[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return bytes,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// A write's start, its call, and its layers, in nanoseconds.
type Divided = (i64, String, BTreeMap<String, i64>);

/// The slow writes of a process, in their order.
fn divided(writes: &Value, pid: u64) -> Vec<Divided> {
    let layers = |write: &Value| {
        let layers = write["layers"].as_object().unwrap().iter();
        layers.map(|(name, ns)| (name.clone(), ns.as_i64().unwrap())).collect()
    };
    let mut all = Vec::new();
    for write in writes["slow_writes"].as_array().unwrap() {
        let row = &writes["rows"][write["row"].as_u64().unwrap() as usize];
        if row["process"]["pid"].as_u64() == Some(pid) {
            let what = format!("{} {}", row["call"].as_str().unwrap(), row["durable"]);
            all.push((write["start_ns"].as_i64().unwrap(), what, layers(write)));
        }
    }
    all.sort_by_key(|one| one.0);
    all
}

#[test]
fn each_tools_recording_gives_the_same_layers() {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => return skip(Need::Tracefs, error),
    };
    for program in ["trace-cmd", "python3"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(Need::Program(program), format!("no {program} here"));
        }
    }
    let directory = folder("recorded-writes");
    std::fs::write(directory.join("writer.py"), WRITER).unwrap();
    let kernel = Kernel::record(tracefs);
    let mut ours = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    ours.args(["storage", "observe", "--deadline", "1ns", "--explain-limit", "500", "--buffer", "32M"]);
    ours.args(["--format", "json", "--quiet", "--out", "run", "--", "python3", "writer.py"]);
    let output = ours.current_dir(&directory).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    kernel.stop(&directory);

    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let observed = &run["results"]["observed_writes"];
    let pid = observed["rows"][0]["process"]["pid"].as_u64().unwrap();
    let own: usize = observed["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["latency"]["count"].as_u64().unwrap() as usize)
        .sum();
    assert_eq!(own, 120, "{}", observed["rows"]);
    let mut each = Vec::new();
    for name in ["trace.dat", "trace.txt"] {
        let explained = json(&directory.join(name), &["--deadline", "1ns", "--explain-limit", "1000"]);
        let writes = &explained["writes"];
        let ours = divided(writes, pid);
        assert_eq!(ours.len(), own, "{name}: {}", writes["rows"]);
        for row in writes["rows"].as_array().unwrap() {
            assert_eq!(row["divided"]["sum_ns"], row["latency"]["sum_ns"], "{name}: {row}");
        }
        each.push(ours);
    }
    compare(&each[0], &each[1]);
    compare_rows(observed, &each[0]);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The kernel's text rounds each event to a microsecond.
fn compare(ones: &[Divided], others: &[Divided]) {
    const APART_NS: i64 = 20_000;
    for (one, other) in ones.iter().zip(others) {
        assert_eq!(one.1, other.1);
        assert!((one.0 - other.0).abs() <= 1000, "{one:?} {other:?}");
        for name in one.2.keys().chain(other.2.keys()) {
            let of = |write: &Divided| write.2.get(name).copied().unwrap_or(0);
            assert!((of(one) - of(other)).abs() <= APART_NS, "{name}: {one:?} {other:?}");
        }
    }
}

/// The total of each layer of the same writes, by call, as our own recorder reports it.
fn compare_rows(observed: &Value, theirs: &[Divided]) {
    for row in observed["rows"].as_array().unwrap() {
        let what = format!("{} {}", row["call"].as_str().unwrap(), row["durable"]);
        let of = || theirs.iter().filter(|write| write.1 == what);
        assert_eq!(row["latency"]["count"].as_u64(), Some(of().count() as u64), "{row}");
        let all_ns = row["divided"]["sum_ns"].as_i64().unwrap();
        let ours = row["divided"]["layers"].as_object().unwrap();
        let names: std::collections::BTreeSet<&String> =
            ours.keys().chain(of().flat_map(|write| write.2.keys())).collect();
        for name in names {
            let our_ns = ours.get(name).map_or(0, |layer| layer["sum_ns"].as_i64().unwrap());
            let their_ns: i64 = of().map(|write| write.2.get(name).copied().unwrap_or(0)).sum();
            // Each recorder takes its own time stamp of an event, and an interrupt may come in
            // between.
            assert!(
                (our_ns - their_ns).abs() * 20 <= all_ns,
                "{what}, {name}: {our_ns} {their_ns} of {all_ns}"
            );
        }
    }
}

/// A recording of fixtures/recordings, stored compressed.
fn recording(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(name);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    ZlibDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text
}

/// Eight fsyncs and eight writes with O_DSYNC of the program `writer`, as the kernel's text.
const WRITES: &str = "x86_64-6.18-writes/kernel.txt.z";

/// The same writes, recorded by Perfetto 56 at the same time.
const PERFETTO: &str = "x86_64-6.18-writes/perfetto-56.perfetto-trace";

#[test]
fn a_perfetto_trace_gives_the_same_layers_as_the_kernels_text_of_the_same_writes() {
    let in_text = put_without(&recording(WRITES), &[]);
    let in_perfetto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings").join(PERFETTO);
    let [text, perfetto] = [&in_text, &in_perfetto].map(|path| {
        let explained = json(path, &["--deadline", "1ns", "--explain-limit", "100"]);
        let writes = &explained["writes"];
        let mut rows = writes["rows"].as_array().unwrap().iter();
        let writer = rows.find(|row| row["process"]["name"] == "writer").unwrap();
        divided(writes, writer["process"]["pid"].as_u64().unwrap())
    });
    std::fs::remove_file(&in_text).unwrap();
    assert_eq!((text.len(), perfetto.len()), (16, 16));
    compare(&perfetto, &text);
}

static FILES: AtomicU32 = AtomicU32::new(0);

/// A file with a recording's text, without some of its events.
fn put_without(whole: &str, events: &[&str]) -> PathBuf {
    let without = |line: &&str| !events.iter().any(|event| line.contains(event));
    let lines = whole.lines().filter(without).collect::<Vec<_>>().join("\n");
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("roundtrip-writes-{}-{number}.txt", std::process::id()));
    std::fs::write(&path, lines).unwrap();
    path
}

/// The report on a recording's text without some of its events.
fn said_without(whole: &str, events: &[&str], options: &[&str]) -> String {
    let path = put_without(whole, events);
    let output = explain(&path, options);
    std::fs::remove_file(&path).unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_report_names_missing_events_and_attributes_the_remaining_time() {
    let whole = recording(WRITES);
    let said = said_without(&whole, &[], &["--deadline", "1us"]);
    assert!(
        said.contains("fsync") && said.contains("write, O_DSYNC") && said.contains("Slow write 1: "),
        "{said}"
    );
    assert!(!said.contains("binder"), "{said}");
    let said = said_without(&whole, &[": block_bio_queue: "], &[]);
    assert!(said.contains("no block/block_bio_queue"), "{said}");
    let said = said_without(&whole, &[": irq_handler_entry: ", ": irq_handler_exit: "], &[]);
    assert!(said.contains("It has no event irq/irq_handler_entry"), "{said}");
    let said = said_without(&whole, &[": sys_enter: ", ": sys_exit: "], &["--deadline", "1us"]);
    assert!(said.contains("It has no system calls") && said.contains("sync in the file system"), "{said}");
    let said = said_without(&whole, &[": ext4_sync_file_enter: "], &[]);
    assert!(said.contains("opened with O_SYNC") && said.contains("write, buffered"), "{said}");
    let none = [": ext4_sync_file_enter: ", ": sys_enter: ", ": sys_exit: "];
    let path = put_without(&whole, &none);
    let output = explain(&path, &[]);
    std::fs::remove_file(&path).unwrap();
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("or raw_syscalls for writes"), "{error}");
}

#[test]
fn calls_and_writes_of_one_recording_are_both_shown() {
    // The kernel's text of two recordings, one behind the other, is a recording of both.
    let both = recording("x86_64-6.1/kernel-6.1.txt.z") + &recording(WRITES);
    let said = said_without(&both, &[], &["--slowest", "2"]);
    assert!(said.contains(" calls, ") && said.contains(" synchronous writes"), "{said}");
    assert!(said.contains("node ") && said.contains("Slow write 1: "), "{said}");
    // Causes of the slowest, although none missed the deadline.
    let (_, causes) = said.rsplit_once("\n2 slowest; ").unwrap_or_else(|| panic!("{said}"));
    assert!(!causes.starts_with("0 ns") && causes.contains("  waited for a device"), "{said}");
}

/// A run of `storage observe` in a guest, with its recording.
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.18-observed-writes");

#[test]
fn the_slow_writes_of_a_run_are_explained_and_their_reasons_add_up() {
    let run = Path::new(RUN);
    let said = explain(run, &[]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    assert!(
        said.starts_with("27 writes were slow, 2 of them recorded; ")
            && said.contains("\nSlow write 2: python3 ("),
        "{said}"
    );

    let all = json(run, &[]);
    let writes = all["writes"]["slow_writes"].as_array().unwrap();
    assert_eq!(writes.len(), 2);
    for write in writes {
        let took = write["end_ns"].as_u64().unwrap() - write["start_ns"].as_u64().unwrap();
        let sum = |of: &Value| {
            of.as_array().unwrap().iter().map(|one| one["time_ns"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(sum(&write["reasons"]), took);
        for reason in write["reasons"].as_array().unwrap() {
            assert_eq!(sum(&reason["processes"]), reason["time_ns"].as_u64().unwrap());
        }
        // Text and JSON have the same sentence.
        assert!(said.contains(write["verdict"].as_str().unwrap()), "{write} in {said}");
    }

    let one = explain(run, &["--miss", "2"]);
    let one = text(&one.stdout);
    assert!(one.starts_with("Slow write 2: ") && !one.contains("Slow write 1"), "{one}");
    let none = explain(run, &["--miss", "3"]);
    assert_eq!(none.status.code(), Some(2), "{}", text(&none.stderr));
}

#[test]
fn a_slow_write_of_a_run_is_written_for_perfetto_with_its_reasons() {
    let out = std::env::temp_dir().join(format!("slow-{}.perfetto-trace", std::process::id()));
    let done = explain(Path::new(RUN), &["-o", out.to_str().unwrap()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(out).unwrap();
    let has = |words: &str| bytes.windows(words.len()).any(|window| window == words.as_bytes());
    assert!(has("slow write 1") && has("why they did not move"));
}
