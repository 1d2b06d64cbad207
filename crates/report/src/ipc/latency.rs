//! A latency result as tables for a terminal. Pure: a result in, text out.

use std::fmt::Write as _;

use roundtrip_latency::{Histogram, PERCENTS};
use roundtrip_run::ThreadCounters;
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::latency::{CallerResult, Inheritance, LatencyResult, Response, Series, Verdict};

use crate::text::look::Look;
use crate::text::quantity::{duration, three_digits};
use crate::text::table::{Column, Table};

/// The driver that was measured, or text that says that there was none.
pub fn driver(result: &LatencyResult) -> String {
    result.backend.as_ref().map_or_else(|| "no driver (in-process calls)".to_owned(), ToString::to_string)
}

/// How server threads were scheduled during a caller's calls, most frequent first: "fifo:99 other".
#[must_use]
pub fn served_as(caller: &CallerResult) -> String {
    let names: Vec<_> = caller.served_as.iter().map(|(scheduling, _)| scheduling.to_string()).collect();
    names.join(" ")
}

/// For each series its times, legs and scheduling. Then the effect of priority inheritance, if it
/// was measured both on and off.
#[must_use]
pub fn tables(result: &LatencyResult, look: Look) -> String {
    let mut out = String::new();
    for series in &result.series {
        let _ = writeln!(out, "{}", heading(result, series));
        out.push_str(&times(series).render(look));
        out.push('\n');
        out.push_str(&legs(series).render(look));
        out.push('\n');
        out.push_str(&scheduling(series).render(look));
        out.push('\n');
    }
    for &stack in &result.plan.stacks {
        let compared: Vec<_> = result.series.iter().filter(|series| series.stack == stack).collect();
        if compared.len() > 1 {
            let _ = writeln!(out, "{stack}: what real-time inheritance changes");
            out.push_str(&side_by_side(&compared).render(look));
            out.push('\n');
        }
    }
    out.push_str(&notes(result));
    out
}

/// The meaning of the columns, one line each.
pub(crate) fn notes(result: &LatencyResult) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "missed: took longer than {}. -: too few calls to tell this percentile from the maximum.\nLegs: \
         request (until the server's handler starts), handling (in it, with two clock readings and one system \
         call) and reply.\nEach time contains about {} ns for reading the clock; percentiles are within 0.1%.",
        duration(result.plan.deadline.ns as f64),
        three_digits(result.clock_read_cost_ns),
    );
    if let Some(rate_per_s) = result.plan.rate_per_s {
        out.push_str(
            "response: from the scheduled start of the call, so it includes the wait behind a slow call. The \
             other row counts from the actual start.\n",
        );
        out.push_str(&schedule(result, rate_per_s));
    }
    out
}

/// How well callers kept to their schedule.
fn schedule(result: &LatencyResult, planned_per_s: f64) -> String {
    let callers = result.series.iter().filter_map(Series::all).flat_map(|all| all.callers);
    let responses: Vec<_> = callers.filter_map(|caller| caller.response).collect();
    let rates = responses.iter().filter_map(Response::rate_per_s);
    let Some(least) = rates.min_by(f64::total_cmp) else { return String::new() };
    let mut out = format!("schedule: {planned_per_s}/s of each caller; ");
    if responses.iter().any(|response| response.too_slow(planned_per_s).is_some()) {
        let _ = write!(out, "not reached, at the least {}/s", three_digits(least));
    } else {
        out.push_str("reached");
    }
    let paused_ns = responses.iter().map(|response| response.paused_ns).max().unwrap_or_default();
    if paused_ns > 0 {
        let paused = duration(paused_ns as f64);
        let _ = write!(out, "; no call was due for {paused}, while recordings of slow calls were stored");
    }
    out + ".\n"
}

