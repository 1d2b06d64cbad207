//! The answer of a run in one or two sentences. Must not know the page.

use roundtrip_layers::storage::Layer;
use roundtrip_layers::{Explanation, Flag, Kind};
use roundtrip_run::Tested;
use roundtrip_run::baseline::FUTEX;
use roundtrip_run::figures::Group;
use roundtrip_run::storage::interference::Condition;

use super::subject::Subject;
use crate::ipc::observed_calls::answer as observed_calls_answer;
use crate::storage::beside::{self, Change};
use crate::storage::observed_writes::answer as observed_writes_answer;
use crate::text::quantity::{duration, duration_or_dash, length, percentiles, three_digits};
use roundtrip_analysis::storage::SeriesLayers;

/// The answer of a latency test.
pub(crate) fn latency(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.latency.as_ref()?;
    let groups = result.groups();
    let calls = || groups.iter().filter_map(Group::calls);
    let count: u64 = calls().map(|times| times.histogram.count()).sum();
    let missed: u64 = calls().filter_map(|times| times.limit).map(|limit| limit.beyond).sum();
    let deadline = duration(result.plan.deadline.ns as f64);
    let worst = duration_or_dash(calls().filter_map(|times| times.histogram.max_ns()).max());
    Some(match missed {
        0 => format!("No call took longer than {deadline}; the slowest of {count} took {worst}."),
        missed => format!("{missed} of {count} calls took longer than {deadline}; the slowest took {worst}."),
    })
}

/// Whether the main cause of a delay is a thread of lower priority that had the CPU.
pub(super) fn inverted(explanation: &Explanation) -> bool {
    explanation.main().is_some_and(|cause| cause.kind == Kind::Competitor)
        && explanation.flags.iter().any(|flag| matches!(flag, Flag::PriorityInversion { .. }))
}

pub(crate) fn throughput(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.throughput.as_ref()?;
    let row = result.rows.iter().min_by_key(|row| row.size_bytes)?;
    let (least, ns) = (length(row.size_bytes), duration(row.real_time_ns()?));
    Some(format!("A round trip of {least} over {} takes {ns}.", row.stack))
}

pub(crate) fn workers(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.workers.as_ref()?;
    Some(format!(
        "{} workers make {:.0} calls a second: {}.",
        result.plan.workers,
        result.iterations_per_s,
        percentiles(&result.latency, &[50.0, 99.0])
    ))
}

pub(crate) fn observed_calls(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.observed_calls.as_ref()?;
    Some(format!("{}.", observed_calls_answer(result)))
}

pub(crate) fn observed_writes(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.observed_writes.as_ref()?;
    Some(format!("{}.", observed_writes_answer(result)))
}

pub(crate) fn system_calls(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.system_calls.as_ref()?;
    Some(format!("{}.", crate::storage::system_calls::answer(result)))
}

pub(crate) fn storage(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.storage.as_ref()?;
    let series = result.series.iter().max_by_key(|series| series.latency.percentile_ns(50.0))?;
    let size = length(series.size_bytes as usize);
    let same = |one: &&SeriesLayers<'_>| {
        one.series.writer == series.writer && one.series.size_bytes == series.size_bytes
    };
    let most = subject.analysed.layers.iter().find(same).and_then(|one| {
        let share = |layer: Layer| one.breakdown.share(layer);
        let most = Layer::ALL.into_iter().max_by(|one, other| share(*one).total_cmp(&share(*other)))?;
        Some(format!("; {:.0}% of the time {}", share(most) * 100.0, goes_to(most)))
    });
    let took = match series.latency.percentile_ns(50.0) {
        Some(p50) => format!("usually takes {}", duration(p50 as f64)),
        None => format!("took at most {}", duration(series.latency.max_ns()? as f64)),
    };
    Some(format!("A write of {size} {took}{}.", most.unwrap_or_default()))
}

pub(crate) fn interference(subject: &Subject<'_>) -> Option<String> {
    subject.analysed.run.results.interference.as_ref()?;
    Some(of_conditions(subject))
}

