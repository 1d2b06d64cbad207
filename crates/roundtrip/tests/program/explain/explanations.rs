//! The stored explanations of a run.

use std::path::Path;
use std::process::{Command, Stdio};

use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::{Body, Recording};
use serde_json::{Value, json};

use super::{Run, keys, number, roundtrip, stderr};

#[test]
fn a_run_in_a_time_namespace_says_why_it_explains_nothing() {
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
    let why = "this process is in a time namespace with a boot clock shifted by 1000 s";
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

/// Checks the JSON of an explained call against the stored call.
fn check_call(call: &Value, miss: &Value) {
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
        "delay_ns",
        "end_ns",
        "flags",
        "parts",
        "reasons",
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
    check_sums(explanation);
    for cause in explanation["causes"].as_array().unwrap() {
        for key in ["kind", "excess_ns", "owner", "thread", "name", "cpu"] {
            assert!(cause.get(key).is_some(), "{key}: {cause}");
        }
    }
}

/// Checks that reasons add up to the call, and each level to the one above.
fn check_sums(explanation: &Value) {
    let sum = |list: &Value, key: &str| -> u64 {
        list.as_array().unwrap().iter().map(|one| number(&one[key])).sum()
    };
    let reasons = &explanation["reasons"];
    let took_ns = number(&explanation["end_ns"]) - number(&explanation["start_ns"]);
    assert_eq!(sum(reasons, "sum_ns"), took_ns);
    assert_eq!(sum(reasons, "lost_ns"), number(&explanation["delay_ns"]));
    for reason in reasons.as_array().unwrap() {
        assert_eq!(sum(&reason["processes"], "sum_ns"), number(&reason["sum_ns"]), "{reason}");
        assert_eq!(sum(&reason["processes"], "lost_ns"), number(&reason["lost_ns"]), "{reason}");
        for process in reason["processes"].as_array().unwrap() {
            assert_eq!(sum(&process["threads"], "sum_ns"), number(&process["sum_ns"]), "{process}");
        }
    }
}

/// Checks the text of a run with two explained slow calls. Of `over_limit` further ones, only the
/// causes were stored.
fn check_text(text: &str, over_limit: u64) {
    let said =
        if over_limit == 1 { "1 more slow call,".into() } else { format!("{over_limit} more slow calls,") };
    assert_eq!(text.contains("beyond --explain-limit 2"), over_limit > 0, "{text}");
    assert_eq!(text.contains(&said), over_limit > 0, "{text}");
    assert_eq!(text.contains("; what delayed them is counted."), over_limit > 0, "{text}");
    assert_eq!(text.matches("Slow call ").count(), 2);
    let head = format!("{} missed", over_limit + 2);
    assert!(text.starts_with(&head), "{text}");
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.find("Slow call 1:") < text.find("Slow call 2:"), "{text}");
}

#[test]
fn a_run_is_explained_from_its_directory_in_a_stable_format() {
    let Some(run) = Run::record("json", 2) else { return };
    let explained = &run.json()["results"]["latency"]["explained"];
    let mut stored = explained["misses"].as_array().unwrap().clone();
    let took_ns = |miss: &Value| number(&miss["sample"]["end_ns"]) - number(&miss["sample"]["start_ns"]);
    stored.sort_by_key(|miss| std::cmp::Reverse(took_ns(miss)));
    let output = run.explain("--format json");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        keys(&document),
        ["before_comparison", "causes", "over_limit", "schema", "slow_calls", "version", "without"]
    );
    assert_eq!((&document["schema"], &document["version"]), (&json!("roundtrip.explanation"), &json!(1)));
    assert_eq!(document["over_limit"], explained["over_limit"]);
    let others = &explained["causes_of_others"];
    assert_eq!(others["operations"], explained["over_limit"], "each is classified: {explained}");
    let main = |causes: &Value| -> u64 {
        causes.as_array().unwrap().iter().map(|cause| number(&cause["operations"])).sum()
    };
    assert_eq!(main(&others["causes"]) + number(&others["ordinary"]), number(&others["operations"]));
    let slept = others["causes"].as_array().unwrap().iter().find(|cause| cause["kind"] == "sleep");
    assert!(slept.is_some_and(|cause| number(&cause["worst_ns"]) >= 10_000_000), "{others}");
    let calls = document["slow_calls"].as_array().unwrap();
    assert_eq!((calls.len(), stored.len()), (2, 2), "it sleeps twelve times");
    for (call, miss) in calls.iter().zip(&stored) {
        check_call(call, miss);
    }
    check_text(&String::from_utf8(run.explain("").stdout).unwrap(), number(&explained["over_limit"]));
}