/// What was measured in a series, and whether real-time priorities were inherited.
pub(crate) fn heading(result: &LatencyResult, series: &Series) -> String {
    let plan = &result.plan;
    let pairs = if plan.pairs == 1 { "1 pair".to_owned() } else { format!("{} pairs", plan.pairs) };
    let inheritance = match plan.mode {
        Mode::Passthrough => "in process".to_owned(),
        Mode::Binderize if series.inheritance.is_on(series.stack) => "inheritance on".to_owned(),
        Mode::Binderize => "inheritance off".to_owned(),
    };
    let load = super::throughput::load(&plan.loads);
    let work = match plan.work_ns {
        0 => String::new(),
        ns => {
            let takes = result.longer_work_ns().map(|ns| format!(", which takes {}", duration(ns as f64)));
            format!(", {} of work in each call{}", duration(ns as f64), takes.unwrap_or_default())
        }
    };
    format!(
        "{}, {inheritance}, {pairs}, {} bytes{work}{}\nReal-time inheritance: {}",
        series.stack,
        plan.payload_bytes,
        load,
        inheritance_of(series, plan.mode),
    )
}

/// Whether real-time priorities were inherited. It is not a failure if the node does not request
/// inheritance, because of the stack's default or the user's choice.
#[must_use]
pub fn inheritance_of(series: &Series, mode: Mode) -> String {
    let verdict = match (&series.verdict, series.verdict.reason()) {
        (Verdict::Fail { .. }, _) if mode == Mode::Binderize && !series.inheritance.is_on(series.stack) => {
            let why = match series.inheritance {
                Inheritance::Stack => format!(", as always in {}", series.stack),
                _ => String::new(),
            };
            return format!("off{why}");
        }
        (verdict, reason) => (verdict.name(), reason),
    };
    match verdict {
        (name, None) => name.to_owned(),
        (name, Some(reason)) => format!("{name}: {reason}"),
    }
}

/// One line for each pair and caller, one for all pairs of each caller, and one for all calls.
pub(crate) fn times(series: &Series) -> Table {
    let head = [Column::text("pair"), Column::text("caller"), Column::narrow("calls", "")];
    let moments = ["min", "mean", "stdev"].map(|name| Column::narrow(name, "us"));
    let percentiles = PERCENTS.map(|percent| Column::narrow(&format!("p{percent}"), "us"));
    let tail = [Column::narrow("max", "us"), Column::narrow("missed", ""), Column::narrow("met", "%")];
    let mut table = Table::new(head.into_iter().chain(moments).chain(percentiles).chain(tail));
    let mut rows = |name: &str, caller: &CallerResult| {
        let kind = caller.caller.to_string();
        if let Some(response) = &caller.response {
            table.row(time_row(name, &format!("{kind} response"), &response.time, response.missed));
        }
        table.row(time_row(name, &kind, &caller.latency, caller.deadline.missed));
    };
    for (index, pair) in series.pairs.iter().enumerate() {
        pair.callers.iter().for_each(|caller| rows(&format!("P{index}"), caller));
    }
    let Some(all) = series.all() else { return table };
    if series.pairs.len() > 1 {
        all.callers.iter().for_each(|caller| rows("all", caller));
    }
    if all.callers.len() > 1 {
        let mut everything = Histogram::new();
        all.callers.iter().for_each(|caller| everything.merge(caller.times()));
        let missed = all.callers.iter().map(CallerResult::missed).sum();
        let has_rate = all.callers.iter().any(|caller| caller.response.is_some());
        table.row(time_row("all", if has_rate { "all response" } else { "all" }, &everything, missed));
    }
    table
}

fn time_row(pair: &str, caller: &str, latency: &Histogram, missed: u64) -> Vec<String> {
    let (count, whole) = (latency.count(), |ns: Option<u64>| us(ns.map(|ns| ns as f64)));
    let mut row = vec![pair.to_owned(), caller.to_owned(), count.to_string(), whole(latency.min_ns())];
    row.extend([latency.mean_ns(), latency.stdev_ns()].map(us));
    row.extend(PERCENTS.map(|percent| whole(latency.percentile_ns(percent))));
    row.extend([whole(latency.max_ns()), missed.to_string()]);
    row.push(percent(count.saturating_sub(missed), count));
    row
}

