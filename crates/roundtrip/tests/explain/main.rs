//! From a slow call to its explanation, on the running kernel: a run with a known disturbance, its
//! stored explanations, and the trace for other tools. If this process may not use the kernel's
//! trace, a test is skipped. Checks with Perfetto's trace processor need packages that `cargo xtask
//! perfetto` downloads.
#![allow(clippy::print_stderr)] // How a test says what it could not try.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use skips::{Need, skip};
use tracefs::{Body, Recording, Trace, Tracefs};

/// A run whose server now and then sleeps longer than the deadline, in a temporary folder.
struct Run(PathBuf);

impl Run {
    /// `None`, with the test skipped, if the kernel's trace cannot be used.
    fn record(name: &str, kept: usize) -> Option<Self> {
        if let Err(error) = Tracefs::open() {
            skip(Need::Tracefs, error);
            return None;
        }
        let folder = std::env::temp_dir().join(format!("roundtrip-explained-{}-{name}", std::process::id()));
        let run = Self(folder);
        let args = format!(
            "ipc latency --driver emulated --stack hwbinder --callers other --pairs 2 --duration 600ms \
             --deadline 5ms --explain --explain-limit {kept} --inject sleep,every=50ms,for=10ms --out"
        );
        let recorded = roundtrip(&args).arg(&run.0).output().unwrap();
        assert!(recorded.status.success(), "{}", stderr(&recorded));
        Some(run)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.0.join("run.json")).unwrap()).unwrap()
    }

    fn explain(&self, args: &str) -> Output {
        let output = roundtrip("explain").arg(&self.0).args(args.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    }

    /// A trace of one slow call, selected by its rank; the slowest call has rank 1.
    fn perfetto(&self, rank: usize) -> PathBuf {
        let file = self.0.join("slow.perfetto-trace");
        self.explain(&format!("--miss {rank} -o {}", file.display()));
        file
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn in_a_time_namespace_nothing_is_explained_and_the_run_says_why() {
    let unshare = ["--time", "--boottime", "1000"];
    let tried = Command::new("unshare").args(unshare).arg("true").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        // Root may create time namespaces if the kernel supports them (Linux 5.6).
        let need = if Path::new("/proc/self/ns/time").exists() { Need::Root } else { Need::Machine };
        return skip(need, "no time namespace could be made");
    }
    let args = "ipc latency --driver emulated --stack hwbinder --callers other --iterations 50 --explain --deadline 1ns";
    let mut command = Command::new("unshare");
    command.args(unshare).arg(env!("CARGO_BIN_EXE_roundtrip")).args(args.split_whitespace());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", stderr(&output));
    let why = "this process is in a time namespace, whose boot clock is shifted by 1000 s";
    assert!(format!("{page}{}", stderr(&output)).contains(why), "{page}");
    assert!(page.contains("No kernel events: the kernel's trace cannot be used: "), "{page}");
}

/// Checks that parts are contiguous, including the parts of awaited threads.
fn check_parts(parts: &Value, begin_ns: u64, end_ns: u64) {
    let mut at_ns = begin_ns;
    for part in parts.as_array().unwrap() {
        assert_eq!(number(&part["begin_ns"]), at_ns, "{part}");
        at_ns = number(&part["end_ns"]);
        assert!(part["state"].is_string() && ["client", "server"].contains(&part["owner"].as_str().unwrap()));
        if !part["thread"].is_null() {
            assert_eq!(keys(&part["thread"]), ["comm", "pid", "prio", "tid"]);
        }
        if let Some(because) = part.get("because") {
            check_parts(because, number(&part["begin_ns"]), at_ns);
        }
    }
    assert_eq!(at_ns, end_ns, "the parts add up");
}

#[test]
fn a_run_is_explained_from_its_directory_in_a_form_that_stays() {
    let Some(run) = Run::record("json", 2) else { return };
    let explained = &run.json()["results"]["latency"]["explained"];
    let mut stored = explained["misses"].as_array().unwrap().clone();
    let took_ns = |miss: &Value| number(&miss["sample"]["end_ns"]) - number(&miss["sample"]["start_ns"]);
    stored.sort_by_key(|miss| std::cmp::Reverse(took_ns(miss)));
    let output = run.explain("--format json");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&document), ["before_comparison", "over_limit", "schema", "slow_calls", "version"]);
    assert_eq!((&document["schema"], &document["version"]), (&json!("roundtrip.explanation"), &json!(1)));
    assert_eq!(document["over_limit"], explained["over_limit"]);
    let calls = document["slow_calls"].as_array().unwrap();
    assert_eq!((calls.len(), stored.len()), (2, 2), "it sleeps twelve times");
    for (call, miss) in calls.iter().zip(&stored) {
        let of_call = [
            "deadline_ns",
            "explanation",
            "latency_ns",
            "number",
            "snapshot",
            "usual_ns",
            "what",
            "without_events",
        ];
        assert_eq!(keys(call), of_call);
        let of_explanation = [
            "causes",
            "client",
            "end_ns",
            "flags",
            "parts",
            "reply_by",
            "reply_ns",
            "request_by",
            "request_ns",
            "server",
            "start_ns",
            "verdict",
        ];
        let explanation = &call["explanation"];
        assert_eq!(keys(explanation), of_explanation);
        let (start_ns, end_ns) = (&miss["sample"]["start_ns"], &miss["sample"]["end_ns"]);
        assert_eq!((&explanation["start_ns"], &explanation["end_ns"]), (start_ns, end_ns));
        assert_eq!(number(&call["latency_ns"]), number(end_ns) - number(start_ns));
        assert_eq!(call["deadline_ns"], 5_000_000);
        check_parts(&explanation["parts"], number(start_ns), number(end_ns));
        for cause in explanation["causes"].as_array().unwrap() {
            for key in ["kind", "excess_ns", "owner", "thread", "name", "cpu"] {
                assert!(cause.get(key).is_some(), "{key}: {cause}");
            }
        }
    }
    let text = String::from_utf8(run.explain("").stdout).unwrap();
    let over_limit = number(&explained["over_limit"]);
    let said =
        if over_limit == 1 { "1 more slow call,".into() } else { format!("{over_limit} more slow calls,") };
    assert_eq!(text.contains("beyond --explain-limit 2"), over_limit > 0, "{text}");
    assert_eq!(text.contains(&said), over_limit > 0, "{text}");
    assert_eq!(text.matches("Slow call ").count(), 2);
    assert!(text.starts_with(&format!("{} missed; the 2 slowest", over_limit + 2)), "{text}");
    assert!(text.find("Slow call 1:") < text.find("Slow call 2:"), "{text}");
}