/// A run over the kernel's own driver, in a guest with Linux 6.1: `ipc latency --driver kernel
/// --explain --inject sleep`.
#[test]
fn a_run_over_the_kernel_driver_is_explained_by_binder_events_on_any_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let output = roundtrip("explain --format json").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let explanation = &document["slow_calls"][0]["explanation"];
    assert_eq!((&explanation["request_by"], &explanation["reply_by"]), (&json!("binder"), &json!("binder")));
    check_parts(&explanation["parts"], number(&explanation["start_ns"]), number(&explanation["end_ns"]));
    let verdict = explanation["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("the server slept for 40.1 of 4") && verdict.ends_with(" ms (timer)"),
        "{verdict}"
    );
    check_sums(explanation);
    // Text, the page and JSON say the same.
    let text = roundtrip("explain").arg(&folder).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("\n  {verdict}\n")), "{text}");

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

/// How long the server of a recorded run sleeps each time.
const ASKED_NS: u64 = 10_000_000;

/// The slow calls of the run are those that its own server makes slow, and the log says by how
/// much. Other load may make others slow.
#[test]
fn what_is_left_without_an_injected_cause_is_what_its_log_does_not_explain() {
    let Some(run) = Run::record_pairs("without", 1000, 1) else { return };
    let log = std::fs::read_to_string(run.0.join("injected.csv")).unwrap();
    let injected: Vec<(u64, u64, u64)> = log
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields[1].parse().unwrap(), fields[2].parse().unwrap(), fields[3].parse().unwrap())
        })
        .collect();
    assert!(injected.len() > 5, "{log}");
    let explained: Value = serde_json::from_slice(&run.explain("--format json").stdout).unwrap();
    let calls = explained["slow_calls"].as_array().unwrap();
    assert_eq!(explained["over_limit"], 0);
    // Without the sleep, these would have taken longer than the deadline all the same. By the log a
    // sleep also lasts while its thread waits for a CPU at its end, which is no sleep.
    let left = |longest_ns: u64| {
        let left = calls.iter().filter(|call| {
            let explanation = &call["explanation"];
            let (begin_ns, end_ns) = (number(&explanation["start_ns"]), number(&explanation["end_ns"]));
            let server = number(&explanation["server"]["tid"]);
            let slept = injected.iter().filter(|(tid, ..)| *tid == server);
            let slept =
                slept.map(|&(_, from, to)| to.min(end_ns).saturating_sub(from.max(begin_ns)).min(longest_ns));
            number(&call["latency_ns"]) - slept.sum::<u64>() > number(&call["deadline_ns"])
        });
        left.count() as u64
    };
    let (least, most) = (left(u64::MAX), left(ASKED_NS));
    let sleep = explained["without"].as_array().unwrap().iter().find(|one| one["kind"] == "sleep");
    let missed = &sleep.unwrap_or_else(|| panic!("{}", explained["without"]))["missed"];
    let [estimate, low, high] = ["estimate", "low", "high"].map(|end| number(&missed[end]));
    // A call whose wait is in part unknown may count on either side.
    let unsure = 1 + calls.len() as u64 / 10;
    let about = least.saturating_sub(unsure)..=most + unsure;
    assert!(about.contains(&estimate), "{least} to {most} are left: {missed}");
    assert!(low <= estimate && estimate <= high && high >= 5, "{missed}");
    let said = String::from_utf8(run.explain("").stdout).unwrap();
    assert!(said.contains("What fixing one cause would leave, in as many calls again"), "{said}");
}
