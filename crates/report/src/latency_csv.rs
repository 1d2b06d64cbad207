//! A latency result as CSV: one line per series, pair and caller, or one per sample. Pure: a result
//! in, text out.

use latency::{Histogram, Placement};
use run::ipc::latency::{CallerResult, LatencyResult, PairResult, Series};

use super::latency::{driver, served_as};
use crate::csv::Line;

/// One line per series, pair ("all" for all of them) and caller. Units are in the header; unknown
/// fields are empty.
#[must_use]
pub fn csv(result: &LatencyResult) -> String {
    let mut out = String::from(
        "driver,stack,mode,inheritance,pair,caller,payload_bytes,calls,deadline_ns,missed,meet_ratio,min_ns,mean_ns,\
         stdev_ns,p50_ns,p90_ns,p95_ns,p99_ns,p99.9_ns,p99.99_ns,max_ns,response_p50_ns,response_p99_ns,\
         response_max_ns,response_missed,request_p50_ns,request_p99_ns,handling_p50_ns,handling_p99_ns,reply_p50_ns,\
         reply_p99_ns,same_cpu_ratio,cpu_changes,migrations,run_delay_ns,voluntary_switches,involuntary_switches,\
         served_as,inherited_ratio,inheritance_verdict\n",
    );
    for series in &result.series {
        for (index, pair) in series.pairs.iter().enumerate() {
            lines(&mut out, result, series, &index.to_string(), pair);
        }
        if let Some(all) = series.all() {
            lines(&mut out, result, series, "all", &all);
        }
    }
    out
}

fn lines(out: &mut String, result: &LatencyResult, series: &Series, name: &str, pair: &PairResult) {
    for caller in &pair.callers {
        let mut fields = vec![
            driver(result),
            series.stack.to_string(),
            result.plan.mode.to_string(),
            series.inheritance.name().to_owned(),
            name.to_owned(),
            caller.caller.to_string(),
            result.plan.payload_bytes.to_string(),
        ];
        fields.extend(figures(caller));
        fields.push(series.verdict.name().to_owned());
        Line::of(out).fields(fields).end();
    }
}

fn figures(caller: &CallerResult) -> Vec<String> {
    let percentile =
        |histogram: Option<&Histogram>, percent| field(histogram.and_then(|h| h.percentile_ns(percent)));
    let latency = Some(&caller.latency);
    let response = caller.response.as_ref();
    let time = response.map(|response| &response.time);
    let counters = caller.counters;
    let ratio = |part: u64| (caller.count() > 0).then(|| part as f64 / caller.count() as f64);
    let mut fields = vec![
        caller.count().to_string(),
        caller.deadline.deadline.ns.to_string(),
        caller.deadline.missed.to_string(),
        field(caller.deadline.meet_ratio()),
        field(caller.latency.min_ns()),
        field(caller.latency.mean_ns()),
        field(caller.latency.stdev_ns()),
    ];
    fields.extend([50.0, 90.0, 95.0, 99.0, 99.9, 99.99].map(|percent| percentile(latency, percent)));
    fields.extend([
        field(caller.latency.max_ns()),
        percentile(time, 50.0),
        percentile(time, 99.0),
        field(time.and_then(Histogram::max_ns)),
        field(response.map(|response| response.missed)),
    ]);
    for leg in [&caller.request, &caller.handling, &caller.reply] {
        fields.extend([percentile(Some(leg), 50.0), percentile(Some(leg), 99.0)]);
    }
    fields.extend([
        field(caller.same_cpu_ratio()),
        caller.cpu_changes.to_string(),
        field(counters.and_then(|counters| counters.migrations)),
        field(counters.and_then(|counters| counters.run_delay_ns)),
        field(counters.map(|counters| counters.voluntary_switches)),
        field(counters.map(|counters| counters.involuntary_switches)),
        served_as(caller),
        field(ratio(caller.count() - caller.not_inherited)),
    ]);
    fields
}

fn field<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// One line per sample, for a plan that keeps samples. Times are in nanoseconds of CLOCK_BOOTTIME.
#[must_use]
pub fn samples(result: &LatencyResult) -> String {
    let mut out = String::from(
        "stack,inheritance,pair,caller,intended_ns,start_ns,received_ns,replied_ns,end_ns,\
         caller_cpu,server_cpu,server_policy,server_priority,server_nice\n",
    );
    for series in &result.series {
        for (index, pair) in series.pairs.iter().enumerate() {
            for caller in &pair.callers {
                for sample in &caller.samples {
                    let Placement { cpu, policy, priority, nice } = sample.server;
                    Line::of(&mut out)
                        .field(series.stack)
                        .field(series.inheritance.name())
                        .field(index)
                        .field(caller.caller)
                        .field(sample.intended_ns)
                        .field(sample.start_ns)
                        .field(sample.received_ns)
                        .field(sample.replied_ns)
                        .field(sample.end_ns)
                        .field(sample.caller.cpu)
                        .field(cpu)
                        .field(policy.name())
                        .field(priority)
                        .field(nice)
                        .end();
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::fixture;

    #[test]
    fn every_line_has_a_field_for_each_unit() {
        let text = csv(&fixture::result());
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().count(), 1 + (2 + 2) + (2 + 2));
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn samples_are_a_line_each() {
        let text = samples(&fixture::result());
        let columns = text.lines().next().unwrap().split(',').count();
        assert_eq!(text.lines().count(), 1 + 3);
        assert!(text.lines().all(|line| line.split(',').count() == columns), "{text}");
        assert_eq!(
            text.lines().nth(1),
            Some("hwbinder,on,0,fifo:99,990,1000,2000,2500,101000,0,0,SCHED_FIFO,99,0")
        );
    }
}
