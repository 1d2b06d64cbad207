//! How background load changes writes, in brief: the condition that changes a write most beyond
//! chance, and in which layer. Must not know any output format.

use std::collections::BTreeSet;

use roundtrip_analysis::interference::{Explained, Mechanism, Round, Side};
use roundtrip_latency::{Interval, median_interval};
use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::Layer;
use roundtrip_run::storage::interference::{Condition, Measured, Pair};
use roundtrip_sorting::SmallSort as _;

/// A condition must change the mean at least by this ratio to be reported.
const NOTABLE: f64 = 1.1;

/// How a condition changes writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// The typical write changes: the ratio of its median to the median without the condition.
    Usual(f64),
    /// Only the mean changes, because some writes take very long: the ratio of the means.
    Some(f64),
}

impl Change {
    /// The ratio of the writer's time with the condition to that without it.
    pub(crate) fn ratio(self) -> f64 {
        let (Self::Usual(ratio) | Self::Some(ratio)) = self;
        ratio
    }
}

/// A condition that changes writes beyond chance.
pub(crate) struct Found<'a> {
    pub(crate) one: &'a Explained<'a>,
    pub(crate) change: Change,
    /// What explains it; `None` if nothing was recorded.
    pub(crate) why: Option<Mechanism>,
}

/// How a condition compares with the control.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// The write changes, and this explains it; `None` if nothing was recorded.
    Changes(Change, Option<Mechanism>),
    /// The write changes, but no part of it moved beyond chance.
    Unexplained(Change),
    /// Not beyond chance, or fewer than six rounds.
    None,
}

/// The control with the same writer and size.
pub(crate) fn control<'a>(all: &'a [Explained<'a>], of: &Explained<'_>) -> Option<&'a Explained<'a>> {
    all.iter().find(|other| {
        other.beside.condition == Condition::Alone
            && other.beside.writer == of.beside.writer
            && other.beside.size_bytes == of.beside.size_bytes
    })
}

