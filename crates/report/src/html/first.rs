//! The first screen: for each run the answer, the figures that carry it, what to do about it, and how far to trust it.

use analysis::interference::Explained;
use analysis::storage::SeriesLayers;
use latency::Histogram;
use layers::storage::Layer;
use run::floor::{BASELINE, FloorCell};
use run::ipc::latency::LatencyResult;
use run::ipc::throughput::Batch;
use run::storage::interference::Condition;
use run::{Results, Run};

use super::advice;
use super::page::Page;
use super::subject::Subject;
use crate::quantity::{byte_rate, duration, length, three_digits};
use crate::{environment, explanation_summary, explanation_words, summary};

/// Shows it.
pub(super) fn screen(page: &mut Page, subjects: &[Subject<'_>]) {
    page.within("header", &[], |page| {
        page.element("p", &[("class", "brand")], "Roundtrip report");
        page.within("nav", &[("aria-label", "Contents")], |page| {
            for (id, name) in contents(subjects) {
                page.element("a", &[("href", &format!("#{id}"))], name);
            }
        });
    });
    page.within("main", &[("class", if subjects.len() > 1 { "several" } else { "one" })], |page| {
        for subject in subjects {
            page.within("section", &[("class", "answer"), ("aria-label", &subject.label)], |page| {
                of(page, subject)
            });
        }
    });
}

/// The page's sections: their names in it and for people.
pub(super) fn contents(subjects: &[Subject<'_>]) -> Vec<(&'static str, &'static str)> {
    let any = |has: fn(&Results) -> bool| subjects.iter().any(|one| has(&one.run.results));
    let all = [
        (
            any(|of| of.latency.as_ref().is_some_and(|result| result.explained.is_some())),
            "slow-calls",
            "Slow calls",
        ),
        (any(|of| of.latency.is_some()), "latency", "Latency"),
        (any(|of| of.throughput.is_some()), "throughput", "Throughput"),
        (any(|of| of.floor.is_some()), "baseline", "Baseline"),
        (any(|of| of.workers.is_some()), "many-callers", "Many callers"),
        (any(|of| of.traits.is_some()), "stacks", "Binder against hwbinder"),
        (any(|of| of.storage.is_some()), "writes", "Synchronous writes"),
        (any(|of| of.interference.is_some()), "interference", "Writes beside other load"),
    ];
    all.into_iter().filter(|section| section.0).map(|(_, id, name)| (id, name)).collect()
}

fn of(page: &mut Page, subject: &Subject<'_>) {
    let run = subject.run;
    page.within("p", &[("class", "run")], |page| {
        page.element("span", &[("class", "label")], &subject.label);
        if let Some((class, kind)) = kind(run) {
            page.element("span", &[("class", class)], &kind);
        }
    });
    page.element("h1", &[], &answer(subject));
    if let Some(result) = run.results.latency.as_ref().filter(|_| !subject.explained.is_empty()) {
        page.paragraphs("lead", &explanation_summary::line(subject.explained, result));
    }
    page.within("div", &[("class", "figures")], |page| {
        for Figure { name, text, value, unit } in figures(subject) {
            page.figure(&subject.label, &name, &text, value, unit);
        }
    });
    page.within("div", &[("class", "pair")], |page| {
        let steps = advice::of(run, subject.explained, subject.layers);
        if !steps.is_empty() {
            page.within("div", &[], |page| {
                page.element("h2", &[], "What to do about it");
                page.within("ol", &[("class", "steps")], |page| {
                    steps.iter().for_each(|step| page.element("li", &[], step));
                });
            });
        }
        page.within("div", &[], |page| {
            page.element("h2", &[], "How far to trust it");
            page.within("ul", &[("class", "trust")], |page| {
                trust(subject).iter().for_each(|line| page.element("li", &[], line));
                let warnings = run.warnings.iter().chain(&subject.damage);
                warnings.for_each(|warning| page.element("li", &[("class", "warning")], warning));
            });
        });
    });
    lead(page, subject);
    page.paragraphs("machine", &environment::header(&run.environment));
}

/// Emulated or kernel, as a mark beside the run's name.
fn kind(run: &Run) -> Option<(&'static str, String)> {
    let driver = run.environment.driver.as_deref()?;
    Some(match driver {
        _ if driver.starts_with("emulated") => ("kind emulated", "emulated driver".into()),
        _ if driver.starts_with("kernel") => ("kind", "kernel driver".into()),
        _ => ("kind", driver.to_owned()),
    })
}

/// The answer in a sentence.
fn answer(subject: &Subject<'_>) -> String {
    let results = &subject.run.results;
    if let Some(worst) = subject.explained.first() {
        let took = duration(worst.explanation.duration_ns() as f64);
        return format!(
            "The slowest call that was recorded took {took}: {}.",
            explanation_words::answer(&worst.explanation)
        );
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
    sentence(subject).unwrap_or_else(|| "Nothing was measured that has figures.".to_owned())
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
            "{} workers make {rate} calls a second: usually a call takes {p50}, and 99% at most {p99}.",
            result.plan.workers
        ));
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
        return beside(subject);
    }
    if let Some(result) = &results.floor {
        let (least, placement) = (*result.plan.sizes_bytes.iter().min()?, *result.plan.placements.first()?);
        let of = |transport| Some(duration(result.cell(transport, least, placement)?.median_ns()?));
        let binder = ["binder", "hwbinder"]
            .into_iter()
            .filter_map(|stack| Some(format!("over {stack} {}", of(stack)?)));
        let all: Vec<String> =
            [format!("over a futex {}", of(BASELINE)?)].into_iter().chain(binder).collect();
        return Some(format!(
            "A round trip of {} takes {} (placement {placement}).",
            length(least),
            all.join(", ")
        ));
    }
    results.traits.as_ref().map(|_| "Binder and hwbinder, aspect by aspect.".to_owned())
}

