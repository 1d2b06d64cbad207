//! Writes on the page: the time in each layer by size and writer, the study's three parts,
//! interrupts, and the slowest writes as lanes.

use roundtrip_analysis::storage::SeriesLayers;
use roundtrip_latency::Timeline;
use roundtrip_layers::storage::{Layer, SlowCall};
use roundtrip_run::storage::StorageResult;
use roundtrip_sorting::SmallSort as _;

use super::chart::Chart;
use super::over_time;
use super::page::Page;
use super::slow_writes::{self, Drawn};
use super::stacks::{Segment, Stack, Stacks};
use super::subject::Subject;
use super::{colours, each};
use crate::storage::study::parts::{PARTS, means_ns};
use crate::storage::{measured, strace, study, why};
use crate::text::look::Look;
use crate::text::quantity::{cpus_or_dash, duration, length, three_digits};
use crate::text::table::{Column, Table};

/// Adds the writes of all runs.
pub(crate) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        of_run(page, subject, subject.analysed.run.results.storage.as_ref()?);
        Some(())
    });
}

fn of_run(page: &mut Page, subject: &Subject<'_>, result: &StorageResult) {
    page.paragraphs("about", &measured::environment(&result.path));
    page.folded("Response times", &measured::response(result));
    for (index, writer) in result.writers.iter().enumerate() {
        let ours: Vec<_> = subject.analysed.layers.iter().filter(|one| one.series.writer == index).collect();
        if ours.is_empty() {
            continue;
        }
        let who = format!("{}, {}", writer.api, writer.durability);
        page.stacks(&by_layer(&who, &ours));
        page.folded(&format!("Means: {who}"), &measured::means(&ours));
        let (picture, table) = three_parts(&who, &ours);
        page.stacks(&picture);
        page.folded(&format!("Three parts: {who}"), &table);
        let study = ours.iter().find(|one| one.series.size_bytes == study::SIZE_BYTES);
        page.paragraphs("note", &study.and_then(|one| study::answer(&one.breakdown)).unwrap_or_default());
        let mut waits = String::new();
        measured::waits(&mut waits, &ours);
        page.paragraphs("note", &waits);
        for one in &ours {
            let size = length(one.series.size_bytes as usize);
            page.folded(
                &format!("Why writes of {size} did not move: {who}"),
                &why::table(&one.breakdown.reasons),
            );
        }
        page.element("h3", &[], &format!("Interrupts and completions: {who}"));
        page.table(&format!("Interrupts and completions: {who}"), &interrupts(&ours));
        let mut account = String::new();
        measured::boundaries(&mut account, &ours);
        page.paragraphs("note", &account);
        let mut straced = String::new();
        strace::strace(&mut straced, &ours, Look::PLAIN);
        page.block(&straced);
        slowest(page, &who, &ours);
        if let Some(chart) = over_time(&who, &ours) {
            page.chart(&chart);
        }
        let mut trust = String::new();
        measured::trust(&mut trust, &ours);
        page.paragraphs("note", &trust);
    }
    let not_possible = result.not_possible.iter().map(|reason| format!("Not possible: {reason}"));
    not_possible
        .chain(result.notes.iter().map(|note| format!("Note: {note}")))
        .for_each(|line| page.paragraphs("note", &line));
}

