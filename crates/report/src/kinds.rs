//! What each test shows in its own way, looked up by the test's name. What all tests have in common
//! is made from their descriptions and groups ([`roundtrip_run::Tested`]).

use roundtrip_analysis::Analysed;
use roundtrip_run::{Results, Tested};

use crate::html::page::Page;
use crate::html::{
    answer, figures, interference, latency, observed_writes, others, storage, subject::Subject,
};
use crate::ipc::{self, traits, workers};
use crate::storage as writes;
use crate::summary;
use crate::text::look::Look;

/// The parts of a report that are a test's own. A function returns `None` if the run has no such
/// part.
pub(crate) struct View {
    /// The test's name.
    pub(crate) test: &'static str,
    /// Its tables and notes for a terminal.
    pub(crate) tables: fn(&Analysed<'_>, Look) -> Option<String>,
    /// Its paragraph of the summary.
    pub(crate) summary: fn(&Analysed<'_>) -> Option<String>,
    /// The page's answer in a sentence.
    pub(crate) answer: fn(&Subject<'_>) -> Option<String>,
    /// The figures that support the answer.
    pub(crate) figures: fn(&Subject<'_>) -> Vec<figures::Figure>,
    /// Its section of the page, without the heading.
    pub(crate) section: fn(&mut Page, &[Subject<'_>]),
}

/// One for each test.
const VIEWS: [View; 10] = [
    View {
        test: "latency",
        tables: |of, look| Some(ipc::latency::tables(of.run.results.latency.as_ref()?, look)),
        summary: |of| Some(summary::latency(of.run.results.latency.as_ref()?)),
        answer: answer::latency,
        figures: figures::latency,
        section: latency::section,
    },
    View {
        test: "throughput",
        tables: |of, look| Some(ipc::throughput::tables(of.run.results.throughput.as_ref()?, look)),
        summary: |of| Some(summary::throughput(of.run.results.throughput.as_ref()?)),
        answer: answer::throughput,
        figures: figures::throughput,
        section: others::throughput,
    },
    View {
        test: "baseline",
        tables: |of, look| Some(ipc::baseline::tables(of.run.results.baseline.as_ref()?, look)),
        summary: |of| Some(summary::baseline(of.run.results.baseline.as_ref()?)),
        answer: answer::baseline,
        figures: figures::baseline,
        section: others::baseline,
    },
    View {
        test: "workers",
        tables: |of, look| Some(workers::table(of.run.results.workers.as_ref()?, look)),
        summary: |of| Some(summary::workers(of.run.results.workers.as_ref()?)),
        answer: answer::workers,
        figures: figures::workers,
        section: others::workers,
    },
    View {
        test: "observed_calls",
        tables: |of, look| Some(ipc::observed_calls::tables(of.run.results.observed_calls.as_ref()?, look)),
        summary: |of| Some(summary::observed_calls(of.run.results.observed_calls.as_ref()?)),
        answer: answer::observed_calls,
        figures: figures::observed_calls,
        section: others::observed_calls,
    },
    View {
        test: "observed_writes",
        tables: |of, look| {
            let result = of.run.results.observed_writes.as_ref()?;
            Some(writes::observed_writes::tables(result, &of.slow_writes, look))
        },
        summary: |of| Some(summary::observed_writes(of.run.results.observed_writes.as_ref()?)),
        answer: answer::observed_writes,
        figures: figures::observed_writes,
        section: observed_writes::section,
    },
    View {
        test: "system_calls",
        tables: |of, look| Some(writes::system_calls::tables(of.run.results.system_calls.as_ref()?, look)),
        summary: |of| Some(summary::system_calls(of.run.results.system_calls.as_ref()?)),
        answer: answer::system_calls,
        figures: |_| Vec::new(),
        section: others::system_calls,
    },
    View {
        test: "traits",
        tables: |of, look| Some(traits::table(of.run.results.traits.as_ref()?, look)),
        summary: |_| None,
        answer: answer::traits,
        figures: |_| Vec::new(),
        section: others::traits,
    },
    View {
        test: "storage",
        tables: |of, look| Some(writes::measured::page(of.run.results.storage.as_ref()?, &of.layers, look)),
        summary: |of| Some(summary::storage(of.run.results.storage.as_ref()?, &of.layers)),
        answer: answer::storage,
        figures: figures::storage,
        section: storage::section,
    },
    View {
        test: "interference",
        tables: |of, look| {
            let result = of.run.results.interference.as_ref()?;
            let of_study = writes::study::figures::text(result, &of.beside, look);
            Some(of_study + &writes::interference::page(result, &of.beside, look))
        },
        summary: |of| summary::interference(&of.beside),
        answer: answer::interference,
        figures: figures::interference,
        section: interference::section,
    },
];

/// How a test is shown.
pub(crate) fn view(test: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.test == test)
}

/// How the tests of a run are shown, in the order of reports.
pub(crate) fn of(results: &Results) -> impl Iterator<Item = (&dyn Tested, &'static View)> {
    results.parts().filter_map(|part| Some((part, view(part.test().name)?)))
}

/// A paragraph for each test of the run.
pub(crate) fn summary(analysed: &Analysed<'_>) -> String {
    let all = of(&analysed.run.results).filter_map(|(_, view)| (view.summary)(analysed));
    all.collect::<Vec<_>>().join("\n")
}

/// The page's answer: that of the first test that has one.
pub(crate) fn answer(subject: &Subject<'_>) -> Option<String> {
    of(&subject.analysed.run.results).find_map(|(_, view)| (view.answer)(subject))
}

/// The three figures that support the answer: those of the first test that has some.
pub(crate) fn figures(subject: &Subject<'_>) -> Vec<figures::Figure> {
    let mut each = of(&subject.analysed.run.results).map(|(_, view)| (view.figures)(subject));
    let mut all = each.find(|figures| !figures.is_empty()).unwrap_or_default();
    all.truncate(3);
    all
}

#[cfg(test)]
mod tests;
