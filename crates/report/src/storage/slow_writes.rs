//! Explanations of slow writes, of ours and of other programs: for each the sentence, its layers,
//! and the course of its time. Pure: writes in, text out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use roundtrip_analysis::Analysed;
use roundtrip_analysis::observed_writes::{Slow, timed};
use roundtrip_analysis::without::{Left, Whole};
use roundtrip_latency::Histogram;
use roundtrip_layers::reasons::Across;
use roundtrip_layers::storage::{Layer, Layers, Write};
use roundtrip_run::storage::observe::ObserveWritesResult;
use roundtrip_sorting::SmallSort as _;

mod json;

pub(crate) use json::{Json, WhyJson, summed};

use crate::explanation::names::thing;
use crate::perfetto::{Annotation, Parent, Slice, Track};
use crate::storage::{observed_writes, why, words};
use crate::text::csv::Line;
use crate::text::inert;
use crate::text::look::Look;
use crate::text::quantity::{duration, length};
use crate::text::table::{Column, Table};

/// How many writes are shown if none is chosen.
const SHOWN: usize = 3;

/// Stretches shorter than this percentage of the write are combined.
const SHORT_PERCENT: u64 = 1;

/// A slow write.
#[derive(Debug)]
pub struct SlowWrite<'a> {
    /// Its place among all slow writes, from 1; 1 is the slowest.
    pub number: usize,
    /// Whose it is, and what it writes.
    pub what: String,
    /// Its process.
    pub pid: u32,
    /// When it was made, and by which thread.
    pub write: Write,
    /// The snapshot of the recording that covers it.
    pub snapshot: Option<u32>,
    /// Where and why its time was spent.
    pub layers: Cow<'a, Layers>,
}

impl SlowWrite<'_> {
    fn latency_ns(&self) -> u64 {
        self.write.end_ns - self.write.start_ns
    }
}

/// The slow writes of a run whose layers its recording shows, the slowest first.
#[must_use]
pub fn of<'a>(analysed: &'a Analysed<'_>) -> Vec<SlowWrite<'a>> {
    let results = &analysed.run.results;
    let mut all = Vec::new();
    if let Some(result) = &results.observed_writes {
        all.extend(analysed.slow_writes.iter().filter_map(|slow| observed(result, slow)));
    }
    if let Some(result) = &results.storage {
        for one in &analysed.layers {
            let Some(writer) = result.writers.get(one.series.writer) else { continue };
            let size = length(one.series.size_bytes as usize);
            all.extend(one.breakdown.slowest.iter().map(|slow| {
                let made = |call: &roundtrip_run::storage::Call| call.start_ns == slow.write.start_ns;
                let block = one.series.blocks.iter().find(|block| block.calls.iter().any(made));
                SlowWrite {
                    number: 0,
                    what: format!("{}, {}, {size}", writer.api, writer.durability),
                    pid: writer.opened.pid,
                    write: slow.write,
                    snapshot: block.and_then(|block| block.snapshot),
                    layers: Cow::Borrowed(&slow.layers),
                }
            }));
        }
    }
    numbered(all)
}

/// The slow writes in another tool's recording, the slowest first.
#[must_use]
pub fn of_recording<'a>(result: &ObserveWritesResult, slow: &'a [Slow<'_>]) -> Vec<SlowWrite<'a>> {
    numbered(slow.iter().filter_map(|slow| observed(result, slow)).collect())
}

fn observed<'a>(result: &ObserveWritesResult, slow: &'a Slow<'_>) -> Option<SlowWrite<'a>> {
    let Slow { write, layers } = slow;
    let row = result.rows.get(write.row)?;
    Some(SlowWrite {
        number: 0,
        what: observed_writes::name(row),
        pid: row.process.pid,
        write: Write { start_ns: write.start_ns, end_ns: write.end_ns, tid: write.tid },
        snapshot: write.snapshot,
        layers: Cow::Borrowed(layers),
    })
}

fn numbered(mut all: Vec<SlowWrite<'_>>) -> Vec<SlowWrite<'_>> {
    all.small_sort_by_key(|slow| std::cmp::Reverse(slow.latency_ns()));
    (1..).zip(&mut all).for_each(|(number, slow)| slow.number = number);
    all
}

/// What delayed a run's writes that missed the deadline: all of them if the run says so, else
/// these.
#[must_use]
pub fn causes(analysed: &Analysed<'_>, all: &[SlowWrite<'_>]) -> Across {
    let observed = analysed.run.results.observed_writes.as_ref();
    let stored = observed.and_then(|result| result.causes.as_ref());
    if let Some(stored) = stored.filter(|stored| stored.operations > 0) {
        return roundtrip_analysis::causes::read(stored);
    }
    let deadline_ns = observed.map(|result| result.plan.deadline.ns);
    let mut across = Across::default();
    for slow in all {
        across.add_timed(timed(slow.write, deadline_ns), &slow.layers.summed());
    }
    across.in_words(&thing)
}

/// What would be left without each of the main causes of a run's slow writes.
#[must_use]
pub fn without(analysed: &Analysed<'_>, causes: &Across) -> Vec<Left> {
    let results = &analysed.run.results;
    if let Some(result) = &results.observed_writes {
        return roundtrip_analysis::observed_writes::without(causes, result, false);
    }
    let durations: Histogram = analysed.layers.iter().map(|one| &one.series.latency).collect();
    let whole = Whole { durations: &durations, missed: None, elapsed_ns: 0 };
    roundtrip_analysis::without::without(causes, whole)
}

/// What delayed slow writes in sum.
#[derive(Debug)]
pub struct Summed<'a> {
    /// The causes.
    pub causes: &'a Across,
    /// What would be left without each of the main ones.
    pub left: &'a [Left],
    /// How many more writes missed the deadline but were not kept; `None` if these are the slowest,
    /// whether they missed it or not.
    pub over_limit: Option<u64>,
}

