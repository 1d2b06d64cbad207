//! A comparison of writes with and without background load as text: the effects on the
//! application and on the device side by side, and what explains them. Pure: results in, text out.

use std::fmt::Write as _;

use roundtrip_latency::Comparison;
use roundtrip_layers::storage::Layer;
use roundtrip_run::storage::interference::{Beside, Condition, InterferenceResult, Measured, Pair};

use crate::storage::measured::{self, UNCOVERED, not_attributed};
use crate::storage::verdict::beyond_chance;
use crate::storage::words;
use crate::text::look::Look;
use crate::text::quantity::{cpus, cpus_or_dash, length, three_digits};
use crate::text::table::{Column, Table};
use roundtrip_analysis::interference::{Explained, Side};

/// Everything that a terminal shows.
#[must_use]
pub fn page(result: &InterferenceResult, explained: &[Explained<'_>], look: Look) -> String {
    let mut out = environment(result);
    out.push('\n');
    for (who, ours) in groups(result, explained) {
        let _ = writeln!(out, "{who}");
        out.push_str(&responses(&ours).render(look));
        out.push('\n');
        let (table, notes) = reasons(result, &ours);
        out.push_str(&table.render(look));
        out.push_str(&notes);
        out.push('\n');
        for line in study(&ours) {
            let _ = writeln!(out, "{line}");
        }
        trust(&mut out, &ours);
        out.push('\n');
    }
    legend(&mut out, result, explained);
    out
}

/// Where the writes went, and the writers' CPUs.
pub(crate) fn environment(result: &InterferenceResult) -> String {
    let mut out = measured::environment(&result.path);
    let interrupt = result.interrupt_cpu.map_or("unknown".to_owned(), |cpu| format!("CPU {cpu}"));
    let _ = writeln!(out, "writer on CPU {}; device interrupt: {interrupt}", cpus(&result.writer_cpus, ","));
    out
}

/// The comparisons of each writer and size, with their names.
pub(crate) fn groups<'a>(
    result: &InterferenceResult,
    explained: &'a [Explained<'a>],
) -> Vec<(String, Vec<&'a Explained<'a>>)> {
    let mut groups = Vec::new();
    let mut heads: Vec<(usize, u64)> = Vec::new();
    for one in explained {
        let head = (one.beside.writer, one.beside.size_bytes);
        if one.beside.condition != Condition::Polled && !heads.contains(&head) {
            heads.push(head);
        }
    }
    for (writer, size_bytes) in heads {
        let Some(who) = result.writers.get(writer) else { continue };
        let ours: Vec<_> = explained
            .iter()
            .filter(|one| {
                let beside = one.beside;
                // Polling uses special writers. They are listed with writers of the same
                // durability.
                let polled = beside.condition == Condition::Polled
                    && result.writers.get(beside.writer).is_some_and(|own| own.durability == who.durability);
                beside.size_bytes == size_bytes && (beside.writer == writer || polled)
            })
            .collect();
        groups.push((format!("{}, {}, {}", who.api, who.durability, length(size_bytes as usize)), ours));
    }
    groups
}