/// How much chance alone changes writes, from the controls.
pub(crate) fn chance(all: &[Explained<'_>]) -> Option<Interval> {
    let control = all.iter().find(|one| one.beside.condition == Condition::Alone)?;
    control.beside.response()?.interval
}

/// The conditions that change writes beyond chance. Those that slow writes down come first. Within
/// both groups, the largest effect comes first.
pub(crate) fn found<'a>(all: &'a [Explained<'a>]) -> Vec<Found<'a>> {
    let mut out: Vec<Found<'a>> = all
        .iter()
        .filter(|one| one.beside.condition != Condition::Alone)
        .filter_map(|one| match verdict(one, control(all, one)?) {
            Verdict::Changes(change, why) => Some(Found { one, change, why }),
            Verdict::Unexplained(_) | Verdict::None => None,
        })
        .collect();
    let order = |one: &Found<'_>| {
        let ratio = one.change.ratio();
        (ratio > 1.0, ratio.ln().abs())
    };
    out.small_sort_by(|one, other| {
        let (one, other) = (order(one), order(other));
        other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    out
}

/// Whether some condition changes writes although no part of them that explains it moved.
pub(crate) fn unexplained(all: &[Explained<'_>]) -> bool {
    let others = all.iter().filter(|one| one.beside.condition != Condition::Alone);
    let mut verdicts = others.filter_map(|one| Some(verdict(one, control(all, one)?)));
    verdicts.any(|verdict| matches!(verdict, Verdict::Unexplained(_)))
}

/// Whether a condition makes writes longer or shorter: the intervals of the condition and the
/// control do not overlap, and a part of the write that explains the change moved beyond chance,
/// too.
pub(crate) fn verdict(one: &Explained<'_>, control: &Explained<'_>) -> Verdict {
    let Some(change) = change(one, control) else { return Verdict::None };
    match mechanism(one, control, change) {
        None => Verdict::Changes(change, None),
        Some(None) => Verdict::Unexplained(change),
        Some(why) => Verdict::Changes(change, why),
    }
}

/// What explains a change: of the mechanisms that moved beyond chance, the one that moved most. The
/// outer `None`: nothing was recorded.
fn mechanism(one: &Explained<'_>, control: &Explained<'_>, change: Change) -> Option<Option<Mechanism>> {
    /// It has to be at least this share of all that moved in the same direction.
    const ENOUGH: f64 = 0.25;
    let (own, noise) = (one.sides.as_ref()?, control.sides.as_ref()?);
    if [own, noise].iter().any(|sides| sides.iter().all(|side| side.rounds.is_empty())) {
        return None;
    }
    let which = usize::from(matches!(change, Change::Some(_)));
    let sign = if change.ratio() > 1.0 { 1.0 } else { -1.0 };
    let differences = |sides: &[Side; 2], of: Mechanism| {
        let time = |round: &Round| round.get(&of).map_or(0.0, |times| times[which]);
        let rounds = sides[0].rounds.iter().zip(&sides[1].rounds);
        let mut all: Vec<f64> = rounds.map(|(alone, beside)| sign * (time(beside) - time(alone))).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let all: BTreeSet<Mechanism> =
        own.iter().flat_map(|side| &side.rounds).flat_map(|round| round.keys().copied()).collect();
    let median = |of: &Mechanism| roundtrip_latency::quantile(&differences(own, *of), 0.5).unwrap_or(0.0);
    let whole: f64 = all.iter().map(|of| median(of).max(0.0)).sum();
    let moved = |of: &Mechanism| {
        let (found, chance) =
            (median_interval(&differences(own, *of)), median_interval(&differences(noise, *of)));
        let beyond = found.zip(chance).is_some_and(|(found, chance)| found.low > chance.high.max(0.0));
        beyond && median(of) >= whole * ENOUGH
    };
    let known = |of: &Mechanism| *of != Mechanism::Reason(ReasonKind::Unknown);
    let moved = all.into_iter().filter(known).filter(moved);
    Some(moved.max_by(|one, other| median(one).total_cmp(&median(other))))
}

/// How a condition changes writes beyond chance. `None` if it does not, or for fewer than six
/// rounds.
fn change(one: &Explained<'_>, control: &Explained<'_>) -> Option<Change> {
    let noise = control.beside.response()?.interval?;
    let response = one.beside.response()?;
    let own = response.interval?;
    let clear = own.low > noise.high.max(1.0) || own.high < noise.low.min(1.0);
    // Means have no interval. Instead, every round must exceed all rounds of the control.
    let [of_control, mut means] = [control, one].map(|of| means(&of.beside.pairs));
    let beyond = means.iter().copied().fold(f64::INFINITY, f64::min)
        > of_control.iter().copied().fold(1.0, f64::max) * NOTABLE;
    means.sort_by(f64::total_cmp);
    let mean =
        roundtrip_latency::quantile(&means, 0.5).filter(|mean| beyond && *mean > response.median * NOTABLE);
    match (mean, clear) {
        (Some(mean), _) => Some(Change::Some(mean)),
        (None, true) => Some(Change::Usual(response.median)),
        (None, false) => None,
    }
}

/// A mechanism in words that follow "longer" or "shorter".
pub(crate) fn because(why: Mechanism) -> &'static str {
    match why {
        Mechanism::IdleExit => "the time in which CPUs leave idle states",
        Mechanism::Reason(ReasonKind::OwnWork) => "the work of the writer and its helpers",
        Mechanism::Reason(ReasonKind::SlowCpu) => "low frequencies of CPUs",
        Mechanism::Reason(ReasonKind::Cpu) => "waits for a CPU behind other threads",
        Mechanism::Reason(ReasonKind::Interrupted) => "interrupts",
        Mechanism::Reason(ReasonKind::Thread | ReasonKind::BusyPool) => "waits for other programs' threads",
        Mechanism::Reason(ReasonKind::Device) => "the device",
        Mechanism::Reason(ReasonKind::BehindIo) => "other requests and journal commits before its own",
        Mechanism::Reason(ReasonKind::Throttled) => "limits that hold it back",
        Mechanism::Reason(ReasonKind::Sleep) => "sleeps",
        Mechanism::Reason(ReasonKind::Stopped) => "stops",
        Mechanism::Reason(ReasonKind::WakeUp) => "the wakeup of its threads",
        Mechanism::Reason(ReasonKind::CpuGone) => "CPUs that run nobody",
        Mechanism::Reason(ReasonKind::Unknown) => "what no event shows",
    }
}

/// For each round, the ratio of the mean write with the condition to the mean write without it.
fn means(pairs: &[Pair]) -> Vec<f64> {
    let mean = |of: &Measured| of.elapsed_ns as f64 / f64::from(of.all_calls.max(1));
    pairs
        .iter()
        .filter(|pair| pair.alone.elapsed_ns > 0)
        .map(|pair| mean(&pair.beside) / mean(&pair.alone))
        .collect()
}

/// The layer whose time changes most in the same direction as the whole write. Compares medians if
/// the typical write changes, else means. `None` without events.
pub(crate) fn layer(found: &Found<'_>) -> Option<Layer> {
    let [alone, beside] = found.one.sides.as_ref()?;
    let time = |side: &Side, layer: Layer| match found.change {
        Change::Usual(_) => side.breakdown.percentile_ns(layer, 50.0).unwrap_or(0) as f64,
        Change::Some(_) => side.breakdown.mean_ns(layer),
    };
    let sign = if found.change.ratio() > 1.0 { 1.0 } else { -1.0 };
    let change = |layer: Layer| sign * (time(beside, layer) - time(alone, layer));
    let most = Layer::ALL.into_iter().max_by(|one, other| change(*one).total_cmp(&change(*other)))?;
    (change(most) > 0.0).then_some(most)
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::storage::{Breakdown, Layers, Piece, Write};
    use roundtrip_run::storage::Call;
    use roundtrip_run::storage::interference::Beside;

    use super::*;

    /// A block of writes that take `each_ns` each. Some of them wait additionally.
    fn block(each_ns: u64, waits_ns: u64) -> Measured {
        let call = |at: u64| Call { start_ns: at * 1_000_000, end_ns: at * 1_000_000 + each_ns };
        Measured {
            calls: (1..=5).map(call).collect(),
            elapsed_ns: 5 * each_ns + waits_ns,
            all_calls: 5,
            ..Measured::default()
        }
    }

    fn compared(condition: Condition, each_ns: u64, waits_ns: u64) -> Beside {
        let pair = |round: u64| Pair {
            alone: block(100_000 + round * 100, 0),
            beside: block(each_ns + (7 * round % 5) * 100, waits_ns),
            ..Pair::default()
        };
        Beside {
            condition,
            what: String::new(),
            writer: 0,
            writer_beside: 0,
            size_bytes: 4096,
            pairs: (0..9).map(pair).collect(),
        }
    }

    /// Calls, of which the last waits very long for a CPU.
    fn side(device_ns: u64) -> Side {
        let mut breakdown = Breakdown::default();
        for (tid, wake_ns) in [(1, 0), (2, 0), (3, 1_000_000 * device_ns)] {
            let end_ns = device_ns + wake_ns;
            let piece = |begin_ns, end_ns, layer| Piece { begin_ns, end_ns, layer };
            let pieces = vec![piece(0, device_ns, Layer::Device), piece(device_ns, end_ns, Layer::Wake)];
            breakdown.add(Write { start_ns: 0, end_ns, tid }, Layers { pieces, ..Layers::default() });
        }
        Side { breakdown, ..Side::default() }
    }

    #[test]
    fn the_layer_of_a_typical_write_is_found_despite_outliers() {
        let beside = compared(Condition::Fsync, 130_000, 0);
        let one = Explained { beside: &beside, sides: Some([side(100), side(200)]) };
        let of = |change| layer(&Found { one: &one, change, why: None });
        assert_eq!(of(Change::Usual(1.3)), Some(Layer::Device));
        assert_eq!(of(Change::Some(1.3)), Some(Layer::Wake));
    }

    #[test]
    fn conditions_that_slow_writes_come_first_and_chance_effects_are_left_out() {
        let all = [
            compared(Condition::Alone, 100_000, 0),
            compared(Condition::HogSame, 50_000, 0),
            compared(Condition::Timers, 100_100, 0),
            compared(Condition::Fsync, 130_000, 0),
            // Half of the writes are as fast as without the condition.
            compared(Condition::IoLimit, 100_000, 9_500_000),
        ];
        let all: Vec<_> = all.iter().map(|beside| Explained { beside, sides: None }).collect();
        let found = found(&all);
        let conditions: Vec<_> = found.iter().map(|one| one.one.beside.condition).collect();
        assert_eq!(conditions, [Condition::IoLimit, Condition::Fsync, Condition::HogSame]);
        assert!(matches!(found[0].change, Change::Some(ratio) if (19.0..21.0).contains(&ratio)));
        assert!(matches!(found[1].change, Change::Usual(ratio) if (1.28..1.32).contains(&ratio)));
    }

    /// Sides of nine rounds: the time of a mechanism in each round, alone and beside.
    fn moved(alone_ns: f64, beside_ns: f64) -> Option<[Side; 2]> {
        let wake = Mechanism::Reason(ReasonKind::WakeUp);
        let side = |ns: f64| {
            let round = |at: u32| Round::from([(wake, [ns + f64::from(at % 4), ns + f64::from(at % 4)])]);
            Side { rounds: (0..9).map(round).collect(), ..Side::default() }
        };
        Some([side(alone_ns), side(beside_ns)])
    }

    #[test]
    fn a_write_is_shorter_only_if_a_part_of_it_that_explains_it_is() {
        let (alone, hog) = (compared(Condition::Alone, 100_000, 0), compared(Condition::HogSame, 50_000, 0));
        let control = Explained { beside: &alone, sides: moved(40_000.0, 40_000.0) };
        let of = |sides| verdict(&Explained { beside: &hog, sides }, &control);
        let wake = Some(Mechanism::Reason(ReasonKind::WakeUp));
        assert!(
            matches!(of(moved(40_000.0, 1_000.0)), Verdict::Changes(Change::Usual(_), why) if why == wake)
        );
        assert!(matches!(of(moved(40_000.0, 40_000.0)), Verdict::Unexplained(_)));
        assert!(matches!(of(None), Verdict::Changes(_, None)));
    }

    #[test]
    fn intervals_that_overlap_with_the_controls_are_no_difference() {
        // The control varies from 0.94 to 1.12, and the median beside the hog is outside of that.
        let spread = |condition, base_ns: u64| {
            let mut beside = compared(condition, base_ns, 0);
            for (round, pair) in (0..).zip(&mut beside.pairs) {
                pair.beside = block(base_ns + (7 * round % 9) * 2_000, 0);
            }
            beside
        };
        let (alone, hog) = (spread(Condition::Alone, 95_000), spread(Condition::HogSame, 103_000));
        let [control, hog] = [&alone, &hog].map(|beside| Explained { beside, sides: None });
        let median = hog.beside.response().unwrap().median;
        assert!(median > control.beside.response().unwrap().interval.unwrap().high);
        assert_eq!(verdict(&hog, &control), Verdict::None);
    }
}