/// What a layer does to a write, behind a share of the time.
fn goes_to(layer: Layer) -> &'static str {
    match layer {
        Layer::Device => "goes to the device",
        Layer::Irq => "passes between the interrupt and the wake-up",
        Layer::Block => "goes to the block layer",
        Layer::Held => "it is held back before it is queued",
        Layer::Wake => "whoever waits has been woken and does not run yet",
        Layer::Helper => "another thread works for it: a journal's, or a worker",
        Layer::Stolen | Layer::Preempted => "others have the CPU",
        Layer::Fs => "goes to the file system",
        Layer::Platform => "goes to the application and its runtime",
        Layer::Unexplained => "is unexplained",
    }
}

/// What other load does to a write: the largest difference beyond chance.
fn beside(subject: &Subject<'_>) -> Option<String> {
    let response = |one: &Explained<'_>| one.beside.response();
    let alone = subject.beside.iter().find(|one| one.beside.condition == Condition::Alone).and_then(response);
    let Some(noise) = alone.and_then(|found| found.interval) else {
        return Some("Too few rounds: it cannot be told what other load does to a write.".to_owned());
    };
    let beyond = |one: &&Explained<'_>| {
        response(one).is_some_and(|found| {
            found.interval.is_some_and(|own| {
                (own.low > 1.0 && found.median > noise.high) || (own.high < 1.0 && found.median < noise.low)
            })
        })
    };
    let size = |one: &Explained<'_>| response(one).map_or(0.0, |found| found.median.ln().abs());
    let others = subject.beside.iter().filter(|one| one.beside.condition != Condition::Alone);
    let most = others.filter(beyond).max_by(|one, other| size(one).total_cmp(&size(other)));
    let chance = format!("alone against alone varies from {:.2} to {:.2}", noise.low, noise.high);
    Some(match most.and_then(|one| Some((one, response(one)?))) {
        Some((one, found)) => format!(
            "Beside {} a write takes {:.2} times as long as alone; {chance}.",
            one.beside.condition, found.median
        ),
        None => format!("No load that was tried changed a write beyond chance: {chance}."),
    })
}

/// What the terminal says of each test.
fn lead(page: &mut Page, subject: &Subject<'_>) {
    let text = summary::paragraphs(&subject.run.results, subject.layers, subject.beside);
    if text.is_empty() {
        return;
    }
    page.element("h2", &[], "In short");
    page.within("div", &[("class", "summary")], |page| {
        for line in text.lines() {
            match line.trim().split_once("  ").filter(|_| line.starts_with(' ')) {
                Some((what, said)) => {
                    page.element("b", &[], what);
                    page.element("span", &[], said.trim());
                }
                None => page.paragraphs("group", line),
            }
        }
    });
}