#[test]
fn all_round_trips_that_were_recorded_are_stored_beside_the_events() {
    let Some(run) = Run::record("calls", 2) else { return };
    let explained = &run.json()["results"]["latency"]["explained"];
    let recorded = explained["recorded"].as_array().unwrap();
    let recording = Recording::open(&run.0.join("recording")).unwrap();
    for number in recording.snapshots().unwrap() {
        let of = recorded.iter().filter(|of| of["snapshot"] == number);
        let calls: u64 = of.clone().map(|of| self::number(&of["calls"])).sum();
        let bytes = recording.beside(number, "calls").unwrap().unwrap();
        assert_eq!(bytes.len() as u64, calls * latency::Sample::ENCODED_LEN as u64);
        assert!(of.clone().all(|of| of["complete"] == true));
        // Both pairs call all the time, but a recording may start just before the call for which it
        // is kept.
        let pairs: Vec<u64> = of.map(|of| self::number(&of["pair"])).collect();
        assert!([&[0, 1][..], &[0], &[1]].contains(&&pairs[..]), "{pairs:?}");
        let trace = recording.read(number).unwrap();
        let samples = latency::Sample::decode_all(&bytes).unwrap();
        let woken: Vec<u64> = wakings(&trace);
        let stopped_ns = trace.stopped_ns.unwrap();
        let from_ns = trace.complete_from_ns.values().copied().max().unwrap();
        let whole: Vec<_> =
            samples.iter().filter(|sample| sample.start_ns > from_ns && sample.end_ns < stopped_ns).collect();
        let without = whole
            .iter()
            .filter(|sample| !woken.iter().any(|ns| (sample.start_ns..sample.end_ns).contains(ns)))
            .count();
        // If neither of two threads sleeps yet, neither wakes the other.
        assert!(without * 20 <= whole.len(), "{without} of {} calls wake nobody", whole.len());
    }
}

/// The times at which threads woke others.
fn wakings(trace: &Trace) -> Vec<u64> {
    let wakings = trace.events.iter().filter(|event| matches!(event.body, Body::Waking { .. }));
    wakings.map(|event| event.time_ns).collect()
}

