//! Why writes did not move, in words: the waits for a CPU beside the layers of a write, its course,
//! and the rows of many writes. The sentence is that of calls. Pure: reasons in, text out.

use roundtrip_analysis::without::Left;
use roundtrip_layers::reasons::{Across, Place, Process, ReasonKind, Reasons, Subject, Why};
use roundtrip_layers::storage::{Breakdown, Layer, Layers};
use roundtrip_run::OTHERS;
use roundtrip_sorting::SmallSort as _;

use crate::explanation::names::{self, process, thing};
use crate::explanation::sentence::of_write;
use crate::explanation::{summary, without};
use crate::text::inert;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// A layer's time is shown with the wait for a CPU in it if that is at least this share, in
/// percent.
const SHOWN_PERCENT: u64 = 5;

/// Why a write took as long as it did, in one sentence: "waited 17.5 of 17.8 ms for a CPU, behind
/// 15 processes, most of all rustc: 8.10 ms".
pub(crate) fn sentence(layers: &Layers) -> String {
    of_write(&layers.summed(), layers.usual_ns > 0)
}

/// The layers with most of a write's time: "wake 35.0 ms, of it 34.8 ms behind rustc, fs 120 us".
pub(crate) fn of_layers(layers: &Layers, whole_ns: u64) -> String {
    let mut parts: Vec<(Layer, u64)> =
        Layer::ALL.into_iter().map(|layer| (layer, layers.total_ns(layer))).collect();
    parts.small_sort_by_key(|part| std::cmp::Reverse(part.1));
    let parts = parts.iter().filter(|part| part.1 > 0 && part.1 * 50 >= whole_ns);
    let parts = parts
        .map(|(layer, ns)| format!("{} {}{}", layer.name(), duration(*ns as f64), behind(layers, *layer)));
    parts.collect::<Vec<_>>().join(", ")
}

/// How much of a layer is a wait for a CPU, and behind whom; nothing if it is little.
fn behind(layers: &Layers, layer: Layer) -> String {
    let stretches: Vec<_> = layers.within(layer, ReasonKind::Cpu).cloned().collect();
    let reasons = Reasons::of(&stretches, 0);
    let Some(of) = reasons.of_kind(ReasonKind::Cpu) else { return String::new() };
    if of.sum_ns * 100 < layers.total_ns(layer) * SHOWN_PERCENT {
        return String::new();
    }
    let took = duration(of.sum_ns as f64);
    let is_known = of.processes.iter().any(|one| one.process.is_some());
    let who = match is_known {
        true => inert::name(&names::largest(of).after(" behind")),
        false => " for a CPU".to_owned(),
    };
    let waited = if who.starts_with(',') { " for a CPU" } else { "" };
    format!(" (of it {took}{waited}{who})")
}

/// The kind of a reason in a table.
pub(crate) fn kind(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::OwnWork => "own work",
        ReasonKind::SlowCpu => "ran slowly, by",
        ReasonKind::Cpu => "waits for a CPU, behind",
        ReasonKind::Interrupted => "interrupted by",
        ReasonKind::Thread => "waits for",
        ReasonKind::BusyPool => "busy pool, by",
        ReasonKind::Device => "device",
        ReasonKind::BehindIo => "behind the I/O of",
        ReasonKind::Throttled => "held back by",
        ReasonKind::Sleep => "sleeps",
        ReasonKind::Stopped => "stopped",
        ReasonKind::WakeUp => "being woken",
        ReasonKind::CpuGone => "its CPU ran nobody",
        ReasonKind::Unknown => "unknown",
    }
}

/// Who or what a row is about.
fn subject(kind: ReasonKind, subject: &Subject) -> String {
    match (kind, subject) {
        (_, Subject::Process { name, class }) => {
            let of = Process { pid: 0, name: name.clone(), class: *class };
            inert::name(&process(&of))
        }
        (_, Subject::Others) => OTHERS.to_owned(),
        (ReasonKind::OwnWork | ReasonKind::CpuGone, _) | (_, Subject::Unknown) => String::new(),
        (ReasonKind::Cpu, _) => "unknown threads".to_owned(),
        (ReasonKind::BehindIo, _) => "unknown processes".to_owned(),
        (_, Subject::Reason(reason)) => inert::name(&thing(reason)),
        (_, Subject::Words(what)) => inert::name(what),
    }
}

