//! Tests against Perfetto itself: its published schema, and its trace processor on traces that we wrote. They need
//! packages that `cargo xtask perfetto` fetches, and are run by it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tracefs::{Body, Event, Loss, Name, TaskState, ThreadRef, Trace};

use super::schema::ALL;
use super::{Annotation, Contents, Parent, Slice, Track, write};

/// Where the packages are, said by whoever fetched them.
fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: run cargo xtask perfetto")).into()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/perfetto").join(name)
}

/// Runs a program with this input, and returns what it prints.
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

/// What the trace processor answers to each query about these bytes.
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

/// Everything that the processor did not like.
const COMPLAINTS: &str =
    "select name, idx, value, severity from stats where value > 0 and severity in ('error', 'data_loss')";

/// A trace in the making.
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

#[test]
#[ignore = "needs Perfetto's schema: cargo xtask perfetto"]
fn every_field_number_is_the_published_one() {
    let said = output(
        Command::new("python3").arg(script("schema.py")).env("PYTHONPATH", folder("ROUNDTRIP_PERFETTO_SCHEMA")),
        &json!(ALL),
    );
    assert_eq!(said.trim(), format!("{} fields are as published", ALL.len()));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn scratch() {
    let mut made = Made::new();
    let idle = ThreadRef::default();
    let a = made.thread(101, 0, "client");
    let b = made.thread(201, 120, "server");
    let states = [0u32, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 1 << 31];
    for (i, s) in states.iter().enumerate() {
        let t = 1000 * (i as u64 + 1);
        made.switch(t, 0, idle, TaskState(0), a);
        made.switch(t + 100, 0, a, TaskState(*s), idle);
        made.add(t + 200, 0, 0, Body::Waking { thread: a, target_cpu: 0 });
        made.add(t + 201, 0, 0, Body::Wakeup { thread: a, target_cpu: 0, new: false });
    }
    let p = made.name("hello");
    made.add(20_000, 0, 101, Body::Print { text: p });
    let p = made.name("B|100|slice");
    made.add(20_001, 0, 101, Body::Print { text: p });
    let p = made.name("E|100");
    made.add(20_002, 0, 101, Body::Print { text: p });
    made.0.processes.insert(101, 100);
    made.0.processes.insert(201, 200);
    let _ = b;
    for release in [None, Some("6.18.2"), Some("4.4.0"), Some("4.19.3"),Some("5.10.1-android")] {
        let contents = Contents { trace: &made.0, release, tracks: &[] };
        let rows = ask("scratch", &contents, &[COMPLAINTS, "select ts, dur, end_state from sched where utid != 0", "select * from process", "select tid,name,upid, utid from thread", "select name from slice", "select name, value from stats where value>0", "select name, str_value,int_value from metadata"]);
        println!("{release:?}");
        for row in rows { println!("   {row}"); }
    }
}