/// All calls of a latency test, and how many missed.
fn all_calls(result: &LatencyResult) -> (Histogram, u64) {
    let callers = || result.series.iter().flat_map(|series| &series.pairs).flat_map(|pair| &pair.callers);
    let mut times = Histogram::new();
    callers().for_each(|caller| times.merge(&caller.latency));
    (times, callers().map(|caller| caller.deadline.missed).sum())
}

/// A figure of the first screen.
struct Figure {
    name: String,
    text: String,
    value: f64,
    unit: &'static str,
}

fn time(name: impl Into<String>, ns: f64) -> Figure {
    Figure { name: name.into(), text: duration(ns), value: ns, unit: "ns" }
}

/// The three figures that carry the answer.
fn figures(subject: &Subject<'_>) -> Vec<Figure> {
    let results = &subject.run.results;
    let mut all = Vec::new();
    if let Some(result) = &results.latency {
        let (times, missed) = all_calls(result);
        let deadline = duration(result.plan.deadline.ns as f64);
        all.extend(times.max_ns().map(|ns| time("the worst call", ns as f64)));
        all.push(Figure {
            name: format!("of {} calls took longer than {deadline}", times.count()),
            text: missed.to_string(),
            value: missed as f64,
            unit: "calls",
        });
        all.extend(times.percentile_ns(50.0).map(|ns| time("the usual call (median)", ns as f64)));
    }
    if let Some(result) = &results.throughput
        && all.is_empty()
    {
        let fastest = result.rows.iter().min_by_key(|row| row.size_bytes);
        all.extend(fastest.and_then(|row| {
            Some(time(format!("a {} call over {}", length(row.size_bytes), row.stack), row.real_time_ns()?))
        }));
        let largest = result.rows.iter().max_by_key(|row| row.size_bytes);
        all.extend(largest.and_then(|row| {
            Some(time(format!("a {} call over {}", length(row.size_bytes), row.stack), row.real_time_ns()?))
        }));
        all.extend(largest.and_then(|row| {
            let value = row.bytes_per_second()?;
            Some(Figure {
                name: format!("one way, {} over {}", length(row.size_bytes), row.stack),
                text: byte_rate(value),
                value,
                unit: "B/s",
            })
        }));
    }
    if all.is_empty() {
        all = of_others(subject);
    }
    all.truncate(3);
    all
}

/// The figures of the tests that are neither of latency nor of throughput.
fn of_others(subject: &Subject<'_>) -> Vec<Figure> {
    let results = &subject.run.results;
    let mut all = Vec::new();
    if let Some(result) = &results.storage
        && let Some(series) = result.series.iter().max_by_key(|series| series.latency.percentile_ns(50.0))
    {
        let size = length(series.size_bytes as usize);
        let at = |percent| series.latency.percentile_ns(percent).map(|ns| ns as f64);
        all.extend(at(50.0).map(|ns| time(format!("a write of {size} (median)"), ns)));
        all.extend(
            at(99.0)
                .map(|ns| time(format!("99% of {} such writes took at most", series.latency.count()), ns)),
        );
        let same = |one: &&SeriesLayers<'_>| {
            one.series.writer == series.writer && one.series.size_bytes == series.size_bytes
        };
        all.extend(subject.layers.iter().find(same).map(|one| {
            let value = one.breakdown.host_share() * 100.0;
            Figure {
                name: "of it on the host, the rest with the device".into(),
                text: format!("{value:.1}%"),
                value,
                unit: "%",
            }
        }));
    }
    if let Some(result) = &results.interference
        && all.is_empty()
    {
        let ratio = |one: &Explained<'_>| one.beside.response().map(|found| found.median);
        let chance = |one: &&Explained<'_>| one.beside.condition == Condition::Alone;
        let others = || subject.beside.iter().filter(|one| !chance(one));
        let worst =
            others().max_by(|one, other| ratio(one).unwrap_or(0.0).total_cmp(&ratio(other).unwrap_or(0.0)));
        let figure = |one: &Explained<'_>, name: String| {
            let value = ratio(one)?;
            Some(Figure { name, text: format!("{value:.3}"), value, unit: "ratio" })
        };
        all.extend(
            worst.and_then(|one| figure(one, format!("times as long beside {}", one.beside.condition))),
        );
        all.extend(
            subject
                .beside
                .iter()
                .find(chance)
                .and_then(|one| figure(one, "alone against alone: chance".into())),
        );
        let alone = subject.beside.iter().find_map(|one| one.beside.response());
        all.extend(alone.map(|found| {
            time(
                format!(
                    "a write of {} alone (median; {} rounds)",
                    subject
                        .beside
                        .first()
                        .map_or_else(String::new, |one| length(one.beside.size_bytes as usize)),
                    result.plan.rounds
                ),
                found.baseline_ns,
            )
        }));
    }
    if let Some(result) = &results.workers
        && all.is_empty()
    {
        let value = result.iterations_per_s;
        all.push(Figure {
            name: "calls a second, all workers together".into(),
            text: format!("{value:.0}"),
            value,
            unit: "calls/s",
        });
        all.extend(result.latency.percentile_ns(50.0).map(|ns| time("the usual call (median)", ns as f64)));
        all.extend(result.latency.percentile_ns(99.0).map(|ns| time("99% of calls took at most", ns as f64)));
    }
    if let Some(result) = &results.floor
        && all.is_empty()
        && let (Some(&least), Some(&placement)) =
            (result.plan.sizes_bytes.iter().min(), result.plan.placements.first())
    {
        for transport in [BASELINE, "binder", "hwbinder"] {
            let median = result.cell(transport, least, placement).and_then(FloorCell::median_ns);
            all.extend(
                median.map(|ns| time(format!("{transport}, {}, placement {placement}", length(least)), ns)),
            );
        }
    }
    all
}

