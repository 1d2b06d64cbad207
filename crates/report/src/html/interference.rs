//! Writes with background load on the page: the ratio of each condition as an interval, compared
//! with the effect of chance on a writer without background load.

use roundtrip_analysis::interference::Explained;
use roundtrip_latency::Comparison;
use roundtrip_run::storage::interference::{Condition, InterferenceResult};

use super::bars::{Range, Ranges, Scale};
use super::each;
use super::page::Page;
use super::study;
use super::subject::Subject;
use crate::storage::interference;
use crate::storage::study::figures;

/// Adds the comparisons of all runs.
pub(crate) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        of_run(page, &subject.analysed.beside, subject.analysed.run.results.interference.as_ref()?);
        Some(())
    });
}

fn of_run(page: &mut Page, explained: &[Explained<'_>], result: &InterferenceResult) {
    page.paragraphs("about", &interference::environment(result));
    study::section(page, &figures::of(result, explained));
    for (who, ours) in interference::groups(result, explained) {
        page.within("div", &[("class", "pair")], |page| {
            page.ranges(&ratios(&format!("The application's response: {who}"), &ours, |one| {
                one.beside.response()
            }));
            page.ranges(&ratios(&format!("The device's response: {who}"), &ours, |one| one.device()));
        });
        page.folded(&format!("Responses: {who}"), &interference::responses(&ours));
        let (table, notes) = interference::reasons(result, &ours);
        page.folded(&format!("What explains a difference: {who}"), &table);
        page.paragraphs("note", &notes);
        interference::study(&ours).iter().for_each(|line| page.paragraphs("note", line));
        let mut trust = String::new();
        interference::trust(&mut trust, &ours);
        page.folded_notes(&format!("How far each figure can be trusted: {who}"), &trust);
    }
    let mut legend = String::new();
    interference::legend(&mut legend, result, explained);
    page.paragraphs("note", &legend);
}

/// The ratio of the writer with each condition to the writer without it.
fn ratios(title: &str, ours: &[&Explained<'_>], of: impl Fn(&Explained<'_>) -> Option<Comparison>) -> Ranges {
    let mut chance = None;
    let mut rows = Vec::new();
    for one in ours {
        let Some(found) = of(one) else { continue };
        let interval = found.interval.map(|interval| (interval.low, interval.high));
        if one.beside.condition == Condition::Alone {
            chance = interval;
        }
        let within = interval.map_or_else(
            || "too few rounds for an interval".to_owned(),
            |(low, high)| format!("{low:.2}-{high:.2}"),
        );
        let text = format!("{:.3} ({within})", found.median);
        rows.push(Range {
            label: one.beside.condition.name().to_owned(),
            points: vec![(found.median, text.clone())],
            text,
            whole: None,
            most: interval,
        });
    }
    let all = || {
        rows.iter().flat_map(|row| {
            row.most
                .into_iter()
                .flat_map(|(low, high)| [low, high])
                .chain(row.points.iter().map(|point| point.0))
        })
    };
    let (low, high) = all().fold((1.0_f64, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let ticks = super::chart::round_ticks(low, high, |value| format!("{value:.2}"));
    Ranges {
        title: title.to_owned(),
        scale: Scale::Linear,
        rows,
        marks: vec![(1.0, "as alone".into())],
        chance,
        ticks: ticks.into_iter().filter(|tick| tick.2 == 0).map(|(value, text, _)| (value, text)).collect(),
    }
}
