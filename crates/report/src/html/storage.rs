//! Writes on the page: the time in each layer by size and writer, the study's three parts,
//! interrupts, and the slowest writes as lanes.

use ::latency::Timeline;
use analysis::storage::SeriesLayers;
use layers::storage::{Layer, SlowCall};
use run::storage::StorageResult;

use super::chart::Chart;
use super::lanes::{Lane, Stretch};
use super::over_time;
use super::page::Page;
use super::stacks::{Stack, Stacks};
use super::subject::Subject;
use crate::look::Look;
use crate::quantity::{cpus_or_dash, duration, length, three_digits};
use crate::table::{Column, Table};
use crate::{storage, storage_strace, storage_study};

/// Adds the writes of all runs that have some.
pub(super) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    let ours: Vec<_> =
        subjects.iter().filter_map(|one| Some((one, one.run.results.storage.as_ref()?))).collect();
    if ours.is_empty() {
        return;
    }
    page.within("section", &[("id", "writes")], |page| {
        page.element("h2", &[], "Synchronous writes");
        for (subject, result) in ours {
            if subjects.len() > 1 {
                page.element("h3", &[], &subject.label);
            }
            of_run(page, subject, result);
        }
    });
}

fn of_run(page: &mut Page, subject: &Subject<'_>, result: &StorageResult) {
    page.paragraphs("about", &storage::environment(&result.path));
    page.folded("Response times", &storage::response(result));
    for (index, writer) in result.writers.iter().enumerate() {
        let ours: Vec<_> = subject.layers.iter().filter(|one| one.series.writer == index).collect();
        if ours.is_empty() {
            continue;
        }
        let who = format!("{}, {}", writer.api, writer.durability);
        page.stacks(&by_layer(&who, &ours));
        page.folded(&format!("Means: {who}"), &storage::means(&ours));
        let (picture, table) = three_parts(&who, &ours);
        page.stacks(&picture);
        page.folded(&format!("Three parts: {who}"), &table);
        let study = ours.iter().find(|one| one.series.size_bytes == storage_study::SIZE_BYTES);
        page.paragraphs("note", &study.map(|one| storage_study::line(&one.breakdown)).unwrap_or_default());
        page.element("h3", &[], &format!("Interrupts and completions: {who}"));
        page.table(&format!("Interrupts and completions: {who}"), &interrupts(&ours));
        let mut account = String::new();
        storage::boundaries(&mut account, &ours);
        page.paragraphs("note", &account);
        let mut straced = String::new();
        storage_strace::strace(&mut straced, &ours, Look::PLAIN);
        page.block(&straced);
        slowest(page, &who, &ours);
        if let Some(chart) = over_time(&who, &ours) {
            page.chart(&chart);
        }
        let mut trust = String::new();
        storage::trust(&mut trust, &ours);
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
    over_time::chart(format!("Over the run: {who}"), &calls, None)
}

/// The mean of each size, divided into layers.
fn by_layer(who: &str, ours: &[&SeriesLayers<'_>]) -> Stacks {
    let row = |one: &&SeriesLayers<'_>| {
        let breakdown = &one.breakdown;
        let mean_ns = breakdown.sum_ns as f64 / breakdown.calls.max(1) as f64;
        let parts = Layer::ALL.into_iter().map(|layer| {
            let ns = breakdown.mean_ns(layer);
            (
                layer.name(),
                ns,
                format!("{}: {} ({:.1}%)", layer.name(), duration(ns), breakdown.share(layer) * 100.0),
            )
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
        legend: storage::used(ours).into_iter().map(Layer::name).collect(),
        rows: ours.iter().map(row).collect(),
    }
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

/// Platform, kernel and device, as in the study of 2012. Unexplained time is shown separately.
fn three_parts(who: &str, ours: &[&SeriesLayers<'_>]) -> (Stacks, Table) {
    const PARTS: [&str; 4] = ["platform", "kernel", "device", "unexplained"];
    let shares = |one: &SeriesLayers<'_>| {
        let of = |layer| one.breakdown.share(layer) * 100.0;
        let [platform, device, unexplained] = [Layer::Platform, Layer::Device, Layer::Unexplained].map(of);
        [platform, 100.0 - platform - device - unexplained, device, unexplained]
    };
    let mut table =
        Table::new([Column::text("size")].into_iter().chain(PARTS.map(|part| Column::number(part, "%"))));
    let mut rows = Vec::new();
    for one in ours {
        let size = length(one.series.size_bytes as usize);
        let shares = shares(one);
        table.row([size.clone()].into_iter().chain(shares.map(|share| format!("{share:.1}"))));
        let parts =
            PARTS.into_iter().zip(shares).map(|(part, share)| (part, share, format!("{part}: {share:.1}%")));
        let text = format!("platform {:.1}%, kernel {:.1}%, device {:.1}%", shares[0], shares[1], shares[2]);
        rows.push(Stack { label: size, text, parts: parts.collect() });
    }
    let stacks = Stacks {
        title: format!("Platform, kernel and device: {who}"),
        about: "Shares of the total time: outside the system calls, in the kernel, in the device.".into(),
        legend: PARTS.to_vec(),
        rows,
    };
    (stacks, table)
}

/// The layers of each lane.
const LANES: [(&str, &[Layer]); 5] = [
    ("application", &[Layer::Platform, Layer::Fs, Layer::Preempted]),
    ("helper", &[Layer::Helper, Layer::Stolen]),
    ("block layer", &[Layer::Held, Layer::Block, Layer::Irq, Layer::Wake]),
    ("device", &[Layer::Device]),
    ("unexplained", &[Layer::Unexplained]),
];

/// The slowest writes, slowest first.
fn slowest(page: &mut Page, who: &str, ours: &[&SeriesLayers<'_>]) {
    let mut calls: Vec<(&SeriesLayers<'_>, &SlowCall)> =
        ours.iter().flat_map(|one| one.breakdown.slowest.iter().map(move |slow| (*one, slow))).collect();
    if calls.is_empty() {
        return;
    }
    calls.sort_by_key(|(_, slow)| std::cmp::Reverse(slow.write.end_ns - slow.write.start_ns));
    page.element("h3", &[], &format!("The slowest writes: {who}"));
    page.swatches(
        &storage::used(ours).into_iter().map(|layer| (layer.name(), layer.name())).collect::<Vec<_>>(),
    );
    for (index, (one, slow)) in calls.into_iter().enumerate() {
        let SlowCall { write, layers } = slow;
        let length_ns = write.end_ns - write.start_ns;
        let heading = storage::slow_line(one.series.size_bytes, slow);
        let attributes: &[(&str, &str)] =
            if index == 0 { &[("class", "call"), ("open", "")] } else { &[("class", "call")] };
        let mut table =
            Table::new([Column::number("at", ""), Column::number("for", ""), Column::text("layer")]);
        for piece in &layers.pieces {
            let [at, took] = [piece.begin_ns - write.start_ns, piece.end_ns - piece.begin_ns];
            table.row([duration(at as f64), duration(took as f64), piece.layer.name().to_owned()]);
        }
        let lane = |(name, of): (&str, &[Layer])| Lane {
            name: name.to_owned(),
            stretches: layers
                .pieces
                .iter()
                .filter(|piece| of.contains(&piece.layer))
                .map(|piece| Stretch {
                    begin_ns: piece.begin_ns - write.start_ns,
                    end_ns: piece.end_ns - write.start_ns,
                    class: piece.layer.name(),
                    words: piece.layer.name().to_owned(),
                })
                .collect(),
        };
        let lanes: Vec<Lane> =
            LANES.into_iter().map(lane).filter(|lane| !lane.stretches.is_empty()).collect();
        page.within("details", attributes, |page| {
            page.element("summary", &[], &heading);
            page.lanes(&heading, length_ns, &lanes);
            page.folded(&format!("Its pieces: {heading}"), &table);
        });
    }
}