/// Why many writes did not move: a row for each reason and process, those with most time first.
/// Rows with less than a hundredth of the time are left out.
pub(crate) fn table(across: &Across) -> Table {
    let mut table = Table::new([
        Column::text("reason"),
        Column::text("of"),
        Column::number("time", "ms"),
        Column::number("share", "%"),
        Column::number("main reason of", "writes"),
        Column::number("most in one", "ms"),
    ]);
    let whole_ns = across.lost_ns().max(1);
    let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
    for row in across.rows().into_iter().filter(|row| row.lost_ns * 100 >= whole_ns) {
        table.row([
            kind(row.kind).to_owned(),
            subject(row.kind, &row.subject),
            ms(row.lost_ns),
            format!("{:.1}", row.lost_ns as f64 * 100.0 / whole_ns as f64),
            row.operations.to_string(),
            ms(row.worst_ns),
        ]);
    }
    table
}

/// What delayed slow writes as lines, the one to which most time was lost first. `missed` is how
/// many writes missed the deadline; `None` if these are the slowest. `left`: what would be left
/// without a cause.
pub(crate) fn by_cause(across: &Across, missed: Option<u64>, left: &[Left]) -> String {
    let count = across.operations();
    let head = match missed {
        None => format!("{count} slowest"),
        Some(missed) if missed > count => format!("{} slow, {count} of them recorded", writes(missed)),
        Some(_) => format!("{} slow", writes(count)),
    };
    summary::of_operations(&head, across, "writes") + &without::text(left, "writes")
}

fn writes(count: u64) -> String {
    if count == 1 { "1 write was".into() } else { format!("{count} writes were") }
}

/// Who or what most time of a kind was lost to, in many writes: "rustc".
pub(crate) fn largest(across: &Across, kind: ReasonKind) -> String {
    let most =
        across.rows().into_iter().find(|row| row.kind == kind).map(|row| subject(row.kind, &row.subject));
    most.filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown threads".to_owned())
}

/// How much of the time of many writes is a wait for a CPU, in which layers and behind whom; `None`
/// if it is less than a hundredth.
pub(crate) fn waits(breakdown: &Breakdown) -> Option<String> {
    let share = breakdown.share_of_kind(ReasonKind::Cpu);
    if share < 0.01 {
        return None;
    }
    let percent = |ns: u64| ns as f64 * 100.0 / breakdown.sum_ns.max(1) as f64;
    let layers = breakdown.behind_ns.iter().map(|(layer, ns)| (layer.name(), percent(*ns)));
    let layers = layers.filter(|(_, percent)| *percent >= 1.0);
    let layers: Vec<String> = layers.map(|(name, percent)| format!("{percent:.1}% in {name}")).collect();
    let layers = if layers.is_empty() { String::new() } else { format!(" ({})", layers.join(", ")) };
    let who = largest(&breakdown.reasons, ReasonKind::Cpu);
    Some(format!("waits for a CPU: {:.1}% of the time{layers}, most of all behind {who}", share * 100.0))
}

/// The layer of a stretch.
pub(crate) fn place(why: &Why) -> &'static str {
    match why.place {
        Some(Place::Layer(layer)) => layer,
        _ => "",
    }
}

/// Why a write did not move during a stretch: "waits for a CPU, behind rustc".
pub(crate) fn of_stretch(why: &Why) -> String {
    let name = match (&why.process, &why.reason) {
        (Some(by), _) => inert::name(&process(by)),
        (None, reason) => subject(reason.kind(), &Subject::Reason(reason.clone())),
    };
    let kind = kind(why.reason.kind());
    match (name.is_empty(), kind.contains(' ')) {
        (true, _) => kind.to_owned(),
        (false, true) => format!("{kind} {name}"),
        (false, false) => format!("{kind}: {name}"),
    }
}
