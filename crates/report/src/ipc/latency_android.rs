//! The output of Android's latency programs: one JSON value in their format, and the blocks of
//! `-v`. Pure: a result in, text out. Writes `null` where those programs would write `nan`.

use std::fmt::Write as _;

use roundtrip_latency::{Histogram, Policy};
use roundtrip_run::ipc::latency::{
    Amount, CallerResult, LatencyResult, PairResult, Series, ThreadReport, Verdict,
};
use roundtrip_run::ipc::{Mode, Stack};
use serde_json::json;

use crate::text::quantity::general;

/// If the server's thread was on the caller's CPU in more than this share of calls, wakeups count
/// as synchronous.
const GOOD_SYNC: f64 = 0.6;

/// The JSON value for one series: schd-dbg's for binder, libhwbinder_latency's for hwbinder. With
/// `raw`, it includes the latencies of the real-time callers.
#[must_use]
pub fn json(result: &LatencyResult, series: &Series, warnings: &[String], raw: bool) -> String {
    let mut out = String::from("{\n");
    let plan = &result.plan;
    let amount = match plan.amount {
        Amount::Iterations(iterations) => format!("\"iterations\":{iterations}"),
        Amount::DurationNs(ns) => format!("\"duration_s\":{}", ns as f64 / 1e9),
    };
    // Everything that the original does not print is here: its readers take every other key for a
    // pair.
    let mut ours = format!("\"driver\":{}", json!(crate::ipc::latency::driver(result)));
    if !warnings.is_empty() {
        let _ = write!(ours, ",\"warnings\":{}", json!(warnings));
    }
    if let Some(reason) = series.verdict.reason() {
        let _ = write!(ours, ",\"inheritance_reason\":{}", json!(reason));
    }
    // The order of the keys is that of libhwbinder_latency. schd-dbg prints only the pairs.
    let mut above = String::new();
    if raw {
        for (index, pair) in series.pairs.iter().enumerate() {
            let data: Vec<_> = realtime(pair)
                .flat_map(|caller| &caller.samples)
                .map(|sample| sample.latency_ns().to_string())
                .collect();
            let _ = writeln!(above, "\"fifo_{index}_data\": [{}],", data.join(","));
        }
    }
    if let Some(all) = series.all() {
        block(&mut above, "ALL", &all, series.stack);
    }
    if series.stack == Stack::Binder {
        ours = format!("{ours},{}", above.replace('\n', "").trim_end_matches(','));
        above.clear();
    }
    let _ = writeln!(
        out,
        "\"cfg\":{{\"pair\":{},{amount},\"deadline_us\":{},\"passthrough\":{},{ours}}},",
        plan.pairs,
        plan.deadline.ns as f64 / 1000.0,
        u8::from(plan.mode == Mode::Passthrough),
    );
    out += &above;
    for (index, pair) in series.pairs.iter().enumerate() {
        block(&mut out, &format!("P{index}"), pair, series.stack);
    }
    let _ = writeln!(out, "\"inheritance\": \"{}\"\n}}", Verdict::name(&series.verdict));
    out
}

fn realtime(pair: &PairResult) -> impl Iterator<Item = &CallerResult> {
    pair.callers.iter().filter(|caller| caller.caller.policy.is_realtime())
}

fn block(out: &mut String, name: &str, pair: &PairResult, stack: Stack) {
    let (same, calls) = (pair.same_cpu(), pair.count());
    let ratio = (calls > 0).then(|| same as f64 / calls as f64);
    let sync = if ratio.is_some_and(|ratio| ratio > GOOD_SYNC) { "GOOD" } else { "POOR" };
    let _ = writeln!(
        out,
        "\"{name}\":{{\"SYNC\":\"{sync}\",\"S\":{same},\"I\":{calls},\"R\":{},",
        number(ratio, 6, 0)
    );
    let (fifo, other): (Vec<_>, Vec<_>) =
        pair.callers.iter().partition(|caller| caller.caller.policy.is_realtime());
    let (fifo, other) = (together(&fifo), together(&other));
    let _ = writeln!(out, "  \"other_ms\":{},", times(&other, stack));
    let _ = writeln!(out, "  \"fifo_ms\": {},", times(&fifo, stack));
    let _ = writeln!(out, "  \"otherdis\":{},", distribution(&other));
    let _ = writeln!(out, "  \"fifodis\": {}", distribution(&fifo));
    out.push_str("},\n");
}

/// All callers' calls of one kind; may be empty.
fn together(callers: &[&CallerResult]) -> (Histogram, u64) {
    let mut latency = Histogram::new();
    callers.iter().for_each(|caller| latency.merge(caller.times()));
    (latency, callers.iter().map(|caller| caller.missed()).sum())
}

fn times((latency, missed): &(Histogram, u64), stack: Stack) -> String {
    let between = if stack == Stack::Binder { "," } else { ", " };
    let ms = |ns: Option<f64>| number(ns.map(|ns| ns / 1e6), 4, 4);
    let met = (!latency.is_empty()).then(|| 1.0 - *missed as f64 / latency.count() as f64);
    format!(
        "{{ \"avg\":{}{between}\"wst\":{}{between}\"bst\":{}{between}\"miss\":{missed}{between}\"meetR\":{}}}",
        ms(latency.mean_ns()),
        ms(latency.max_ns().map(|ns| ns as f64)),
        ms(latency.min_ns().map(|ns| ns as f64)),
        number(met, 6, 0)
    )
}

