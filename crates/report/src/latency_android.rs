//! The output of Android's latency programs: one JSON value in their format, and the blocks of
//! `-v`. Pure: a result in, text out. Writes `null` where those programs would write `nan`.

use std::fmt::Write as _;

use latency::{Histogram, Policy};
use run::ipc::Mode;
use run::ipc::latency::{Amount, CallerResult, LatencyResult, PairResult, Series, ThreadReport, Verdict};
use serde_json::json;

/// If the server's thread was on the caller's CPU in more than this share of calls, wakeups count
/// as synchronous.
const GOOD_SYNC: f64 = 0.6;

/// The JSON value for one series. With `raw`, it includes the latencies of the real-time callers.
#[must_use]
pub fn json(result: &LatencyResult, series: &Series, warnings: &[String], raw: bool) -> String {
    let mut out = String::from("{\n");
    let plan = &result.plan;
    let amount = match plan.amount {
        Amount::Iterations(iterations) => format!("\"iterations\":{iterations}"),
        Amount::DurationNs(ns) => format!("\"duration_s\":{}", ns as f64 / 1e9),
    };
    let driver = super::latency::driver(result);
    let _ = writeln!(
        out,
        "\"cfg\":{{\"pair\":{},{amount},\"deadline_us\":{},\"passthrough\":{},\"driver\":{}}},",
        plan.pairs,
        plan.deadline.ns as f64 / 1000.0,
        u8::from(plan.mode == Mode::Passthrough),
        json!(driver),
    );
    // The order of the keys is that of libhwbinder_latency.
    if raw {
        for (index, pair) in series.pairs.iter().enumerate() {
            let data: Vec<_> = realtime(pair)
                .flat_map(|caller| &caller.samples)
                .map(|sample| sample.latency_ns().to_string())
                .collect();
            let _ = writeln!(out, "\"fifo_{index}_data\": [{}],", data.join(", "));
        }
    }
    if let Some(all) = series.all() {
        block(&mut out, "ALL", &all);
    }
    for (index, pair) in series.pairs.iter().enumerate() {
        block(&mut out, &format!("P{index}"), pair);
    }
    if !warnings.is_empty() {
        let _ = writeln!(out, "\"warnings\": {},", json!(warnings));
    }
    if let Some(reason) = series.verdict.reason() {
        let _ = writeln!(out, "\"inheritance_reason\": {},", json!(reason));
    }
    let _ = writeln!(out, "\"inheritance\": \"{}\"\n}}", Verdict::name(&series.verdict));
    out
}

fn realtime(pair: &PairResult) -> impl Iterator<Item = &CallerResult> {
    pair.callers.iter().filter(|caller| caller.caller.policy.is_realtime())
}

fn block(out: &mut String, name: &str, pair: &PairResult) {
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
    let _ = writeln!(out, "  \"other_ms\":{},", times(&other));
    let _ = writeln!(out, "  \"fifo_ms\": {},", times(&fifo));
    let _ = writeln!(out, "  \"otherdis\":{},", distribution(&other));
    let _ = writeln!(out, "  \"fifodis\": {}", distribution(&fifo));
    out.push_str("},\n");
}

/// All callers' calls of one kind; may be empty.
fn together(callers: &[&CallerResult]) -> (Histogram, u64) {
    let mut latency = Histogram::new();
    callers.iter().for_each(|caller| latency.merge(&caller.latency));
    (latency, callers.iter().map(|caller| caller.deadline.missed).sum())
}

fn times((latency, missed): &(Histogram, u64)) -> String {
    let ms = |ns: Option<f64>| number(ns.map(|ns| ns / 1e6), 4, 4);
    let met = (!latency.is_empty()).then(|| 1.0 - *missed as f64 / latency.count() as f64);
    format!(
        "{{ \"avg\":{}, \"wst\":{}, \"bst\":{}, \"miss\":{missed}, \"meetR\":{}}}",
        ms(latency.mean_ns()),
        ms(latency.max_ns().map(|ns| ns as f64)),
        ms(latency.min_ns().map(|ns| ns as f64)),
        number(met, 6, 0)
    )
}

fn distribution((latency, _): &(Histogram, u64)) -> String {
    let part = |name: &str, percent| {
        let ms = latency.percentile_ns(percent).map(|ns| ns as f64 / 1e6);
        format!("\"{name}\":{}", number(ms, 4, 4))
    };
    format!("{{ {}, {}, {}, {}}}", part("p50", 50.0), part("p90", 90.0), part("p95", 95.0), part("p99", 99.0))
}

/// A JSON number with at most this many significant digits, without unnecessary zeros, padded to
/// `width` columns.
fn number(value: Option<f64>, digits: i32, width: usize) -> String {
    let text = match value.filter(|value| value.is_finite()) {
        None => "null".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => {
            let decimals = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
            let text = format!("{value:.decimals$}");
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    };
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
    use run::Scheduling;

    use super::*;
    use crate::latency::fixture;

    #[test]
    fn the_layout_is_androids() {
        let result = fixture::result();
        let text = json(&result, &result.series[0], &[], true);
        insta::assert_snapshot!(text);
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
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
        assert_eq!(value["inheritance_reason"], "no \"right\"");
        assert_eq!(value["warnings"][0], "a \"warning\"");
        assert_eq!(value["P0"]["fifo_ms"]["avg"], serde_json::Value::Null);
        assert_eq!((&value["P0"]["fifo_ms"]["miss"], &value["fifo_0_data"]), (&json!(0), &json!([])));
        assert_eq!(value["P0"]["I"], 3);
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (value, text) in [
            (Some(0.2), "0.2 "),
            (Some(0.16), "0.16"),
            (Some(2.8), "2.8 "),
            (Some(0.053), "0.053"),
            (Some(1.0), "1   "),
            (Some(0.0), "0   "),
            (Some(0.003_312_4), "0.003312"),
            (Some(123_456.7), "123457"),
            (Some(1200.0), "1200"),
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
