//! Tests against Perfetto itself: against its published schema, and with its trace processor, which
//! reads traces that we wrote. `cargo xtask perfetto` downloads the necessary packages and runs the
//! tests.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use roundtrip_perfetto::schema::{DECODED, Kind, MESSAGES, READ, WRITTEN};
use roundtrip_tracefs::{Body, Event, Loss, Name, TaskState, ThreadRef, Trace};
use serde_json::{Value as Json, json};

mod events;
mod slices;
mod threads;

use super::track::{Annotation, Parent, Slice, Track, Value};
use super::{Contents, write};

/// The folder of the packages, passed by `cargo xtask perfetto`.
fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run cargo xtask perfetto"))
        .into()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/perfetto").join(name)
}

/// Runs a program with this input, and returns its output.
fn output(command: &mut Command, input: &Json) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    child.stdin.take().expect("a pipe").write_all(input.to_string().as_bytes()).expect("write");
    let output = child.wait_with_output().expect("wait");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.chars().take(2000).collect();
    assert!(output.status.success(), "{text}\n{said}");
    text
}

/// The trace processor's answers to queries about these bytes.
fn ask_of(name: &str, bytes: &[u8], queries: &[&str]) -> Vec<Json> {
    let path = std::env::temp_dir().join(format!("roundtrip-{}-{name}.perfetto-trace", std::process::id()));
    std::fs::write(&path, bytes).expect("store the trace");
    let engine = folder("ROUNDTRIP_TRACE_PROCESSOR");
    let mut node = Command::new("node");
    let rows = output(node.arg(script("query.mjs")).arg(engine).arg(&path), &json!(queries));
    std::fs::remove_file(&path).expect("remove the trace");
    serde_json::from_str(&rows).expect("rows")
}

fn ask(name: &str, contents: &Contents<'_>, queries: &[&str]) -> Vec<Json> {
    let mut bytes = Vec::new();
    write(contents, &mut bytes).expect("write the trace");
    ask_of(name, &bytes, queries)
}

/// All errors that the trace processor reports.
const COMPLAINTS: &str =
    "select name, idx, value, severity from stats where value > 0 and severity in ('error', 'data_loss')";

/// A trace under construction.
struct Made(Trace);

impl Made {
    fn new() -> Self {
        Self(Trace { machine: "x86_64".into(), ..Trace::default() })
    }

    fn name(&mut self, text: &str) -> Name {
        self.0.names.intern(text)
    }

    fn thread(&mut self, tid: u32, prio: i32, name: &str) -> ThreadRef {
        ThreadRef { tid, prio, comm: self.name(name) }
    }

    fn add(&mut self, time_ns: u64, cpu: u32, tid: u32, body: Body) {
        self.0.events.push(Event { time_ns, cpu, tid, body });
    }

    fn switch(&mut self, time_ns: u64, cpu: u32, prev: ThreadRef, prev_state: TaskState, next: ThreadRef) {
        self.add(time_ns, cpu, prev.tid, Body::Switch { prev, prev_state, next });
    }
}

/// The trace processor's answers for the text format.
fn ask_text(name: &str, made: &Made, queries: &[&str]) -> Vec<Json> {
    let mut bytes = Vec::new();
    crate::ftrace_text::write(&made.0, &mut bytes).expect("write the text");
    ask_of(name, &bytes, queries)
}

/// The answers for a trace with a known kernel release.
fn ask_modern(name: &str, made: &Made, tracks: &[Track], queries: &[&str]) -> Vec<Json> {
    let mut trace = made.0.clone();
    trace.comms = [(200, "the server"), (7, "kthread")].map(|(tid, name)| (tid, name.to_owned())).into();
    ask(name, &Contents { trace: &trace, release: "6.18.2", tracks }, queries)
}

#[test]
#[ignore = "needs Perfetto's schema: cargo xtask perfetto"]
fn every_field_number_is_the_published_one() {
    let mut table: Vec<Json> = MESSAGES.iter().map(|entry| json!(entry)).collect();
    for event in DECODED.iter().chain(READ).chain(WRITTEN) {
        table.push(json!(["FtraceEvent", event.name, event.number, "Nested"]));
        table.extend(event.fields.iter().map(|(field, kind)| {
            let (number, kind) = match kind {
                Kind::Int(number) => (number, "Int"),
                Kind::Uint(number) => (number, "Uint"),
                Kind::Text(number) => (number, "Text"),
            };
            json!([event.message, field, number, kind])
        }));
    }
    let mut python = Command::new("python3");
    python.arg(script("schema.py")).env("PYTHONPATH", folder("ROUNDTRIP_PERFETTO_SCHEMA"));
    let said = output(&mut python, &json!(table));
    assert_eq!(said.trim(), format!("{} fields are as published", table.len()));
}

#[test]
fn named_events_can_be_searched_by_name() {
    assert!(WRITTEN.is_sorted_by_key(|event| event.name));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn thread_states_are_read_as_recorded() {
    let mut made = Made::new();
    let (idle, client) = (ThreadRef::default(), made.thread(101, 0, "client"));
    let states = [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 1 << 31].map(TaskState);
    for (state, begin_ns) in states.into_iter().zip((1..).map(|step| step * 1000)) {
        made.switch(begin_ns, 0, idle, TaskState(0), client);
        made.switch(begin_ns + 100, 0, client, state, idle);
    }
    for release in ["6.18.2", "4.19.3-android", "custom", ""] {
        let contents = Contents { trace: &made.0, release, tracks: &[] };
        let query = "select ts, dur, end_state from sched where utid != 0 order by ts";
        let rows = ask("states", &contents, &[COMPLAINTS, query]);
        assert_eq!(rows[0], json!([]), "{release}");
        let expected: Vec<Json> = states
            .into_iter()
            .zip((1..).map(|step| step * 1000))
            .map(|(state, begin_ns)| json!([begin_ns, 100, state.letter()]))
            .collect();
        assert_eq!(rows[1], json!(expected), "{release}");
    }
}

#[test]
fn a_slice_that_ends_before_its_start_is_refused() {
    let made = Made::new();
    let slices = vec![Slice { name: "odd".into(), begin_ns: 5, end_ns: 4, ..Slice::default() }];
    let tracks = [Track { name: "track".into(), parent: Parent::Top, slices }];
    let contents = Contents { trace: &made.0, release: "", tracks: &tracks };
    let error = write(&contents, &mut Vec::new()).expect_err("a slice of negative length");
    assert_eq!(error.to_string(), "slice 'odd' of track 'track' ends before it begins");
}
