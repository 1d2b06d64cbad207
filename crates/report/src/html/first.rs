//! The first screen: for each run the answer, the figures that support it, what to do about it, and
//! how reliable it is.

use roundtrip_analysis::slow_calls::Kept;
use roundtrip_run::{Run, TESTS, Test};

use super::answer::inverted;
use super::compared::{self, Pair};
use super::figures::Figure;
use super::page::Page;
use super::subject::Subject;
use super::trust::trust;
use super::{advice, without};
use crate::explanation::sentence;
use crate::storage::{slow_writes, why};
use crate::text::quantity::duration;
use crate::{environment, explanation, kinds};

/// Adds the first screen.
pub(super) fn screen(page: &mut Page, subjects: &[Subject<'_>], pair: Option<&Pair<'_>>) {
    page.within("header", &[], |page| {
        page.element("p", &[("class", "brand")], "Roundtrip report");
        page.within("nav", &[("aria-label", "Contents")], |page| {
            for (id, name) in pair.map(|_| ("comparison", "Comparison")).into_iter().chain(contents(subjects))
            {
                page.element("a", &[("href", &format!("#{id}"))], name);
            }
        });
    });
    page.within("main", &[("class", if subjects.len() > 1 { "several" } else { "one" })], |page| {
        pair.iter().for_each(|pair| compared::pair(page, pair));
        for subject in subjects {
            page.within("section", &[("class", "answer"), ("aria-label", &subject.label)], |page| {
                of(page, subject)
            });
        }
    });
}

/// The page's sections: their ids and titles.
fn contents(subjects: &[Subject<'_>]) -> Vec<(&'static str, &'static str)> {
    let slow = subjects.iter().any(|one| Kept::of(one.analysed.run).is_some());
    let slow = slow.then_some(("slow-calls", "Slow calls"));
    slow.into_iter().chain(tests(subjects).map(|test| (test.name, test.title))).collect()
}

/// The tests that a run has.
pub(super) fn tests(subjects: &[Subject<'_>]) -> impl Iterator<Item = &'static Test> {
    let has =
        |name: &str, one: &Subject<'_>| one.analysed.run.results.parts().any(|part| part.test().name == name);
    TESTS.iter().filter(move |test| subjects.iter().any(|one| has(test.name, one)))
}

fn of(page: &mut Page, subject: &Subject<'_>) {
    let run = subject.analysed.run;
    page.within("p", &[("class", "run")], |page| {
        page.element("span", &[("class", "label")], &subject.label);
        if let Some((class, kind)) = kind(run) {
            page.element("span", &[("class", class)], &kind);
        }
    });
    page.element("h1", &[], &answer(subject));
    if let Some(kept) = Kept::of(run).filter(|_| !subject.explained.is_empty()) {
        page.paragraphs("lead", &explanation::summary::line(subject.explained, &kept));
    }
    if worst_write(subject).is_some() {
        page.paragraphs("lead", &kinds::answer(subject).unwrap_or_default());
    }
    page.within("div", &[("class", "figures")], |page| {
        for Figure { name, text, value, unit } in kinds::figures(subject) {
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
                page.paragraphs("about", &without::sentence(subject).unwrap_or_default());
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
    if let Some(changes) = environment::changes(&run.environment) {
        page.folded("Conditions that changed during the run", &changes);
    }
    lead(page, subject);
    page.paragraphs("machine", &environment::of_this_run(run));
    page.paragraphs("machine", &environment::header(&run.environment));
}

/// The answer in a sentence.
fn answer(subject: &Subject<'_>) -> String {
    if let Some(said) = worst_write(subject) {
        return said;
    }
    let Some(worst) = subject.explained.first() else {
        return kinds::answer(subject).unwrap_or_else(|| "The run has no figures.".to_owned());
    };
    let took = duration(worst.explanation.duration_ns() as f64);
    let what = sentence::answer(&worst.explanation);
    let inverted = inverted(&worst.explanation);
    let inversion =
        if inverted { " This is priority inversion: the caller is a real-time thread." } else { "" };
    format!("The slowest recorded call took {took}: {what}.{inversion}")
}

/// What delayed the slowest write of other programs, in a sentence; `None` for other runs.
fn worst_write(subject: &Subject<'_>) -> Option<String> {
    subject.analysed.run.results.observed_writes.as_ref().filter(|_| subject.explained.is_empty())?;
    let all = slow_writes::of(subject.analysed);
    let worst = all.first()?;
    let took = duration((worst.write.end_ns - worst.write.start_ns) as f64);
    Some(format!("The slowest recorded write took {took}: {}.", why::sentence(&worst.layers)))
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
    let text = kinds::summary(subject.analysed);
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
