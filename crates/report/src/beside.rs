//! How background load changes writes, in brief: the condition that changes a write most beyond
//! chance, and in which layer. Must not know any output format.

use analysis::interference::{Explained, Side};
use latency::Interval;
use layers::storage::Layer;
use run::storage::interference::{Condition, Measured, Pair};

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
        .filter_map(|one| Some(Found { one, change: change(one, control(all, one)?)? }))
        .collect();
    let order = |one: &Found<'_>| {
        let ratio = one.change.ratio();
        (ratio > 1.0, ratio.ln().abs())
    };
    out.sort_by(|one, other| {
        let (one, other) = (order(one), order(other));
        other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    out
}

/// How a condition changes writes beyond chance. `None` if it does not, or for fewer than six
/// rounds.
pub(crate) fn change(one: &Explained<'_>, control: &Explained<'_>) -> Option<Change> {
    let noise = control.beside.response()?.interval?;
    let response = one.beside.response()?;
    let own = response.interval?;
    let clear =
        (own.low > 1.0 && response.median > noise.high) || (own.high < 1.0 && response.median < noise.low);
    // Means have no interval. Instead, every round must exceed all rounds of the control.
    let [of_control, mut means] = [control, one].map(|of| means(&of.beside.pairs));
    let beyond = means.iter().copied().fold(f64::INFINITY, f64::min)
        > of_control.iter().copied().fold(1.0, f64::max) * NOTABLE;
    means.sort_by(f64::total_cmp);
    let mean = latency::quantile(&means, 0.5).filter(|mean| beyond && *mean > response.median * NOTABLE);
    match (mean, clear) {
        (Some(mean), _) => Some(Change::Some(mean)),
        (None, true) => Some(Change::Usual(response.median)),
        (None, false) => None,
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
        Change::Usual(_) => side.breakdown.percentile_ns(layer, 50.0) as f64,
        Change::Some(_) => side.breakdown.mean_ns(layer),
    };
    let sign = if found.change.ratio() > 1.0 { 1.0 } else { -1.0 };
    let change = |layer: Layer| sign * (time(beside, layer) - time(alone, layer));
    let most = Layer::ALL.into_iter().max_by(|one, other| change(*one).total_cmp(&change(*other)))?;
    (change(most) > 0.0).then_some(most)
}

#[cfg(test)]
mod tests {
    use layers::storage::{Breakdown, Layers, Piece, Write};
    use run::storage::Call;
    use run::storage::interference::Beside;

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
        let of = |change| layer(&Found { one: &one, change });
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
}