/// The writes of each size over the time of the run.
fn over_time(who: &str, ours: &[&SeriesLayers<'_>]) -> Option<Chart> {
    let calls = |index: usize| ours[index].series.blocks.iter().flat_map(|block| &block.calls);
    let start_ns = (0..ours.len()).flat_map(calls).map(|call| call.start_ns).min()?;
    let of_size = |(index, one): (usize, &&SeriesLayers<'_>)| {
        let mut timeline = Timeline::new(start_ns);
        calls(index).for_each(|call| timeline.record(call.start_ns, call.latency_ns(), false));
        let name = length(one.series.size_bytes as usize);
        over_time::Calls { name, timeline }
    };
    let calls: Vec<_> = ours.iter().enumerate().map(of_size).collect();
    over_time::chart(format!("Over the run: {who}"), &calls, &[], None)
}

/// The mean of each size, divided into layers.
fn by_layer(who: &str, ours: &[&SeriesLayers<'_>]) -> Stacks {
    let row = |one: &&SeriesLayers<'_>| {
        let breakdown = &one.breakdown;
        let mean_ns = breakdown.sum_ns as f64 / breakdown.calls.max(1) as f64;
        let parts = Layer::ALL.into_iter().flat_map(|layer| {
            let behind_ns = breakdown.behind_ns.get(&layer).map_or(0, |ns| *ns);
            let behind_ns = behind_ns as f64 / breakdown.calls.max(1) as f64;
            segments(layer, breakdown.mean_ns(layer), behind_ns, breakdown.share(layer))
        });
        Stack {
            label: length(one.series.size_bytes as usize),
            text: duration(mean_ns),
            parts: parts.collect(),
        }
    };
    Stacks {
        title: format!("What each layer takes of a write: {who}"),
        about: "Means over all calls; all bars of a chart have the same scale.".into(),
        rows: ours.iter().map(row).collect(),
    }
}

/// The mean time of a layer and how much of it is a wait for a CPU that another thread had, in
/// nanoseconds, and the layer's share of all time.
pub(super) fn segments(layer: Layer, mean_ns: f64, behind_ns: f64, share: f64) -> [Segment; 2] {
    let of = format!("{}: {} ({:.1}%)", layer.name(), duration(mean_ns), share * 100.0);
    let behind_ns = behind_ns.min(mean_ns);
    let segment = |colour, size, text| Segment { name: layer.name(), colour, size, text };
    [
        segment(colours::of_layer(layer), mean_ns - behind_ns, of.clone()),
        segment("behind", behind_ns, format!("{of}, of it {} behind other threads", duration(behind_ns))),
    ]
}

/// The interrupts and requests of a write, by size.
fn interrupts(ours: &[&SeriesLayers<'_>]) -> Table {
    let mut table = Table::new([
        Column::text("size"),
        Column::number("requests", "per write"),
        Column::number("flushes", "per write"),
        Column::number("device interrupts", "per write"),
        Column::number("each takes", ""),
        Column::number("on CPU", ""),
        Column::number("interrupts between CPUs", "per write"),
        Column::number("completed on another CPU", "requests"),
        Column::number("of", "requests"),
    ]);
    for SeriesLayers { series, breakdown } in ours {
        let per_call = |count: u64| three_digits(count as f64 / breakdown.calls.max(1) as f64);
        let controller = &breakdown.controller_interrupts;
        table.row([
            length(series.size_bytes as usize),
            per_call(breakdown.requests),
            per_call(breakdown.flushes),
            per_call(controller.count.into()),
            duration(controller.handled_ns as f64 / f64::from(controller.count.max(1))),
            cpus_or_dash(breakdown.interrupt_cpus.keys()),
            per_call(breakdown.cpu_interrupts.count.into()),
            breakdown.completed_elsewhere.to_string(),
            (breakdown.requests + breakdown.flushes).to_string(),
        ]);
    }
    table
}

/// Platform, kernel and device, as in the study of 2012, without the waits for a CPU in them. Those
/// and unexplained time are shown separately.
fn three_parts(who: &str, ours: &[&SeriesLayers<'_>]) -> (Stacks, Table) {
    let shares = |one: &SeriesLayers<'_>| {
        let mean_ns = one.breakdown.sum_ns as f64 / one.breakdown.calls.max(1) as f64;
        means_ns(&one.breakdown).map(|ns| ns * 100.0 / mean_ns.max(1.0))
    };
    let mut table =
        Table::new([Column::text("size")].into_iter().chain(PARTS.map(|part| Column::number(part, "%"))));
    let mut rows = Vec::new();
    for one in ours {
        let size = length(one.series.size_bytes as usize);
        let shares = shares(one);
        table.row([size.clone()].into_iter().chain(shares.map(|share| format!("{share:.1}"))));
        let parts = PARTS.into_iter().zip(colours::OF_PARTS).zip(shares).map(|((name, colour), size)| {
            Segment { name, colour, size, text: format!("{name}: {size:.1}%") }
        });
        let [platform, kernel, device, contention, _] = shares;
        let waits = if contention < 0.05 { String::new() } else { format!(", contention {contention:.1}%") };
        let text = format!("platform {platform:.1}%, kernel {kernel:.1}%, device {device:.1}%{waits}");
        rows.push(Stack { label: size, text, parts: parts.collect() });
    }
    let stacks = Stacks {
        title: format!("Platform, kernel and device: {who}"),
        about: "Shares of the total time: outside the system calls, in the kernel, in the device. Contention: waits \
                for a CPU that other threads had, in any of them."
            .into(),
        rows,
    };
    (stacks, table)
}

/// The slowest writes, slowest first.
fn slowest(page: &mut Page, who: &str, ours: &[&SeriesLayers<'_>]) {
    let mut calls: Vec<(&SeriesLayers<'_>, &SlowCall)> =
        ours.iter().flat_map(|one| one.breakdown.slowest.iter().map(move |slow| (*one, slow))).collect();
    calls.small_sort_by_key(|(_, slow)| std::cmp::Reverse(slow.write.end_ns - slow.write.start_ns));
    let drawn = calls.into_iter().map(|(one, slow)| Drawn {
        heading: measured::slow_heading(one.series.size_bytes, slow),
        lines: vec![measured::slow_layers(slow)],
        write: slow.write,
        layers: &slow.layers,
    });
    slow_writes::draw(page, &format!("The slowest writes: {who}"), &drawn.collect::<Vec<_>>());
}
