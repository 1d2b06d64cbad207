//! A storage measurement as text: the path to the device, response times, and the time of each
//! layer as tables and bars. Pure: results in, text out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roundtrip_layers::storage::{Breakdown, Layer, SlowCall};
use roundtrip_run::storage::{Device, StoragePath, StorageResult, StorageSeries};

use crate::storage::strace::strace;
use crate::storage::{study, why, words};
use crate::text::look::Look;
use crate::text::quantity::{cpus_or_dash, duration, length, three_digits};
use crate::text::table::{Column, Table};
use roundtrip_analysis::storage::SeriesLayers;

/// The width of a bar, in characters.
const BAR: usize = 60;

/// The letter of each layer in a bar.
fn letter(layer: Layer) -> char {
    match layer {
        Layer::Device => 'D',
        Layer::Irq => 'i',
        Layer::Block => 'b',
        Layer::Held => 'x',
        Layer::Wake => 'w',
        Layer::Helper => 'h',
        Layer::Stolen => 's',
        Layer::Fs => 'f',
        Layer::Preempted => 'r',
        Layer::Platform => 'p',
        Layer::Unexplained => '?',
    }
}

/// Everything that a terminal shows.
#[must_use]
pub fn page(result: &StorageResult, layers: &[SeriesLayers<'_>], look: Look) -> String {
    let mut out = environment(&result.path);
    out.push('\n');
    if layers.is_empty() {
        out.push_str(&response(result).render(look));
    }
    for (index, writer) in result.writers.iter().enumerate() {
        let ours: Vec<_> = layers.iter().filter(|one| one.series.writer == index).collect();
        if ours.is_empty() {
            continue;
        }
        let runtime = writer.opened.runtime.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let _ = writeln!(out, "{}, {}{runtime}", writer.api, writer.durability);
        out.push_str(&means(&ours).render(look));
        out.push('\n');
        bars(&mut out, &ours);
        out.push('\n');
        waits(&mut out, &ours);
        interrupts(&mut out, &ours);
        boundaries(&mut out, &ours);
        strace(&mut out, &ours, look);
        let size = |one: &&&SeriesLayers<'_>| one.series.size_bytes == study::SIZE_BYTES;
        out.extend(
            ours.iter().find(size).and_then(|one| study::answer(&one.breakdown)).map(|line| line + "\n"),
        );
        slowest(&mut out, &ours);
        trust(&mut out, &ours);
        out.push('\n');
    }
    for reason in &result.not_possible {
        let _ = writeln!(out, "Not possible: {reason}");
    }
    for note in &result.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

/// The path from the file to the device, like the study's first table.
#[must_use]
pub fn environment(path: &StoragePath) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} on {} ({})", path.file_system, path.mount_point, path.mount_options);
    if let Some(device) = &path.device {
        device_lines(&mut out, device, 1);
    }
    for missing in &path.missing {
        let _ = writeln!(out, "not known: {missing}");
    }
    out
}

fn device_lines(out: &mut String, device: &Device, depth: usize) {
    let facts = [
        device.model.clone(),
        device.size_bytes.map(|bytes| format!("{} GB", three_digits(bytes as f64 / 1e9))),
        device.backing_file.as_ref().map(|file| format!("file {file}")),
        device.rotational.filter(|&rotational| rotational).map(|_| "reports itself as rotational".to_owned()),
        device.scheduler.as_ref().map(|name| format!("scheduler {name}")),
        device.queues.map(|queues| format!("{queues} hardware queue{}", if queues == 1 { "" } else { "s" })),
        device.nr_requests.map(|requests| format!("{requests} requests deep")),
        device.write_cache.as_ref().map(|kind| {
            let fua = if device.fua == Some(true) { ", FUA" } else { "" };
            format!("cache {kind}{fua}")
        }),
        device.rq_affinity.map(|affinity| format!("rq_affinity {affinity}")),
        device.io_poll.filter(|&poll| poll).map(|_| "can be polled".to_owned()),
        (!device.paths.is_empty()).then(|| format!("reached through {}", device.paths.join(", "))),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    let indent = "  ".repeat(depth);
    let _ = writeln!(out, "{indent}{} ({}): {}", device.name, device.bus.name(), facts.join(", "));
    for interrupt in &device.interrupts {
        let cpus = interrupt.cpus.as_ref().map(|cpus| format!(" on CPU {cpus}")).unwrap_or_default();
        let _ = writeln!(out, "{indent}  interrupt {} {}{cpus}", interrupt.irq, interrupt.name);
    }
    device.below.iter().for_each(|below| device_lines(out, below, depth + 1));
}

/// The application's response times, if nothing else is known.
pub(crate) fn response(result: &StorageResult) -> Table {
    let mut table = Table::new([
        Column::text("writer"),
        Column::text("durability"),
        Column::number("size", ""),
        Column::number("calls", ""),
        Column::number("p50", "us"),
        Column::number("p99", "us"),
        Column::number("max", "us"),
    ]);
    for series in &result.series {
        let Some(writer) = result.writers.get(series.writer) else { continue };
        let [p50, p99, max] = percentiles(series);
        table.row([
            writer.api.to_string(),
            writer.durability.to_string(),
            length(series.size_bytes as usize),
            series.latency.count().to_string(),
            p50,
            p99,
            max,
        ]);
    }
    table
}

fn percentiles(series: &StorageSeries) -> [String; 3] {
    let us = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| three_digits(ns as f64 / 1000.0));
    let latency = &series.latency;
    [us(latency.percentile_ns(50.0)), us(latency.percentile_ns(99.0)), us(latency.max_ns())]
}

