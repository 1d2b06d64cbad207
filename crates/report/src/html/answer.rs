//! The answer of a run in one or two sentences. Must not know the page.

use latency::Histogram;
use layers::storage::Layer;
use layers::{Explanation, Flag, Kind};
use run::baseline::FUTEX;
use run::ipc::latency::LatencyResult;
use run::storage::interference::Condition;

use super::subject::Subject;
use crate::beside::{self, Change};
use crate::explanation_words;
use crate::quantity::{duration, length, three_digits};
use crate::{observed_calls, observed_writes};
use analysis::storage::SeriesLayers;

/// The answer in a sentence.
pub(super) fn answer(subject: &Subject<'_>) -> String {
    let results = &subject.run.results;
    if let Some(worst) = subject.explained.first() {
        let took = duration(worst.explanation.duration_ns() as f64);
        let what = explanation_words::answer(&worst.explanation);
        let inverted = inverted(&worst.explanation);
        let inversion =
            if inverted { " This is priority inversion: the caller is a real-time thread." } else { "" };
        return format!("The slowest recorded call took {took}: {what}.{inversion}");
    }
    if let Some(result) = &results.latency {
        let (times, missed) = all_calls(result);
        let (deadline, worst) =
            (duration(result.plan.deadline.ns as f64), times.max_ns().map(|ns| duration(ns as f64)));
        let worst = worst.unwrap_or_else(|| "-".to_owned());
        return match missed {
            0 => {
                format!("No call took longer than {deadline}; the slowest of {} took {worst}.", times.count())
            }
            missed => format!(
                "{missed} of {} calls took longer than {deadline}; the slowest took {worst}.",
                times.count()
            ),
        };
    }
    sentence(subject).unwrap_or_else(|| "The run has no figures.".to_owned())
}

/// Whether the main cause of a delay is a thread of lower priority that had the CPU.
pub(super) fn inverted(explanation: &Explanation) -> bool {
    explanation.main().is_some_and(|cause| cause.kind == Kind::Competitor)
        && explanation.flags.iter().any(|flag| matches!(flag, Flag::PriorityInversion { .. }))
}

/// The answer of tests that have no deadline.
fn sentence(subject: &Subject<'_>) -> Option<String> {
    let results = &subject.run.results;
    if let Some(result) = &results.throughput {
        let row = result.rows.iter().min_by_key(|row| row.size_bytes)?;
        let (least, ns) = (length(row.size_bytes), duration(row.real_time_ns()?));
        return Some(format!("A round trip of {least} over {} takes {ns}.", row.stack));
    }
    if let Some(result) = &results.workers {
        let at = |percent| Some(duration(result.latency.percentile_ns(percent)? as f64));
        let (p50, p99) = (at(50.0)?, at(99.0)?);
        let rate = format!("{:.0}", result.iterations_per_s);
        return Some(format!(
            "{} workers make {rate} calls a second: a call usually takes {p50}, and 99% take at most {p99}.",
            result.plan.workers
        ));
    }
    if let Some(result) = &results.observed_calls {
        return Some(format!("{}.", observed_calls::answer(result)));
    }
    if let Some(result) = &results.observed_writes {
        return Some(format!("{}.", observed_writes::answer(result)));
    }
    if let Some(result) = &results.storage {
        let series = result.series.iter().max_by_key(|series| series.latency.percentile_ns(50.0))?;
        let (size, p50) =
            (length(series.size_bytes as usize), duration(series.latency.percentile_ns(50.0)? as f64));
        let same = |one: &&SeriesLayers<'_>| {
            one.series.writer == series.writer && one.series.size_bytes == series.size_bytes
        };
        let most = subject.layers.iter().find(same).and_then(|one| {
            let share = |layer: Layer| one.breakdown.share(layer);
            let most = Layer::ALL.into_iter().max_by(|one, other| share(*one).total_cmp(&share(*other)))?;
            Some(format!("; {:.0}% of the time {}", share(most) * 100.0, goes_to(most)))
        });
        return Some(format!("A write of {size} usually takes {p50}{}.", most.unwrap_or_default()));
    }
    if results.interference.is_some() {
        return Some(of_conditions(subject));
    }
    if let Some(result) = &results.baseline {
        let (least, placement) = (*result.plan.sizes_bytes.iter().min()?, *result.plan.placements.first()?);
        let of = |transport| Some(duration(result.cell(transport, least, placement)?.median_ns()?));
        let binder = ["binder", "hwbinder"]
            .into_iter()
            .filter_map(|stack| Some(format!("over {stack} {}", of(stack)?)));
        let all: Vec<String> = [format!("over a futex {}", of(FUTEX)?)].into_iter().chain(binder).collect();
        return Some(format!(
            "A round trip of {} takes {} (placement {placement}).",
            length(least),
            all.join(", ")
        ));
    }
    results.traits.as_ref().map(|_| "Binder and hwbinder, aspect by aspect.".to_owned())
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
    let Some(noise) = beside::chance(subject.beside) else {
        return "Too few rounds to tell how background load affects a write.".to_owned();
    };
    let chance =
        format!("The control (alone against alone) varies from {:.2} to {:.2}.", noise.low, noise.high);
    let all = beside::found(subject.beside);
    let Some(found) = all.first() else {
        return format!("None of the conditions changed a write beyond chance. {chance}");
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

/// All calls of a latency test, and how many missed the deadline.
pub(super) fn all_calls(result: &LatencyResult) -> (Histogram, u64) {
    let callers = || result.series.iter().flat_map(|series| &series.pairs).flat_map(|pair| &pair.callers);
    let mut times = Histogram::new();
    callers().for_each(|caller| times.merge(&caller.latency));
    (times, callers().map(|caller| caller.deadline.missed).sum())
}