/// Where the time was spent, over all pairs.
pub(crate) fn legs(series: &Series) -> Table {
    let names = ["request", "handling", "reply"];
    let columns = names
        .into_iter()
        .flat_map(|leg| ["p50", "p99", "max"].map(|figure| Column::narrow(&format!("{leg} {figure}"), "us")));
    let mut table = Table::new([Column::text("legs of")].into_iter().chain(columns));
    for caller in series.all().iter().flat_map(|all| &all.callers) {
        let figures = [&caller.request, &caller.handling, &caller.reply].into_iter().flat_map(|leg| {
            [leg.percentile_ns(50.0), leg.percentile_ns(99.0), leg.max_ns()]
                .map(|ns| us(ns.map(|ns| ns as f64)))
        });
        table.row([caller.caller.to_string()].into_iter().chain(figures));
    }
    table
}

/// What the scheduler did to the threads of each kind of caller and to the servers, over all pairs.
pub(crate) fn scheduling(series: &Series) -> Table {
    let mut table = Table::new([
        Column::text("threads of"),
        Column::text("served as"),
        Column::narrow("inherited", "%"),
        Column::narrow("same CPU", "%"),
        Column::narrow("CPU changes", ""),
        Column::narrow("migrations", ""),
        Column::narrow("run delay", "us/call"),
        Column::narrow("voluntary switches", ""),
        Column::narrow("involuntary", ""),
    ]);
    let Some(all) = series.all() else { return table };
    for caller in &all.callers {
        let count = caller.count();
        let row = [
            caller.caller.to_string(),
            served_as(caller),
            inherited(series, caller),
            percent(caller.same_cpu, count),
            caller.cpu_changes.to_string(),
        ];
        table.row(row.into_iter().chain(counted(caller.counters, count)));
    }
    if all.server.is_some() {
        let row = ["servers", "", "", "", ""].map(str::to_owned);
        table.row(row.into_iter().chain(counted(all.server, all.count())));
    }
    table
}

/// The percentage of calls in which the server's policy was that of its caller.
fn inherited(series: &Series, caller: &CallerResult) -> String {
    match series.verdict {
        Verdict::Unseen { .. } if caller.not_inherited != 0 => "by futex".to_owned(),
        _ => percent(caller.count() - caller.not_inherited, caller.count()),
    }
}

fn counted(counters: Option<ThreadCounters>, calls: u64) -> [String; 4] {
    const NOT_AVAILABLE: &str = "not available";
    let Some(counters) = counters else { return [NOT_AVAILABLE; 4].map(str::to_owned) };
    let delay = counters.run_delay_ns.map(|ns| three_digits(ns as f64 / 1000.0 / calls.max(1) as f64));
    [
        counters.migrations.map(|count| count.to_string()).unwrap_or(NOT_AVAILABLE.into()),
        delay.unwrap_or(NOT_AVAILABLE.into()),
        counters.voluntary_switches.to_string(),
        counters.involuntary_switches.to_string(),
    ]
}

/// The settings of one stack side by side, over all pairs.
pub(crate) fn side_by_side(compared: &[&Series]) -> Table {
    let figures = ["p50", "p99", "p99.9", "max"];
    let columns = compared.iter().flat_map(|series| {
        let setting = series.inheritance.name();
        let times = figures.map(|name| Column::narrow(&format!("{setting}: {name}"), "us"));
        times.into_iter().chain([Column::narrow("missed", "")])
    });
    let mut table = Table::new([Column::text("caller")].into_iter().chain(columns));
    let all: Vec<_> = compared.iter().filter_map(|series| series.all()).collect();
    let Some(first) = all.first() else { return table };
    for (index, caller) in first.callers.iter().enumerate() {
        let row = all.iter().flat_map(|pair| {
            let (of, missed) = (pair.callers[index].times(), pair.callers[index].missed());
            let times = [50.0, 99.0, 99.9].map(|percent| of.percentile_ns(percent));
            let times = times.into_iter().chain([of.max_ns()]).map(|ns| us(ns.map(|ns| ns as f64)));
            times.chain([missed.to_string()]).collect::<Vec<_>>()
        });
        table.row([caller.caller.to_string()].into_iter().chain(row));
    }
    table
}

pub(crate) fn us(ns: Option<f64>) -> String {
    ns.map_or("-".to_owned(), |ns| three_digits(ns / 1000.0))
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.2}", 100.0 * part as f64 / of as f64) }
}

