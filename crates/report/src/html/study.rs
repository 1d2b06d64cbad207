//! Figures 4 to 6 of the study of 2012 on the page: the parts of a write by size, and the responses
//! of the application and of the device, alone and beside a CPU-bound process.

use roundtrip_latency::Interval;

use super::chart::{Axis, Chart, Kind, Line, Scale, durations};
use super::colours;
use super::page::Page;
use super::stacks::{Segment, Stack, Stacks};
use crate::storage::study::figures::{Figures, Of};
use crate::storage::study::parts::PARTS;
use crate::text::quantity::{duration, length};

/// Adds the figures of each writer.
pub(super) fn section(page: &mut Page, all: &[Figures<'_>]) {
    for figures in all {
        page.stacks(&by_size(figures));
        page.folded(&format!("A write alone, by size: {}", figures.who), &figures.by_size());
        for (of, whose) in [(Of::Application, "application"), (Of::Device, "device")] {
            if let Some(chart) = responses(figures, of, whose) {
                page.chart(&chart);
            }
        }
        page.paragraphs("note", "Is what the study of 2012 found so here?");
        figures.claims().iter().for_each(|line| page.paragraphs("note", line));
    }
}

/// Figure 4.
fn by_size(figures: &Figures<'_>) -> Stacks {
    let row = |size: &crate::storage::study::figures::Size<'_>| {
        let means_ns = size.parts_ns()?;
        let parts = PARTS.into_iter().zip(colours::OF_PARTS).zip(means_ns);
        let parts = parts.map(|((name, colour), ns)| {
            let text = format!("{name}: {}", duration(ns));
            Segment { name, colour, size: ns, text }
        });
        let text = duration(means_ns.iter().sum());
        Some(Stack { label: size.name(), text, parts: parts.collect() })
    };
    Stacks {
        title: format!("A write alone, by size: {} (figure 4 of the study of 2012)", figures.who),
        about: "Means. Contention: waits for a CPU that other threads had, in any of the parts.".into(),
        rows: figures.sizes.iter().filter_map(row).collect(),
    }
}

/// Figures 5 and 6; `None` if no size has a figure.
fn responses(figures: &Figures<'_>, of: Of, whose: &str) -> Option<Chart> {
    let beside = format!("beside {}", figures.beside());
    let names = ["alone", beside.as_str()];
    let mut lines: Vec<Line> = names.map(|name| Line { label: name.to_owned(), ..Line::default() }).into();
    let interval = |name| Line { label: format!("{name}: 95% interval"), apart: true, ..Line::default() };
    lines.extend(names.map(interval));
    let (mut low_ns, mut high_ns) = (f64::INFINITY, 0.0_f64);
    for size in &figures.sizes {
        let Some(medians) = size.medians_ns(of) else { continue };
        for (index, (median_ns, interval)) in medians.into_iter().enumerate() {
            let Interval { low, high, .. } =
                interval.unwrap_or(Interval { low: median_ns, high: median_ns, coverage: 0.0 });
            let bytes = size.bytes() as f64;
            let text = |ns: f64| format!("{}, {}: {}", size.name(), names[index], duration(ns));
            lines[index].points.push((bytes, median_ns, text(median_ns)));
            if interval.is_some() {
                lines[index + names.len()].points.extend([low, high].map(|ns| (bytes, ns, text(ns))));
            }
            (low_ns, high_ns) = (low_ns.min(low), high_ns.max(high));
        }
    }
    let figure = if of == Of::Application { 5 } else { 6 };
    let ticks = figures.sizes.iter().map(|size| (size.bytes() as f64, length(size.bytes() as usize), 0));
    (high_ns > 0.0).then(|| Chart {
        title: format!("The {whose}'s response by size: {} (figure {figure} of the study)", figures.who),
        about: "Medians of the rounds' medians.".into(),
        kind: Kind::Lines,
        x: Axis { label: "size".into(), scale: Scale::Log, ticks: ticks.collect() },
        y: durations("response", low_ns, high_ns),
        lines,
        widest: None,
        marks: Vec::new(),
        levels: Vec::new(),
        table: figures.responses(),
    })
}
