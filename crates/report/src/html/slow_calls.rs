//! The slow calls of a latency test on the page: when they were made, and each as lanes with its
//! explanation, slowest first, grouped by cause.

use roundtrip_analysis::slow_calls::{Explained, Kept};

use super::chart::Chart;
use super::page::Page;
use super::subject::Subject;
use super::{lanes, others, without};
use crate::explanation;
use crate::explanation::{sentence, summary};
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The maximum number of a run's calls that are drawn. The table shows the causes of all others.
const DRAWN: usize = 40;

/// If the page is longer than this, in bytes, no further call is drawn. With its data, the page
/// stays below twice this size.
const LONGEST: usize = 2_000_000;

/// Adds the slow calls of every run that explains some.
pub(super) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    let ours: Vec<_> = subjects.iter().filter_map(|one| Some((one, Kept::of(one.analysed.run)?))).collect();
    if ours.is_empty() {
        return;
    }
    page.within("section", &[("id", "slow-calls")], |page| {
        page.element("h2", &[], "Slow calls");
        for (subject, kept) in ours {
            if subjects.len() > 1 {
                page.element("h3", &[], &subject.label);
            }
            of_run(page, subject, subjects.len(), &kept);
        }
    });
}

fn of_run(page: &mut Page, subject: &Subject<'_>, runs: usize, kept: &Kept) {
    let explained = subject.explained;
    if explained.is_empty() {
        page.paragraphs("about", &summary::line(explained, kept));
        return;
    }
    charts(subject, runs).iter().for_each(|chart| page.chart(chart));
    page.table("What delayed them, by cause", &summary::table(explained, kept));
    without::section(page, &summary::left(explained, kept), "calls");
    page.folded("All slow calls as a table", &table(explained));
    page.lanes_legend();
    // The group with the slowest call comes first.
    let mut groups: Vec<(String, Vec<&Explained>)> = Vec::new();
    for one in explained {
        let cause = summary::cause_of(one);
        match groups.iter_mut().find(|(name, _)| *name == cause) {
            Some((_, calls)) => calls.push(one),
            None => groups.push((cause, vec![one])),
        }
    }
    let mut drawn = 0;
    for (cause, calls) in groups {
        let count = if calls.len() == 1 { "1 call".to_owned() } else { format!("{} calls", calls.len()) };
        page.element("h3", &[("class", "cause")], &format!("{count}: {cause}"));
        for one in calls {
            if drawn == DRAWN || page.length() > LONGEST {
                break;
            }
            call(page, one, drawn == 0);
            drawn += 1;
        }
    }
    if drawn < explained.len() {
        let more = explained.len() - drawn;
        page.paragraphs(
            "note",
            &format!("{more} more are not drawn; the table above names what delayed them."),
        );
    }
    page.paragraphs("note", &explanation::over_limit(kept).unwrap_or_default());
}

/// One call. The slowest one is expanded, and the others are collapsed.
fn call(page: &mut Page, one: &Explained, open: bool) {
    let heading = explanation::heading(one);
    let attributes: &[(&str, &str)] =
        if open { &[("class", "call"), ("open", "")] } else { &[("class", "call")] };
    page.within("details", attributes, |page| {
        page.within("summary", &[], |page| {
            page.element("span", &[], &heading);
            page.element("span", &[("class", "verdict")], &sentence::answer(&one.explanation));
        });
        explanation::besides(one).iter().for_each(|line| page.paragraphs("about", line));
        let lanes = lanes::of_call(&one.explanation, explanation::state_text);
        page.lanes(&heading, one.explanation.duration_ns(), &lanes);
        page.paragraphs("about", &explanation::threads(&one.explanation).unwrap_or_default());
        page.folded(
            &format!("The parts of slow call {}", one.call.number),
            &explanation::parts_table(&one.explanation),
        );
    });
}

/// The charts of a run with slow calls over time: one for each series.
fn charts(subject: &Subject<'_>, runs: usize) -> Vec<Chart> {
    if subject.analysed.run.results.latency.is_some() {
        return super::latency::over_time(subject, runs);
    }
    others::over_time(subject, runs).into_iter().collect()
}

fn start(one: &Explained) -> u64 {
    one.explanation.start_ns
}

fn took(one: &Explained) -> f64 {
    one.explanation.duration_ns() as f64
}

fn table(explained: &[Explained]) -> Table {
    let from_ns = explained.iter().map(start).min().unwrap_or(0);
    let mut table = Table::new([
        Column::number("slow call", ""),
        Column::number("since the first", ""),
        Column::number("took", ""),
        Column::text("whose"),
        Column::text("what delayed it"),
    ]);
    for one in explained {
        table.row([
            one.call.number.to_string(),
            duration((start(one) - from_ns) as f64),
            duration(took(one)),
            one.call.what.clone(),
            sentence::answer(&one.explanation),
        ]);
    }
    table
}