/// What speaks for and against the figures, but for warnings.
fn trust(subject: &Subject<'_>) -> Vec<String> {
    let run = subject.run;
    let mut lines = Vec::new();
    lines.extend(run.environment.driver.as_deref().map(|driver| match driver.starts_with("emulated") {
        true => format!(
            "Measured over the {driver}: it shows what scheduler, CPUs and load do to a call, not what the kernel's driver costs."
        ),
        false => format!("Measured over the {driver}."),
    }));
    lines.extend(spread(&run.results));
    if run.environment.cpus.virtualised == Some(true) {
        lines.push(
            "Measured on a virtual machine: its hypervisor may have delayed calls, unseen by its kernel."
                .to_owned(),
        );
    }
    let lost = subject
        .explained
        .iter()
        .filter(|one| one.explanation.flags.contains(&layers::Flag::EventsLost))
        .count();
    if !subject.explained.is_empty() {
        let of = subject.explained.len();
        let without = subject.explained.iter().filter(|one| one.without_events.is_some()).count();
        lines.push(match (lost, without) {
            (0, 0) => format!("The kernel's events of all {of} explained calls are there; none were lost."),
            (lost, without) => {
                format!("Of {of} explained calls, {without} have no kernel events and {lost} lost some.")
            }
        });
    }
    lines
}

/// How much repetitions of the same differ.
fn spread(results: &Results) -> Option<String> {
    if let Some(result) = &results.latency {
        let medians: Vec<f64> = result
            .series
            .iter()
            .flat_map(|series| {
                series
                    .pairs
                    .first()
                    .into_iter()
                    .flat_map(move |first| (0..first.callers.len()).map(move |at| (series, at)))
            })
            .filter_map(|(series, at)| {
                let of =
                    |pair: &run::ipc::latency::PairResult| pair.callers.get(at)?.latency.percentile_ns(50.0);
                let all: Vec<f64> = series.pairs.iter().filter_map(of).map(|ns| ns as f64).collect();
                let (low, high) =
                    all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ns| (low.min(ns), high.max(ns)));
                (all.len() > 1 && low > 0.0).then(|| (high / low - 1.0) * 100.0)
            })
            .collect();
        let most = medians
            .iter()
            .copied()
            .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))));
        return Some(match most {
            Some(percent) => format!("The pairs' medians differ by up to {}%.", three_digits(percent)),
            None => "One run of one pair: nothing tells how much a repetition would differ.".to_owned(),
        });
    }
    let result = results.throughput.as_ref()?;
    let spreads = result.rows.iter().filter_map(|row| {
        let (q1, q3) = (row.quantile(0.25, Batch::real_time_ns)?, row.quantile(0.75, Batch::real_time_ns)?);
        Some((q3 - q1) / 2.0 / row.real_time_ns()? * 100.0)
    });
    let most = spreads.fold(0.0_f64, f64::max);
    Some(match result.plan.repetitions {
        0 | 1 => "One repetition: nothing tells how much another would differ.".to_owned(),
        repetitions => {
            format!("{repetitions} repetitions; half their interquartile range is up to {most:.0}%.")
        }
    })
}