/// What delayed the writes of `storage observe` that missed the deadline.
pub(crate) fn causes_of(analysed: &Analysed<'_>) -> Across {
    causes(analysed, &of(analysed))
}

/// The explanations for a terminal: what the slow writes lost time to and the three slowest, or one
/// in detail.
#[must_use]
pub fn text(
    all: &[SlowWrite<'_>],
    Summed { causes, left, over_limit }: Summed<'_>,
    only: Option<usize>,
    look: Look,
) -> String {
    let mut out = String::new();
    if all.is_empty() && causes.operations() == 0 {
        return "No slow write was recorded.\n".to_owned();
    }
    if only.is_none() {
        out = why::by_cause(causes, over_limit.map(|more| all.len() as u64 + more), left);
    }
    let shown = all.iter().filter(|slow| only.map_or(slow.number <= SHOWN, |only| only == slow.number));
    for slow in shown {
        if !out.is_empty() && !out.ends_with("\n\n") {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", heading(slow));
        for line in lines(slow) {
            let _ = writeln!(out, "  {line}");
        }
        if only.is_some() {
            let _ = write!(out, "\n{}", course(slow).render(look));
        }
    }
    if let Some(more) = all.len().checked_sub(SHOWN).filter(|&more| more > 0 && only.is_none()) {
        let _ = writeln!(out, "\n{more} more: --miss N explains one of them, and shows its course.");
    }
    if let Some(over_limit) = over_limit.filter(|&more| more > 0 && only.is_none()) {
        let counted =
            if causes.operations() > all.len() as u64 { "; what delayed them is counted" } else { "" };
        let _ = writeln!(out, "Not explained: {over_limit} more slow writes, which were not kept{counted}.");
    }
    out
}

/// "Slow write 3: postgres (812), fdatasync of /srv/wal, 35.5 ms".
pub(crate) fn heading(slow: &SlowWrite<'_>) -> String {
    format!("Slow write {}: {}, {}", slow.number, slow.what, duration(slow.latency_ns() as f64))
}

/// Why a write was slow, where its time was spent, and what makes that uncertain, one line each.
pub(crate) fn lines(slow: &SlowWrite<'_>) -> Vec<String> {
    let layers = &*slow.layers;
    let mut lines = vec![why::sentence(layers), why::of_layers(layers, slow.latency_ns())];
    if let Some(missing) = layers.missing {
        lines.push(format!("{}: nothing about it is certain", words::missing(missing)));
    }
    if layers.unrecorded_switches > 0 {
        lines.push(format!(
            "Not recorded by the kernel: at least {} context switches, possibly during this write",
            layers.unrecorded_switches
        ));
    }
    lines
}

/// The course of a write: where it was, and why it did not move. Short stretches are combined.
pub(crate) fn course(slow: &SlowWrite<'_>) -> Table {
    let mut table = Table::new([
        Column::number("at", "us"),
        Column::number("for", "us"),
        Column::text("layer"),
        Column::text("thread"),
        Column::text("why"),
    ]);
    let us = |ns: u64| format!("{}.{}", ns / 1000, ns % 1000 / 100);
    let short_ns = slow.latency_ns() * SHORT_PERCENT / 100;
    let mut short: Option<(u64, u64, usize)> = None;
    let mut rows: Vec<[String; 5]> = Vec::new();
    let together = |short: &mut Option<(u64, u64, usize)>, rows: &mut Vec<[String; 5]>| {
        if let Some((begin_ns, end_ns, count)) = short.take() {
            let what = format!("{count} short {}", if count == 1 { "stretch" } else { "stretches" });
            rows.push([us(begin_ns), us(end_ns - begin_ns), String::new(), String::new(), what]);
        }
    };
    for stretch in &slow.layers.reasons {
        let begin_ns = stretch.begin_ns - slow.write.start_ns;
        let end_ns = stretch.end_ns - slow.write.start_ns;
        if stretch.duration_ns() < short_ns {
            short = Some(
                short.map_or((begin_ns, end_ns, 1), |(first_ns, _, count)| (first_ns, end_ns, count + 1)),
            );
            continue;
        }
        together(&mut short, &mut rows);
        let thread = stretch.why.delayed.as_ref();
        let thread = thread.map_or_else(String::new, crate::explanation::words::thread);
        rows.push([
            us(begin_ns),
            us(end_ns - begin_ns),
            why::place(&stretch.why).to_owned(),
            inert::name(&thread),
            why::of_stretch(&stretch.why),
        ]);
    }
    together(&mut short, &mut rows);
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// A line for each reason of each write and the process that names it, the slowest write and its
/// largest reason first.
#[must_use]
pub fn csv(all: &[SlowWrite<'_>], only: Option<usize>) -> String {
    let mut out = String::from("number,write,latency_ns,reason,pid,process,class,time_ns,answer\n");
    for slow in chosen(all, only) {
        let answer = why::sentence(&slow.layers);
        for of in &slow.layers.summed().kinds {
            for process in &of.processes {
                let named = process.process.as_ref();
                Line::of(&mut out)
                    .field(slow.number)
                    .field(inert::line(&slow.what))
                    .field(slow.latency_ns())
                    .field(of.kind.name())
                    .known(named.map(|process| process.pid))
                    .known(named.map(|process| inert::line(&process.name)))
                    .known(named.map(|process| process.class.name()))
                    .field(process.sum_ns)
                    .field(inert::line(&answer))
                    .end();
            }
        }
    }
    out
}

/// A table of the slow writes, slowest first.
#[must_use]
pub fn markdown(all: &[SlowWrite<'_>], only: Option<usize>) -> String {
    let mut table = Table::new([
        Column::number("number", ""),
        Column::text("write"),
        Column::number("took", ""),
        Column::text("explanation"),
        Column::text("layers"),
    ]);
    for slow in chosen(all, only) {
        let layers = why::of_layers(&slow.layers, slow.latency_ns());
        let took = duration(slow.latency_ns() as f64);
        table.row([slow.number.to_string(), slow.what.clone(), took, why::sentence(&slow.layers), layers]);
    }
    table.markdown()
}

/// All writes, or the one with this number.
pub fn chosen<'w, 'a>(
    all: &'w [SlowWrite<'a>],
    only: Option<usize>,
) -> impl Iterator<Item = &'w SlowWrite<'a>> + use<'w, 'a> {
    all.iter().filter(move |slow| only.is_none_or(|only| only == slow.number))
}

/// A track of its slow writes for each thread: each write with its answer, inside it the layers,
/// and below it why it did not move.
#[must_use]
pub fn tracks(shown: &[&SlowWrite<'_>]) -> Vec<Track> {
    let mut threads: BTreeMap<(u32, u32), [Vec<Slice>; 2]> = BTreeMap::new();
    for slow in shown {
        let [writes, reasons] = threads.entry((slow.pid, slow.write.tid)).or_default();
        let facts = [("write", slow.what.clone()), ("answer", why::sentence(&slow.layers))];
        writes.push(Slice {
            name: format!("slow write {}", slow.number),
            begin_ns: slow.write.start_ns,
            end_ns: slow.write.end_ns,
            annotations: facts.into_iter().map(|(name, text)| Annotation::text(name, text)).collect(),
            ..Slice::default()
        });
        writes.extend(slow.layers.pieces.iter().map(|piece| Slice {
            name: piece.layer.name().to_owned(),
            begin_ns: piece.begin_ns,
            end_ns: piece.end_ns,
            ..Slice::default()
        }));
        reasons.extend(slow.layers.reasons.iter().map(|stretch| Slice {
            name: why::of_stretch(&stretch.why),
            begin_ns: stretch.begin_ns,
            end_ns: stretch.end_ns,
            ..Slice::default()
        }));
    }
    let of_thread = |((pid, tid), [writes, reasons]): ((u32, u32), [Vec<Slice>; 2])| {
        [("slow writes", writes), ("why they did not move", reasons)].map(|(name, slices)| Track {
            name: name.to_owned(),
            parent: Parent::Thread { pid, tid },
            slices,
        })
    };
    threads.into_iter().flat_map(of_thread).collect()
}

/// The time of each layer of a write that has some, in nanoseconds.
pub(crate) fn times(layers: &Layers) -> BTreeMap<&'static str, u64> {
    let times = Layer::ALL.into_iter().map(|layer| (layer.name(), layers.total_ns(layer)));
    times.filter(|(_, ns)| *ns > 0).collect()
}

#[cfg(test)]
mod tests;