pub(crate) fn baseline(subject: &Subject<'_>) -> Option<String> {
    let result = subject.analysed.run.results.baseline.as_ref()?;
    let (least, placement) = (*result.plan.sizes_bytes.iter().min()?, *result.plan.placements.first()?);
    let of = |transport| Some(duration(result.cell(transport, least, placement)?.median_ns()?));
    let binder =
        ["binder", "hwbinder"].into_iter().filter_map(|stack| Some(format!("over {stack} {}", of(stack)?)));
    let all: Vec<String> = [format!("over a futex {}", of(FUTEX)?)].into_iter().chain(binder).collect();
    Some(format!("A round trip of {} takes {} (placement {placement}).", length(least), all.join(", ")))
}

pub(crate) fn traits(subject: &Subject<'_>) -> Option<String> {
    subject.analysed.run.results.traits.as_ref().map(|_| "Binder and hwbinder, aspect by aspect.".to_owned())
}

/// What a layer does during a write, in words that follow a share of the time.
fn goes_to(layer: Layer) -> &'static str {
    match layer {
        Layer::Device => "goes to the device",
        Layer::Irq => "passes between the interrupt and the wakeup",
        Layer::Block => "goes to the block layer",
        Layer::Held => "it is held back before it is queued",
        Layer::Wake => "the waiting thread has been woken but does not run yet",
        Layer::Helper => "another thread (the journal's or a worker) does the work",
        Layer::Stolen | Layer::Preempted => "other threads have the CPU",
        Layer::Fs => "goes to the file system",
        Layer::Platform => "goes to the application and its runtime",
        Layer::Unexplained => "is unexplained",
    }
}

/// The name of a layer, for a sentence about time in it.
fn place(layer: Layer) -> &'static str {
    match layer {
        Layer::Device => "with the device",
        Layer::Irq => "between the device's interrupt and the wakeup",
        Layer::Block => "in the block layer's queues",
        Layer::Held => "held back before the block layer's queues",
        Layer::Wake => "between the wakeup and running again",
        Layer::Helper => "in another thread that works for it (the journal's or a worker)",
        Layer::Stolen | Layer::Preempted => "waiting for a CPU that other threads have",
        Layer::Fs => "in the file system",
        Layer::Platform => "in the application and its runtime",
        Layer::Unexplained => "that no event explains",
    }
}

/// A condition in words, with its name.
fn under(condition: Condition) -> String {
    let words = match condition {
        Condition::HogSame => "With a CPU-bound process on its CPU",
        Condition::HogOther => "With a CPU-bound process on another CPU",
        Condition::HogAll => "With a CPU-bound process on every CPU",
        Condition::Timers => "With timers on the CPU of the device's interrupt",
        Condition::Network => "With network packets on the CPU of the device's interrupt",
        Condition::Files => "With a process that creates and removes files",
        Condition::Fsync => "With another process that makes its writes durable",
        Condition::Memory => "With a process that fills memory",
        Condition::IoLimit => "Under an I/O limit of its control group",
        _ => return format!("Under {condition}"),
    };
    format!("{words} ({condition})")
}

/// The effect of background load on a write: the largest difference beyond chance, and the layer
/// that causes it.
fn of_conditions(subject: &Subject<'_>) -> String {
    let Some(noise) = beside::chance(&subject.analysed.beside) else {
        return "Too few rounds to tell how background load affects a write.".to_owned();
    };
    let chance =
        format!("The control (alone against alone) varies from {:.2} to {:.2}.", noise.low, noise.high);
    let all = beside::found(&subject.analysed.beside);
    let Some(found) = all.first() else {
        let unexplained = beside::unexplained(&subject.analysed.beside);
        let but = if unexplained { ", in a way that a part of it explains" } else { "" };
        return format!("None of the conditions changed a write beyond chance{but}. {chance}");
    };
    let under = under(found.one.beside.condition);
    let said = match found.change {
        Change::Usual(ratio) => format!("{under}, a write takes {ratio:.2} times as long as alone"),
        Change::Some(ratio) => format!(
            "{under}, a write takes {} times as long as alone on average: some writes wait very long",
            three_digits(ratio)
        ),
    };
    let less = if found.change.ratio() > 1.0 { "more" } else { "less" };
    let where_it_lies = beside::layer(found)
        .map_or_else(String::new, |layer| format!("; it spends {less} time {}", place(layer)));
    format!("{said}{where_it_lies}. {chance}")
}
