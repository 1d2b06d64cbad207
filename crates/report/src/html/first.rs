//! The first screen: for each run the answer, the figures that support it, what to do about it, and
//! how reliable it is.

use analysis::slow_calls::Kept;
use run::{Results, Run};

use super::advice;
use super::answer::answer;
use super::figures::{Figure, figures};
use super::page::Page;
use super::subject::Subject;
use super::trust::trust;
use crate::{environment, explanation_summary, summary};

/// Adds the first screen.
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

/// The page's sections: their ids and titles.
pub(super) fn contents(subjects: &[Subject<'_>]) -> Vec<(&'static str, &'static str)> {
    let any = |has: fn(&Results) -> bool| subjects.iter().any(|one| has(&one.run.results));
    let all = [
        (subjects.iter().any(|one| Kept::of(one.run).is_some()), "slow-calls", "Slow calls"),
        (any(|of| of.latency.is_some()), "latency", "Latency"),
        (any(|of| of.throughput.is_some()), "throughput", "Throughput"),
        (any(|of| of.baseline.is_some()), "baseline", "Baseline"),
        (any(|of| of.workers.is_some()), "many-callers", "Many callers"),
        (any(|of| of.observed_calls.is_some()), "observed", "Observed calls"),
        (any(|of| of.observed_writes.is_some()), "observed-writes", "Observed writes"),
        (any(|of| of.traits.is_some()), "stacks", "Binder against hwbinder"),
        (any(|of| of.storage.is_some()), "writes", "Synchronous writes"),
        (any(|of| of.interference.is_some()), "interference", "Writes with background load"),
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
    if let Some(kept) = Kept::of(run).filter(|_| !subject.explained.is_empty()) {
        page.paragraphs("lead", &explanation_summary::line(subject.explained, &kept));
    }
    page.within("div", &[("class", "figures")], |page| {
        for Figure { name, text, value, unit } in figures(subject) {
            page.figure(&subject.label, &name, &text, value, unit);
        }
    });
    page.within("div", &[("class", "pair")], |page| {
        let steps = advice::of(subject);
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
    page.paragraphs("machine", &environment::of_this_run(run));
    page.paragraphs("machine", &environment::header(&run.environment));
}

/// A badge beside the run's name that says whether the driver is emulated or the kernel's.
fn kind(run: &Run) -> Option<(&'static str, String)> {
    let driver = run.environment.driver.as_deref()?;
    Some(match driver {
        _ if driver.starts_with("emulated") => ("kind emulated", "emulated driver".into()),
        _ if driver.starts_with("kernel") => ("kind", "kernel driver".into()),
        _ => ("kind", driver.to_owned()),
    })
}

/// The summary of each test, as a terminal shows it.
fn lead(page: &mut Page, subject: &Subject<'_>) {
    let text = summary::paragraphs(&subject.run.results, subject.layers, subject.beside);
    if text.is_empty() {
        return;
    }
    page.element("h2", &[], "In short");
    page.within("div", &[("class", "summary")], |page| {
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            // If a name is long, its text is on a separate line.
            let below = lines.next_if(|next| next.starts_with("    ")).map(|said| (line, said));
            let beside = || line.trim().split_once("  ").filter(|_| line.starts_with(' '));
            match below.or_else(beside) {
                Some((what, said)) => {
                    page.element("b", &[], what.trim());
                    page.element("span", &[], said.trim());
                }
                None => page.paragraphs("group", line),
            }
        }
    });
}