/// A run over the kernel's own driver, in a guest with Linux 6.1: `ipc latency --driver kernel
/// --explain --inject sleep`.
#[test]
fn a_run_over_the_kernels_driver_is_explained_by_binders_own_events_on_any_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let output = roundtrip("explain --format json").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let explanation = &document["slow_calls"][0]["explanation"];
    assert_eq!((&explanation["request_by"], &explanation["reply_by"]), (&json!("binder"), &json!("binder")));
    check_parts(&explanation["parts"], number(&explanation["start_ns"]), number(&explanation["end_ns"]));
    assert_eq!(explanation["verdict"], "the server slept for 40.12 ms (timer)");

    // The times and threads are those of the transaction and its reply.
    let trace = Recording::open(&folder.join("recording")).unwrap().read(1).unwrap();
    let (client, server) = (&explanation["client"], &explanation["server"]);
    let transaction = |is_reply, from: &Value| {
        trace.events.iter().rev().find_map(|event| match event.body {
            Body::BinderTransaction { debug_id, to_proc, to_thread, reply, .. }
                if reply == is_reply && event.tid == from["tid"] =>
            {
                Some((debug_id, event.time_ns, to_proc, to_thread))
            }
            _ => None,
        })
    };
    let (request, sent_ns, to_proc, to_thread) = transaction(false, client).unwrap();
    // The driver selects the thread when it wakes one, unless that thread had called before.
    assert_eq!((json!(to_proc), to_thread), (server["pid"].clone(), 0));
    assert_eq!(explanation["request_ns"], sent_ns);
    let (reply, replied_ns, to_proc, to_thread) = transaction(true, server).unwrap();
    assert_eq!((json!(to_proc), json!(to_thread)), (client["pid"].clone(), client["tid"].clone()));
    assert_eq!(explanation["reply_ns"], replied_ns);
    let received = |id| {
        let mut events = trace.events.iter();
        events.find(|event| event.body == Body::BinderReceived { debug_id: id }).map(|event| event.tid)
    };
    assert_eq!(
        (json!(received(request)), json!(received(reply))),
        (server["tid"].clone(), client["tid"].clone())
    );
}

#[test]
fn calls_that_are_not_those_of_the_run_are_refused_and_a_run_without_them_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let copy = Run(std::env::temp_dir().join(format!("roundtrip-explained-{}-damaged", std::process::id())));
    let copied = Command::new("cp").arg("-r").arg(&folder).arg(&copy.0).status().unwrap();
    assert!(copied.success());
    let calls = copy.0.join("recording/snapshots/0001/calls");
    let whole = std::fs::read(&calls).unwrap();
    let file = copy.0.join("slow.perfetto-trace");
    let explain = || roundtrip("explain").arg(&copy.0).arg("-o").arg(&file).output().unwrap();
    let said = String::from_utf8(explain().stdout).unwrap();
    let count = whole.len() / latency::Sample::ENCODED_LEN;
    assert!(said.contains(&format!("it shows the {count} round trips")), "{said}");
    for damaged in [&whole[..whole.len() - 1], &whole[..60], &[&whole[..], &whole[..60]].concat()] {
        std::fs::write(&calls, damaged).unwrap();
        std::fs::remove_file(&file).unwrap_or_default();
        let refused = explain();
        let said = stderr(&refused);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("0001/calls") && !file.exists(), "{said}");
    }
    std::fs::remove_file(&calls).unwrap();
    let without = explain();
    assert!(without.status.success(), "{}", stderr(&without));
    assert!(String::from_utf8(without.stdout).unwrap().contains("only slow calls"));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn perfetto_shows_every_round_trip_of_a_real_recording_and_counts_time_as_we_do() {
    let engine = std::env::var_os("ROUNDTRIP_TRACE_PROCESSOR");
    let engine = engine.expect("ROUNDTRIP_TRACE_PROCESSOR is not set: run cargo xtask perfetto");
    let Some(run) = Run::record("perfetto", 8) else { return };
    let explained = &run.json()["results"]["latency"]["explained"];
    let by_pair = |snapshot: u64, pair: u64| -> u64 {
        let recorded = explained["recorded"].as_array().unwrap().iter();
        let of = recorded.filter(|of| of["snapshot"] == snapshot && of["pair"] == pair);
        of.map(|of| number(&of["calls"])).sum()
    };
    let took = |miss: &&Value| number(&miss["sample"]["end_ns"]) - number(&miss["sample"]["start_ns"]);
    // If both pairs are slow at once, one of the calls has no recording.
    let misses = explained["misses"].as_array().unwrap().iter().filter(|miss| miss["snapshot"].is_u64());
    let mut misses: Vec<&Value> = misses.collect();
    misses.sort_by_key(|miss| std::cmp::Reverse(took(miss)));
    // A recording that started just before a slow call contains no other call. Use the one with the
    // most.
    let of_both = |miss: &Value| {
        let snapshot = number(&miss["snapshot"]);
        by_pair(snapshot, 0).min(by_pair(snapshot, 1))
    };
    let (rank, miss) = (1..).zip(&misses).max_by_key(|(_, miss)| of_both(miss)).unwrap();
    let snapshot = number(&miss["snapshot"]);
    let recording = Recording::open(&run.0.join("recording")).unwrap();
    let trace = recording.read(snapshot.try_into().unwrap()).unwrap();
    // Some virtual machines' kernels omit switches, mostly those out of idle. Then it is unknown
    // how long the previous thread ran, and neither we nor Perfetto count what ran next.
    let unrecorded = unrecorded_switches(&trace);
    let uncertain: BTreeSet<u32> = unrecorded.iter().copied().collect();
    let certain = |rows: Vec<Value>| -> Vec<Value> {
        let mut rows = rows;
        rows.retain(|row| uncertain.iter().all(|tid| row[0] != *tid));
        rows
    };
    let running = certain(running_ns(&trace).into_iter().map(|total| json!(total)).collect());
    assert!(running.len() > 3, "both sides of two pairs ran: {running:?}, uncertain {uncertain:?}");
    let queries = queries_of_two_pairs();
    let mut rows = ask(&engine, &run.perfetto(rank), &queries);
    for totals in &mut rows[5..7] {
        *totals = json!(certain(totals.as_array().expect("rows").clone()));
    }
    let (of_0, of_1) = (by_pair(snapshot, 0), by_pair(snapshot, 1));
    assert!(of_0 > 0 && of_1 > 0, "{explained}");
    // Perfetto must report nothing else: it also counts what the kernel did not record on some
    // virtual machines.
    let expected = [
        match unrecorded.len() {
            0 => json!([]),
            switches => json!([["mismatched_sched_switch_tids", null, switches]]),
        },
        json!([[of_0]]),
        json!([[of_1]]),
        json!([[3 * of_0]]),
        json!([[3 * of_1]]),
        json!(running),
        json!(running),
        json!([[trace.events.len()]]),
        json!([[1]]),
    ];
    for ((query, expected), rows) in queries.iter().zip(&expected).zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}