#[cfg(test)]
pub(crate) mod fixture {
    use roundtrip_latency::{Placement, Sample};
    use roundtrip_run::Scheduling;
    use roundtrip_run::ipc::Stack;
    use roundtrip_run::ipc::latency::{Amount, Inheritance, LatencyPlan, PairResult, Verdict};
    use roundtrip_run::ipc::{Backend, Profile};

    use super::*;

    /// One pair with fixed samples with inheritance on, and one without samples with inheritance
    /// off.
    pub(crate) fn result() -> LatencyResult {
        let plan = LatencyPlan {
            amount: Amount::Iterations(3),
            inheritance: vec![Inheritance::On, Inheritance::Off],
            ..LatencyPlan::default()
        };
        let on = PairResult {
            callers: vec![
                caller(&plan, Scheduling::fifo(99), &[100_000, 120_000, 260_000]),
                caller(&plan, Scheduling::other(0), &[53_000, 147_000, 2_800_000]),
            ],
            server: Some(counters(6)),
        };
        let mut off = on.clone();
        off.callers.iter_mut().for_each(|caller| caller.samples.clear());
        let mut on = on;
        on.callers[1].samples.clear();
        let series = |inheritance, pair, verdict| Series {
            stack: Stack::Hwbinder,
            inheritance,
            pairs: vec![pair],
            verdict,
        };
        let reason = "it was off".to_owned();
        LatencyResult {
            plan,
            backend: Some(Backend::Emulated { profile: Profile::Ack }),
            usable_cpus: 2,
            clock_read_cost_ns: 25.0,
            work_takes_ns: None,
            series: vec![
                series(Inheritance::On, on, Verdict::Pass),
                series(Inheritance::Off, off, Verdict::Fail { reason }),
            ],
            warnings: Vec::new(),
            realtime_refused: None,
            explained: None,
            halted: None,
            inherited_by_pi_futex: false,
            wake_up: None,
        }
    }

    fn counters(switches: u64) -> ThreadCounters {
        ThreadCounters {
            voluntary_switches: switches,
            involuntary_switches: 1,
            migrations: None,
            running_ns: Some(1000),
            run_delay_ns: Some(3000),
        }
    }

    fn caller(plan: &LatencyPlan, scheduling: Scheduling, latencies_ns: &[u64]) -> CallerResult {
        let Scheduling { policy, priority, nice } = scheduling;
        let own = Placement { cpu: 0, policy, priority, nice };
        let samples: Vec<_> = latencies_ns
            .iter()
            .enumerate()
            .map(|(index, latency_ns)| Sample {
                intended_ns: 990,
                start_ns: 1000,
                received_ns: 2000,
                replied_ns: 2500,
                end_ns: 1000 + latency_ns,
                caller: own,
                // The last call is served on another CPU, and real-time calls at their priority.
                server: Placement { cpu: u32::from(index == 2), ..own },
            })
            .collect();
        let mut result = CallerResult::new(scheduling, plan.deadline, false, 0);
        result.record(&samples);
        result.counters = Some(counters(3));
        result.samples = samples;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_show_times_legs_scheduling_and_the_effect_of_inheritance() {
        insta::assert_snapshot!(tables(&fixture::result(), Look::PLAIN));
    }

    #[test]
    fn with_a_rate_the_response_is_shown_beside_the_latency() {
        let mut result = fixture::result();
        result.plan.rate_per_s = Some(1000.0);
        for caller in result.series.iter_mut().flat_map(|series| &mut series.pairs[0].callers) {
            caller.response = Some(Response {
                time: [5_000_000].into_iter().collect(),
                missed: 1,
                elapsed_ns: 1_000_000_000,
                paused_ns: 20_000_000,
            });
        }
        let text = tables(&result, Look::PLAIN);
        assert!(text.contains("fifo:99 response") && text.contains("5000"), "{text}");
        assert!(text.contains("response: from the scheduled start of the call"));
        let schedule =
            "schedule: 1000/s of each caller; not reached, at the least 1.00/s; no call was due for 20.0 ms";
        assert!(text.contains(schedule), "{text}");
        assert!(text.find("fifo:99 response") < text.find("fifo:99  "), "{text}");
    }
}