fn distribution((latency, _): &(Histogram, u64)) -> String {
    let part = |percent| {
        // Android's program prints the longest call for a percentile of too few calls.
        let ns = latency.percentile_ns(percent).or(latency.max_ns());
        number(ns.map(|ns| ns as f64 / 1e6), 5, 0)
    };
    let [p50, p90, p95, p99] = [50.0, 90.0, 95.0, 99.0].map(part);
    format!("{{ \"p50\":{p50}, \"p90\":{p90}, \"p95\":{p95}, \"p99\": {p99}}}")
}

/// A JSON number with at most this many significant digits, padded to `width` columns.
fn number(value: Option<f64>, digits: usize, width: usize) -> String {
    let value = value.filter(|value| value.is_finite());
    let text = value.map_or_else(|| "null".to_owned(), |value| general(value, digits));
    format!("{text:width$}")
}

/// A block of `-v`: which thread runs where. If a policy was inherited for the call, it is not the
/// thread's own, and the block does not name it.
#[must_use]
pub fn thread_block(report: &ThreadReport) -> String {
    let ThreadReport { role, pid, tid, cpu, scheduling, inherited } = report;
    let policy = match (inherited, scheduling.policy) {
        (true, _) | (_, Policy::Unknown(_)) => "???",
        (false, policy) => policy.name(),
    };
    format!(
        "{}\n{role:12} pid: {pid} tid: {tid} cpu: {cpu}\n{policy:12}{}\n",
        "-".repeat(50),
        scheduling.priority
    )
}

#[cfg(test)]
mod tests {
    use roundtrip_run::Scheduling;

    use super::*;
    use crate::ipc::latency::fixture;

    #[test]
    fn the_layout_is_androids() {
        let result = fixture::result();
        let text = json(&result, &result.series[0], &[], true);
        insta::assert_snapshot!(text);
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn the_value_of_schd_dbg_has_only_pairs_at_the_top_and_no_blanks_between_times() {
        let mut result = fixture::result();
        result.series[0].stack = Stack::Binder;
        let text = json(&result, &result.series[0], &["a {warning}".into()], true);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["P0", "cfg", "inheritance"]);
        assert_eq!(value["cfg"]["ALL"], value["P0"]);
        assert_eq!(value["cfg"]["fifo_0_data"], json!([100_000, 120_000, 260_000]));
        assert_eq!(value["cfg"]["warnings"], json!(["a {warning}"]));
        let second = text.lines().nth(1).unwrap();
        assert!(second.starts_with("\"cfg\":{") && second.ends_with("},"), "one line: {second}");
        let times =
            "  \"other_ms\":{ \"avg\":1   ,\"wst\":2.8 ,\"bst\":0.053,\"miss\":1,\"meetR\":0.666667},";
        assert!(text.lines().any(|line| line == times), "{text}");
    }

    #[test]
    fn without_real_time_calls_the_value_is_still_json() {
        let mut result = fixture::result();
        let series = &mut result.series[0];
        series.pairs.iter_mut().for_each(|pair| drop(pair.callers.remove(0)));
        series.verdict = Verdict::Skip { reason: "no \"right\"".into() };
        let text = json(&result, &result.series[0], &["a \"warning\"".into()], true);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["inheritance"], "SKIP");
        assert_eq!(value["cfg"]["inheritance_reason"], "no \"right\"");
        assert_eq!(value["cfg"]["warnings"][0], "a \"warning\"");
        assert_eq!(value["P0"]["fifo_ms"]["avg"], serde_json::Value::Null);
        assert_eq!((&value["P0"]["fifo_ms"]["miss"], &value["fifo_0_data"]), (&json!(0), &json!([])));
        assert_eq!(value["P0"]["I"], 3);
    }

    #[test]
    fn numbers_are_padded_and_null_without_a_value() {
        for (value, text) in [
            (Some(0.2), "0.2 "),
            (Some(0.053), "0.053"),
            (Some(1.0), "1   "),
            (None, "null"),
            (Some(f64::NAN), "null"),
        ] {
            assert_eq!(number(value, 4, 4), text);
        }
        assert_eq!(number(Some(0.9352), 6, 0), "0.9352");
        assert_eq!(number(Some(0.9996), 6, 0), "0.9996");
    }

    #[test]
    fn an_inherited_policy_has_no_name() {
        let report = |role: &str, scheduling, inherited| {
            thread_block(&ThreadReport {
                role: role.into(),
                pid: 8674,
                tid: 8676,
                cpu: 1,
                scheduling,
                inherited,
            })
        };
        let line = "--------------------------------------------------\n";
        assert_eq!(
            report("service", Scheduling::other(0), false),
            format!("{line}service      pid: 8674 tid: 8676 cpu: 1\nSCHED_OTHER 0\n")
        );
        assert_eq!(
            report("hwbinder", Scheduling::fifo(99), true),
            format!("{line}hwbinder     pid: 8674 tid: 8676 cpu: 1\n???         99\n")
        );
    }
}