/// The layers in which any of these calls spent time.
pub(crate) fn used(ours: &[&SeriesLayers<'_>]) -> Vec<Layer> {
    let has = |layer: &Layer| ours.iter().any(|one| one.breakdown.layers.contains_key(layer));
    // Unexplained time is shown even if it is 0.
    Layer::ALL.into_iter().filter(|layer| *layer == Layer::Unexplained || has(layer)).collect()
}

/// Percentiles of the whole, and the mean of each layer, by size.
pub(crate) fn means(ours: &[&SeriesLayers<'_>]) -> Table {
    let used = used(ours);
    let head = [
        Column::number("size", ""),
        Column::number("calls", ""),
        Column::narrow("response p50", "us"),
        Column::narrow("p99", "us"),
        Column::narrow("mean", "us"),
    ];
    let columns = used.iter().map(|layer| Column::narrow(&format!("{} mean", layer.name()), "us"));
    let tail = [Column::narrow("host share", "%")];
    let mut table = Table::new(head.into_iter().chain(columns).chain(tail));
    for SeriesLayers { series, breakdown } in ours {
        let [p50, p99, _] = percentiles(series);
        let us = |ns: f64| three_digits(ns / 1000.0);
        let mean = us(breakdown.sum_ns as f64 / breakdown.calls.max(1) as f64);
        let head = [length(series.size_bytes as usize), breakdown.calls.to_string(), p50, p99, mean];
        let layers = used.iter().map(|&layer| us(breakdown.mean_ns(layer)));
        let tail = [format!("{:.1}", breakdown.host_share() * 100.0)];
        table.row(head.into_iter().chain(layers).chain(tail));
    }
    table
}

/// A bar for each size, all equally long, with each layer's share of the mean.
fn bars(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    for SeriesLayers { series, breakdown } in ours {
        let mut bar = String::new();
        let mut share = 0.0;
        for layer in Layer::ALL {
            share += breakdown.share(layer);
            // The ends are rounded, not the lengths, so that all bars are equally long.
            let end = (share * BAR as f64).round() as usize;
            bar.extend(std::iter::repeat_n(letter(layer), end.saturating_sub(bar.len())));
        }
        let _ = writeln!(out, "{:>8} |{bar}|", length(series.size_bytes as usize));
    }
    let legend: Vec<_> =
        used(ours).into_iter().map(|layer| format!("{} {}", letter(layer), layer.name())).collect();
    let _ = writeln!(out, "{:>8}  {}", "", legend.join("  "));
}

/// How much of the writes of each size is a wait for a CPU, whatever the layer.
pub(crate) fn waits(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    for SeriesLayers { series, breakdown } in ours {
        if let Some(waits) = why::waits(breakdown) {
            let _ = writeln!(out, "{:>8}  {waits}", length(series.size_bytes as usize));
        }
    }
}

/// The interrupts of each write.
fn interrupts(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    for SeriesLayers { series, breakdown } in ours {
        let per_call = |count: u64| three_digits(count as f64 / breakdown.calls.max(1) as f64);
        let controller = &breakdown.controller_interrupts;
        let each_ns = controller.handled_ns as f64 / f64::from(controller.count.max(1));
        let _ = writeln!(
            out,
            "{:>8}  a write: {} requests, {} flushes; {} device interrupts of {} on CPU {}, {} interrupts between \
             CPUs; {} of {} requests completed on another CPU than the one that handled the interrupt",
            length(series.size_bytes as usize),
            per_call(breakdown.requests),
            per_call(breakdown.flushes),
            per_call(controller.count.into()),
            duration(each_ns),
            cpus_or_dash(breakdown.interrupt_cpus.keys()),
            per_call(breakdown.cpu_interrupts.count.into()),
            breakdown.completed_elsewhere,
            breakdown.requests + breakdown.flushes,
        );
    }
}

/// The events between which the device's time is measured.
pub(crate) fn boundaries(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    let mut all = BTreeMap::<_, u64>::new();
    for one in ours {
        for (&boundary, &count) in &one.breakdown.boundaries {
            *all.entry(boundary).or_default() += count;
        }
    }
    for ((begin, end), count) in all {
        let requests = counted(count, "request");
        let _ = writeln!(
            out,
            "{:>8}  device: from {} to {} ({requests})",
            "",
            words::begin(begin),
            words::end(end)
        );
    }
}

/// The slowest calls, each with its largest layers.
fn slowest(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    for SeriesLayers { series, breakdown } in ours {
        for slow in &breakdown.slowest {
            let _ = writeln!(out, "slow: {}", slow_line(series.size_bytes, slow));
        }
    }
}

/// A slow call of this size: why it was slow, and its largest layers.
pub(crate) fn slow_line(size_bytes: u64, slow: &SlowCall) -> String {
    let SlowCall { layers, .. } = slow;
    format!("{}: {}: {}", slow_heading(size_bytes, slow), why::sentence(layers), slow_layers(slow))
}

/// "4 KiB in 8.07 ms (2 requests, 1 flush)".
pub(crate) fn slow_heading(size_bytes: u64, SlowCall { write, layers }: &SlowCall) -> String {
    let flushes = layers.requests.iter().filter(|request| request.leaf && request.flush).count();
    let requests = layers.requests.iter().filter(|request| request.leaf).count() - flushes;
    let [requests, flushes] = [counted(requests as u64, "request"), counted(flushes as u64, "flush")];
    let uncertain = words::uncertain(layers);
    let took = duration((write.end_ns - write.start_ns) as f64);
    format!("{} in {took} ({requests}, {flushes}{uncertain})", length(size_bytes as usize))
}

/// The layers with most of a write's time.
pub(crate) fn slow_layers(SlowCall { write, layers }: &SlowCall) -> String {
    why::of_layers(layers, write.end_ns - write.start_ns)
}

/// A count in words.
fn counted(count: u64, one: &str) -> String {
    let many = if one.ends_with('h') { "es" } else { "s" };
    format!("{count} {one}{}", if count == 1 { "" } else { many })
}

/// How many calls are not fully attributed, and what is missing.
pub(crate) fn not_attributed(breakdown: &Breakdown) -> [(u64, String); 3] {
    let all_ns = breakdown.sum_ns.max(1);
    let switches = format!(
        "may contain a context switch that the kernel did not record (at least {} in these recordings): which \
         thread had that CPU until its next event is inferred or unexplained ({:.2}% of the time)",
        breakdown.unrecorded_switches,
        breakdown.unexplained_for_switches_ns as f64 * 100.0 / all_ns as f64
    );
    let without_device =
        "spent no time in the device: they caused no request, or no request could be attributed to them";
    [
        (breakdown.unrecorded_switch_calls, switches),
        (breakdown.unexplained_calls, "have more than 1% of their time unexplained".to_owned()),
        (breakdown.calls_without(Layer::Device), without_device.to_owned()),
    ]
}

/// What is said of a number of calls that the recordings do not cover.
pub(crate) const UNCOVERED: &str = "began before a CPU was recorded, or ended after";

/// How reliable the figures are.
pub(crate) fn trust(out: &mut String, ours: &[&SeriesLayers<'_>]) {
    for SeriesLayers { series, breakdown } in ours {
        let size = length(series.size_bytes as usize);
        let mut line = |count: u64, what: &str| {
            if count > 0 {
                let _ = writeln!(out, "{size}: {count} of {} calls {what}", breakdown.calls);
            }
        };
        line(breakdown.lost_calls, "overlap lost events: use fewer calls a round or a larger --buffer");
        line(breakdown.uncovered_calls, UNCOVERED);
        not_attributed(breakdown).iter().for_each(|(count, what)| line(*count, what));
        line(
            breakdown.disturbed_calls,
            "were delayed by other tasks on a CPU, or their helper by interrupts",
        );
        for doubt in words::doubts(&breakdown.doubts) {
            let _ = writeln!(out, "{size}: uncertain: {doubt}");
        }
    }
}