/// Queries to Perfetto: its own errors, the calls and legs of each pair, how long threads ran
/// according to two of its tables, the number of events, and whether the parts of the explanation
/// add up.
fn queries_of_two_pairs() -> [String; 9] {
    let calls = |pair: u64, names: &str| {
        format!(
            "select count(*) from slice join track t on t.id = track_id \
             where t.name = 'hwbinder, pair P{pair}' and ({names})"
        )
    };
    let whole = "slice.name = 'round trip' or slice.name like 'slow call %'";
    let legs = "slice.name in ('request', 'handling', 'reply')";
    [
        "select name, idx, value from stats where value > 0 and severity in ('error', 'data_loss')"
            .to_owned(),
        calls(0, whole),
        calls(1, whole),
        calls(0, legs),
        calls(1, legs),
        "select tid, sum(dur) from sched join thread using (utid) where tid != 0 and dur >= 0 group by tid \
         order by tid"
            .to_owned(),
        "select tid, sum(dur) from thread_state join thread using (utid) \
         where tid != 0 and state = 'Running' and dur >= 0 group by tid order by tid"
            .to_owned(),
        "select count(*) from ftrace_event".to_owned(),
        "select sum(slice.dur) = (select sum(dur) from slice where name like 'slow call %' and track_id in \
         (select id from track where name like '%pair P%')) from slice join track t on t.id = track_id \
         where t.name = 'explanation' and depth = 0"
            .to_owned(),
    ]
}

/// How long each thread ran from each switch to it until the next switch on that CPU, in
/// nanoseconds.
fn running_ns(trace: &Trace) -> BTreeMap<u32, u64> {
    let mut total: BTreeMap<u32, u64> = BTreeMap::new();
    let mut on: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for event in &trace.events {
        if let Body::Switch { next, .. } = event.body
            && let Some((tid, since_ns)) = on.insert(event.cpu, (next.tid, event.time_ns))
        {
            *total.entry(tid).or_default() += event.time_ns - since_ns;
        }
    }
    total.remove(&0);
    total
}

/// The threads of unrecorded switches: those that an earlier switch had put on a CPU, but that a
/// later switch does not find there.
fn unrecorded_switches(trace: &Trace) -> Vec<u32> {
    let mut on: BTreeMap<u32, u32> = BTreeMap::new();
    let mut unrecorded = Vec::new();
    for event in &trace.events {
        if let Body::Switch { prev, next, .. } = event.body
            && let Some(before) = on.insert(event.cpu, next.tid)
            && before != prev.tid
        {
            unrecorded.push(before);
        }
    }
    unrecorded
}

/// The trace processor's answers about a file.
fn ask(engine: &std::ffi::OsStr, file: &Path, queries: &[String]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/perfetto/query.mjs");
    let mut node = Command::new("node")
        .arg(script)
        .arg(engine)
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start node");
    node.stdin.take().unwrap().write_all(json!(queries).to_string().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "the trace processor cannot read {}", file.display());
    serde_json::from_slice(&output.stdout).unwrap()
}
