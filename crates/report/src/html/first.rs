//! The first screen: for each run the answer, the figures that carry it, what to do about it, and how far to trust it.

use latency::Histogram;
use run::ipc::latency::LatencyResult;
use run::ipc::throughput::Batch;
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
        contents(page, subjects);
    });
    page.within("main", &[("class", if subjects.len() > 1 { "several" } else { "one" })], |page| {
        for subject in subjects {
            page.within("section", &[("class", "answer"), ("aria-label", &subject.label)], |page| {
                of(page, subject)
            });
        }
    });
}

/// Where on the page what stands.
fn contents(page: &mut Page, subjects: &[Subject<'_>]) {
    let any = |has: fn(&Results) -> bool| subjects.iter().any(|one| has(&one.run.results));
    let slow = |results: &Results| results.latency.as_ref().is_some_and(|result| result.explained.is_some());
    let links = [
        (any(slow), "slow-calls", "Slow calls"),
        (any(|results| results.latency.is_some()), "latency", "Latency"),
    ];
    page.within("nav", &[("aria-label", "Contents")], |page| {
        for (_, id, name) in links.into_iter().filter(|link| link.0) {
            page.element("a", &[("href", &format!("#{id}"))], name);
        }
    });
}

fn of(page: &mut Page, subject: &Subject<'_>) {
    let run = subject.run;
    page.within("p", &[("class", "run")], |page| {
        page.element("span", &[("class", "label")], &subject.label);
        let (class, kind) = kind(run);
        page.element("span", &[("class", class)], &kind);
    });
    page.element("h1", &[], &answer(subject));
    page.within("div", &[("class", "figures")], |page| {
        for Figure { name, text, value, unit } in figures(&run.results) {
            page.figure(&subject.label, &name, &text, value, unit);
        }
    });
    lead(page, subject);
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
    page.paragraphs("machine", &environment::header(&run.environment));
}

/// Emulated or kernel, as a mark beside the run's name.
fn kind(run: &Run) -> (&'static str, String) {
    match run.environment.driver.as_deref() {
        Some(driver) if driver.starts_with("emulated") => ("kind emulated", "emulated driver".into()),
        Some(driver) if driver.starts_with("kernel") => ("kind", "kernel driver".into()),
        Some(driver) => ("kind", driver.to_owned()),
        None => ("kind", "no binder driver".into()),
    }
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
    // The first line that is no heading.
    let lines = summary::paragraphs(results, subject.layers, subject.beside);
    let first =
        lines.lines().find(|line| line.starts_with(' ')).unwrap_or("Nothing was measured that has figures.");
    words(first)
}

/// A line of the summary as a sentence: what it is about, and what is said of it.
fn words(line: &str) -> String {
    match line.trim().split_once("  ") {
        Some((what, said)) => format!("{what}: {}.", said.trim()),
        None => line.trim().to_owned(),
    }
}

/// What the terminal says of each test.
fn lead(page: &mut Page, subject: &Subject<'_>) {
    if let Some(result) = subject.run.results.latency.as_ref().filter(|_| !subject.explained.is_empty()) {
        page.paragraphs("lead", &explanation_summary::line(subject.explained, result));
    }
    page.within("div", &[("class", "summary")], |page| {
        for line in summary::paragraphs(&subject.run.results, subject.layers, subject.beside).lines() {
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
fn figures(results: &Results) -> Vec<Figure> {
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
    all.truncate(3);
    all
}

/// What speaks for and against the figures, but for warnings.
fn trust(subject: &Subject<'_>) -> Vec<String> {
    let run = subject.run;
    let mut lines = Vec::new();
    lines.push(match run.environment.driver.as_deref() {
        Some(driver) if driver.starts_with("emulated") => format!(
            "Measured over the {driver}: it shows what scheduler, CPUs and load do to a call, not what the kernel's driver costs."
        ),
        Some(driver) => format!("Measured over the {driver}."),
        None => "No binder driver took part.".to_owned(),
    });
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
