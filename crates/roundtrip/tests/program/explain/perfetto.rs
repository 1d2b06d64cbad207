//! The trace for Perfetto, in its own trace processor.
#![allow(clippy::print_stderr)] // The test reports on standard error what it could not try.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use roundtrip_tracefs::{Body, Recording, Trace};
use serde_json::{Value, json};

use super::{Run, number};

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn perfetto_shows_every_round_trip_of_a_real_recording_and_counts_time_as_we_do() {
    let engine = std::env::var_os("ROUNDTRIP_TRACE_PROCESSOR");
    let engine = engine.expect("ROUNDTRIP_TRACE_PROCESSOR is not set: run cargo xtask perfetto");
    let Some(run) = Run::record("perfetto", 8) else { return };
    let json = run.json();
    let explained = &json["results"]["latency"]["explained"];
    let Chosen { rank, snapshot, calls } = Chosen::of(explained);
    assert!(calls.iter().all(|&calls| calls > 0), "{explained}");
    let recording = Recording::open(&run.0.join("recording")).unwrap();
    let trace = recording.read(snapshot.try_into().unwrap()).unwrap();
    // Some virtual machines' kernels omit switches, mostly switches from idle. Then it is unknown
    // how long the previous thread ran, and neither we nor Perfetto count what ran next.
    let unrecorded = unrecorded_switches(&trace);
    let uncertain: BTreeSet<u32> = unrecorded.iter().copied().collect();
    let certain = |mut rows: Vec<Value>| -> Vec<Value> {
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
    // Perfetto must report nothing else: it also counts what the kernel did not record on some
    // virtual machines.
    let errors = match unrecorded.len() {
        0 => json!([]),
        switches => json!([["mismatched_sched_switch_tids", null, switches]]),
    };
    let expected = [
        errors,
        json!([[calls[0]]]),
        json!([[calls[1]]]),
        json!([[3 * calls[0]]]),
        json!([[3 * calls[1]]]),
        json!(running),
        json!(running),
        json!([[trace.events.len()]]),
        json!([[1]]),
    ];
    for ((query, expected), rows) in queries.iter().zip(&expected).zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}

/// The slow call whose recording contains the most calls of both pairs.
struct Chosen {
    /// Its rank among the slow calls with a recording, the slowest first.
    rank: usize,
    snapshot: u64,
    /// The number of recorded calls of each pair.
    calls: [u64; 2],
}

impl Chosen {
    fn of(explained: &Value) -> Self {
        let recorded = explained["recorded"].as_array().unwrap();
        let calls_of_pair = |snapshot: u64, pair: u64| -> u64 {
            let of = recorded.iter().filter(|of| of["snapshot"] == snapshot && of["pair"] == pair);
            of.map(|of| number(&of["calls"])).sum()
        };
        let took = |miss: &&Value| number(&miss["sample"]["end_ns"]) - number(&miss["sample"]["start_ns"]);
        // If both pairs are slow at once, one of the calls has no recording.
        let misses = explained["misses"].as_array().unwrap().iter();
        let mut misses: Vec<&Value> = misses.filter(|miss| miss["snapshot"].is_u64()).collect();
        misses.sort_by_key(|miss| std::cmp::Reverse(took(miss)));
        // A recording that started just before a slow call contains no other call.
        let all = (1..).zip(misses).map(|(rank, miss)| {
            let snapshot = number(&miss["snapshot"]);
            Self { rank, snapshot, calls: [0, 1].map(|pair| calls_of_pair(snapshot, pair)) }
        });
        all.max_by_key(|chosen| chosen.calls.iter().min().copied()).unwrap()
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
