//! The slow calls of a latency test on the page: when they were made, and each as lanes with its
//! explanation, slowest first, grouped by cause.

use std::collections::BTreeMap;

use roundtrip_analysis::slow_calls::{Explained, Kept};

use super::chart::{Axis, Chart, Kind, Line, durations, round_ticks, short_duration};
use super::lanes;
use super::page::Page;
use super::subject::Subject;
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
            of_run(page, subject, &kept);
        }
    });
}

fn of_run(page: &mut Page, subject: &Subject<'_>, kept: &Kept) {
    let explained = subject.explained;
    if explained.is_empty() {
        page.paragraphs("about", &summary::line(explained, kept));
        return;
    }
    if explained.len() > 1 {
        page.chart(&over_time(explained, kept));
    }
    page.folded("What delayed them, by cause", &summary::table(explained, kept));
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

/// When slow calls were made, with the cause of each.
fn over_time(explained: &[Explained], kept: &Kept) -> Chart {
    let from_ns = explained.iter().map(start).min().unwrap_or(0);
    let to_ns = explained.iter().map(start).max().unwrap_or(0);
    let (low, high) = explained
        .iter()
        .map(took)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
    let deadline_ns = kept.deadline_ns as f64;
    let mut levels = vec![(deadline_ns, format!("deadline {}", short_duration(deadline_ns)))];
    // Calls of several groups have no common median.
    let mut usual: Vec<u64> = explained.iter().filter_map(|one| one.call.trip.usual_ns).collect();
    usual.sort_unstable();
    usual.dedup();
    let usual = usual.first().filter(|_| usual.len() == 1).map(|&ns| ns as f64);
    levels.extend(usual.map(|ns| (ns, format!("usual {}", duration(ns)))));
    let ends = || levels.iter().map(|level| level.0);
    let (low, high) = (ends().fold(low, f64::min), ends().fold(high, f64::max));
    Chart {
        title: "The run over time: its slow calls".into(),
        about: "Time starts at the first kept slow call. Usual calls are not kept.".into(),
        kind: Kind::Points,
        x: Axis {
            label: "time since the first slow call".into(),
            scale: super::chart::Scale::Linear,
            ticks: round_ticks(0.0, (to_ns - from_ns) as f64, short_duration),
        },
        y: durations("latency", low, high),
        lines: by_cause(explained, from_ns),
        widest: None,
        marks: Vec::new(),
        levels,
        table: table(explained, from_ns),
    }
}

fn start(one: &Explained) -> u64 {
    one.explanation.start_ns
}

fn took(one: &Explained) -> f64 {
    one.explanation.duration_ns() as f64
}

/// A line of points for each cause.
fn by_cause(explained: &[Explained], from_ns: u64) -> Vec<Line> {
    let mut by_cause: BTreeMap<String, Vec<&Explained>> = BTreeMap::new();
    for one in explained {
        by_cause.entry(summary::cause_of(one)).or_default().push(one);
    }
    let lines = by_cause.into_iter().map(|(label, mut calls)| {
        calls.sort_by_key(|one| start(one));
        let points = calls.iter().map(|one| {
            let at = (start(one) - from_ns) as f64;
            let text = format!("slow call {} at {}: {}", one.call.number, duration(at), duration(took(one)));
            (at, took(one), text)
        });
        Line { points: points.collect(), label, apart: false }
    });
    lines.collect()
}

fn table(explained: &[Explained], from_ns: u64) -> Table {
    let mut table = Table::new([
        Column::number("slow call", ""),
        Column::number("at", ""),
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