/// The two figures of each condition, side by side.
pub(crate) fn responses(ours: &[&Explained<'_>]) -> Table {
    let mut table = response_columns("beside");
    for one in ours {
        let application = figures(one.beside.response());
        let device = match (one.device(), one.device_without_ratio()) {
            (None, Some([alone_ns, beside_ns])) => {
                [three_digits(alone_ns / 1000.0), three_digits(beside_ns / 1000.0), "-".into(), String::new()]
            }
            (comparison, _) => figures(comparison),
        };
        let name = one.beside.condition.name().to_owned();
        table.row([name].into_iter().chain(application).chain(device));
    }
    table
}

/// An empty table of responses whose rows are named after this.
pub(crate) fn response_columns(of: &'static str) -> Table {
    Table::new([
        Column::text(of),
        Column::narrow("application alone", "us"),
        Column::narrow("application beside", "us"),
        Column::narrow("ratio", ""),
        Column::narrow("95% interval", ""),
        Column::narrow("device alone", "us"),
        Column::narrow("device beside", "us"),
        Column::narrow("ratio", ""),
        Column::narrow("95% interval", ""),
    ])
}

/// The two times, their ratio and its interval.
pub(crate) fn figures(comparison: Option<Comparison>) -> [String; 4] {
    let Some(Comparison { baseline_ns, subject_ns, median, interval, .. }) = comparison else {
        return ["not known", "", "", ""].map(str::to_owned);
    };
    let interval = interval.map(|interval| format!("{:.2}-{:.2}", interval.low, interval.high));
    [
        three_digits(baseline_ns / 1000.0),
        three_digits(subject_ns / 1000.0),
        format!("{median:.3}"),
        interval.unwrap_or_default(),
    ]
}

/// What explains a difference. A cell shows "without > with" if the two differ.
pub(crate) fn reasons(result: &InterferenceResult, ours: &[&Explained<'_>]) -> (Table, String) {
    let frequency = ours.iter().any(|one| frequencies(one).iter().any(Option::is_some));
    let recorded = ours.iter().any(|one| one.sides.is_some());
    let mut columns = vec![Column::text("beside")];
    if frequency {
        columns.push(Column::narrow("CPU frequency", "MHz"));
    }
    if recorded {
        columns.extend([
            Column::narrow("interrupt's CPU", ""),
            Column::narrow("device irqs/write", ""),
            Column::narrow("IPIs /write", ""),
            Column::narrow("all irqs/write", ""),
            Column::narrow("completed elsewhere", "%"),
            Column::narrow("irq+wake mean", "us"),
            Column::narrow("others' CPU/write", "us"),
            Column::narrow("writes disturbed", "%"),
        ]);
    }
    columns.push(Column::narrow("waited for CPU/write", "us"));
    columns.push(Column::narrow("load's CPU", "%"));
    columns.push(Column::text("load did"));
    let mut table = Table::new(columns);
    for one in ours {
        let mut row = vec![one.beside.condition.name().to_owned()];
        if frequency {
            row.push(two(frequencies(one).map(|khz| khz.map(|khz| format!("{:.0}", khz / 1000.0)))));
        }
        if let Some(sides) = &one.sides {
            row.extend(events(sides));
        } else if recorded {
            row.extend(std::iter::repeat_n(String::new(), 8));
        }
        let waited = |of: fn(&Pair) -> &Measured| {
            let blocks = || one.beside.pairs.iter().map(of);
            let delay_ns = blocks().map(|block| block.run_delay_ns).sum::<Option<u64>>()?;
            let calls: u64 = blocks().map(|block| u64::from(block.all_calls)).sum();
            Some(three_digits(delay_ns as f64 / 1000.0 / calls.max(1) as f64))
        };
        row.push(two([waited(|pair| &pair.alone), waited(|pair| &pair.beside)]));
        row.extend(background_load(one.beside));
        table.row(row);
    }
    let mut out = String::new();
    if !frequency {
        out.push_str("CPU frequency: not known; there is no frequency governor, and no event shows it.\n");
    }
    if !recorded {
        let reason =
            if result.plan.write.record.is_none() { "events were not recorded" } else { "see below" };
        let _ = writeln!(
            out,
            "Interrupts, completions and disturbed calls: not known, {reason}. The device's response comes \
             from the device's own counters, which include all processes' requests."
        );
    }
    (table, out)
}

/// Both values, or one if they are the same.
fn two([alone, beside]: [Option<String>; 2]) -> String {
    let [alone, beside] = [alone, beside].map(|text| text.unwrap_or_else(|| "-".to_owned()));
    if alone == beside { alone } else { format!("{alone} > {beside}") }
}

/// The mean of the frequencies that were read after each block or, without those, the last
/// frequency in the events, in kHz.
fn frequencies(one: &Explained<'_>) -> [Option<f64>; 2] {
    let read = |of: fn(&Pair) -> &Measured| {
        let all = one.beside.pairs.iter().map(|pair| of(pair).frequency_khz.map(f64::from));
        Some(all.sum::<Option<f64>>()? / one.beside.pairs.len().max(1) as f64)
    };
    let recorded =
        |side: usize| one.sides.as_ref().and_then(|sides| sides[side].frequency_khz).map(f64::from);
    [read(|pair| &pair.alone).or(recorded(0)), read(|pair| &pair.beside).or(recorded(1))]
}

/// The cells that need events.
fn events(sides: &[Side; 2]) -> Vec<String> {
    let cell = |of: &dyn Fn(&Side) -> String| two([Some(of(&sides[0])), Some(of(&sides[1]))]);
    let per_call = |side: &Side, count: f64| three_digits(count / side.breakdown.calls.max(1) as f64);
    let percent = |part: u64, whole: u64| format!("{:.0}", part as f64 * 100.0 / whole.max(1) as f64);
    vec![
        cell(&|side| cpus_or_dash(side.breakdown.interrupt_cpus.keys())),
        cell(&|side| per_call(side, side.breakdown.controller_interrupts.count.into())),
        cell(&|side| per_call(side, side.breakdown.cpu_interrupts.count.into())),
        cell(&|side| per_call(side, side.interrupts.count.into())),
        cell(&|side| {
            let with_interrupt = side.breakdown.interrupt_cpus.values().sum();
            percent(side.breakdown.completed_elsewhere, with_interrupt)
        }),
        cell(&|side| {
            let ns = side.breakdown.mean_ns(Layer::Irq) + side.breakdown.mean_ns(Layer::Wake);
            three_digits(ns / 1000.0)
        }),
        cell(&|side| {
            let ns = side.breakdown.mean_ns(Layer::Preempted) + side.breakdown.mean_ns(Layer::Stolen);
            three_digits(ns / 1000.0)
        }),
        cell(&|side| percent(side.breakdown.disturbed_calls, side.breakdown.calls)),
    ]
}

/// The CPU time and the work of the background load.
fn background_load(beside: &Beside) -> [String; 2] {
    let elapsed_ns: u64 = beside.pairs.iter().map(|pair| pair.beside.elapsed_ns).sum();
    let sum = |of: fn(&Measured) -> Option<u64>| {
        beside.pairs.iter().map(|pair| of(&pair.beside)).sum::<Option<u64>>().filter(|_| elapsed_ns > 0)
    };
    let cpu =
        sum(|block| block.neighbour_cpu_ns).map(|ns| format!("{:.0}", ns as f64 * 100.0 / elapsed_ns as f64));
    let rate = sum(|block| block.neighbour_count)
        .zip(beside.condition.counts())
        .map(|(count, what)| format!("{} {what}/s", three_digits(count as f64 * 1e9 / elapsed_ns as f64)));
    [cpu.unwrap_or_default(), rate.unwrap_or_default()]
}

/// What the study of 2012 found with a CPU hog.
const STUDY: &str = "The 2012 study found that a CPU hog made the application's response up to 20% faster and \
                     the device's up to 7% slower.";

/// Compares the study's finding with ours.
pub(crate) fn study(ours: &[&Explained<'_>]) -> Vec<String> {
    let control = ours.iter().find(|one| one.beside.condition == Condition::Alone);
    let hogs: Vec<_> = ours.iter().filter(|one| one.beside.condition.is_hog()).collect();
    if hogs.is_empty() {
        return Vec::new();
    }
    let finding = |what: &str, word: &str, of: &dyn Fn(&Explained<'_>) -> Option<Comparison>, sign: f64| {
        let noise = control.and_then(|one| of(one)).and_then(|comparison| comparison.interval);
        let all = hogs.iter().filter_map(|one| Some((one.beside.condition, of(one)?)));
        let most = all.max_by(|one, other| (sign * one.1.median).total_cmp(&(sign * other.1.median)));
        let Some((condition, found)) = most else { return format!("{what}: not known") };
        let verdict = beyond_chance(found, noise, sign).1;
        format!(
            "{what} {word}: {verdict} (largest change {:+.1}%, {condition})",
            (found.median - 1.0) * 100.0
        )
    };
    vec![
        format!("{STUDY} Reproduced on this machine:"),
        format!("  {}", finding("application", "faster", &|one| one.beside.response(), -1.0)),
        format!("  {}", finding("device", "slower", &|one| one.device(), 1.0)),
    ]
}

/// How reliable the figures are.
pub(crate) fn trust(out: &mut String, ours: &[&Explained<'_>]) {
    for one in ours {
        let name = one.beside.condition;
        let Some(sides) = &one.sides else { continue };
        for (side, which) in sides.iter().zip(["alone", "beside"]) {
            let breakdown = &side.breakdown;
            let mut line = |count: u64, what: &str| {
                if count > 0 {
                    let _ = writeln!(out, "{name}, {which}: {count} of {} calls {what}", breakdown.calls);
                }
            };
            line(breakdown.lost_calls, "overlap lost events: use a shorter --duration or a larger --buffer");
            line(breakdown.uncovered_calls, UNCOVERED);
            not_attributed(breakdown).iter().for_each(|(count, what)| line(*count, what));
        }
        let ways = |side: &Side| {
            let calls: u64 = side.completions.values().sum();
            let most = side.completions.iter().max_by_key(|(_, count)| **count);
            most.map(|(way, &count)| {
                format!("{} ({:.0}%)", words::completion(way), count as f64 * 100.0 / calls.max(1) as f64)
            })
        };
        let [alone, beside] = [ways(&sides[0]), ways(&sides[1])].map(|way| way.unwrap_or_else(|| "-".into()));
        let _ = writeln!(out, "{name}: completions alone: {alone}; beside: {beside}");
    }
    let doubts =
        ours.iter().filter_map(|one| one.sides.as_ref()).flatten().flat_map(|side| &side.breakdown.doubts);
    for doubt in words::doubts(doubts) {
        let _ = writeln!(out, "uncertain: {doubt}");
    }
}

/// The meaning of rows and figures, and what was not possible.
pub(crate) fn legend(out: &mut String, result: &InterferenceResult, explained: &[Explained<'_>]) {
    let mut listed: Vec<Condition> = Vec::new();
    for Beside { condition, what, .. } in explained.iter().map(|one| one.beside) {
        if !listed.contains(condition) {
            listed.push(*condition);
            let _ = writeln!(out, "{condition}: {what}");
        }
    }
    out.push('\n');
    for reason in &result.not_possible {
        let _ = writeln!(out, "Not possible: {reason}");
    }
    for note in &result.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    let _ = writeln!(
        out,
        "Each figure is the median of {} rounds' medians; a ratio is the median of the rounds' ratios. A \
         ratio within the interval of alone against alone is chance. Each call contains about {} ns for \
         reading the clock.",
        explained.iter().map(|one| one.beside.pairs.len()).min().unwrap_or_default(),
        three_digits(result.clock_read_cost_ns)
    );
}

#[cfg(test)]
mod tests;
