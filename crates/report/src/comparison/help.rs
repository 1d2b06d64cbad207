//! What would help where runs do not tell: how many are needed, how long they take, and what they
//! can find at all.

use roundtrip_analysis::compare::{Basis, Compared, Outlook, SMALL, Verdict};
use roundtrip_analysis::figures::Bounds;

use super::sentence::{FIRST, distinguishing, percent, place};
use super::{Comparison, MOST_TIMES};
use crate::text::inert;

/// What would help where the runs do not tell: by how much a figure must differ to be found by
/// these runs, and how many are needed.
pub(crate) fn help(comparison: &Comparison<'_>) -> Option<String> {
    let unclear = || comparison.figures.iter().filter(|one| one.verdict == Verdict::CannotTell);
    let by_need = |one: &&Compared| one.runs_needed;
    let first =
        FIRST.iter().find_map(|name| unclear().find(|one| one.name == *name && by_need(one).is_some()));
    let first = first.or_else(|| unclear().find(|one| by_need(one).is_some()))?;
    let (Bounds { low, high }, needed) = (first.bounds?, first.runs_needed?);
    let runs = if first.basis == Basis::Pairs { "pairs" } else { "runs a side" };
    let half = (high / low).sqrt() - 1.0;
    if half >= MOST_TIMES {
        return None;
    }
    let place = place(first, &distinguishing(&comparison.figures.iter().collect::<Vec<_>>()));
    let of = if place.is_empty() { first.name.clone() } else { format!("{} ({place})", first.name) };
    let most = if needed >= 10_000 { "more than 10000" } else { "about" };
    let time = comparison.pair_ns.filter(|_| first.basis == Basis::Pairs && needed < 10_000);
    let time = time.map_or_else(String::new, |ns| format!(", which take {}", long(ns * needed as u64)));
    let needed = if needed >= 10_000 { String::new() } else { format!(" {needed}") };
    Some(format!(
        "By their spread, these {} {runs} find a difference in {of} from about {} on; for a verdict on what they \
         show, {most}{needed} {runs} are needed{time}.",
        first.runs[0].min(first.runs[1]),
        percent(half),
    ))
}

/// A duration in seconds, minutes or hours: "40 s", "3 min".
fn long(ns: u64) -> String {
    let seconds = ns.div_ceil(1_000_000_000);
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// What pairs that are still to be measured can find: "10 pairs find a difference in p50 from about
/// 7.1% on". `done` of `pairs` took `pair_ns` each, in nanoseconds.
#[must_use]
pub fn outlook(of: &Outlook, done: u64, pairs: u64, pair_ns: u64) -> String {
    let labels = of.of.iter().flatten().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
    let name =
        if labels.is_empty() { of.name.clone() } else { format!("{} ({})", of.name, inert::name(&labels)) };
    let small = percent(SMALL);
    let begin = format!("By the first {done} pairs, {pairs} pairs");
    let found = match of.finds {
        None => format!("{begin} are too few to show any difference in one of {} figures", of.figures),
        Some(finds) => {
            format!("{begin} find a difference in {name} from about {} on, in 9 of 10 tries", percent(finds))
        }
    };
    if of.needed <= pairs {
        return found + ".";
    }
    let time = long(pair_ns.saturating_mul(of.needed));
    let fewer = if of.finds.is_none() { "; or compare fewer --figures" } else { "" };
    format!("{found}; for {small}, about {} pairs are needed (--pairs), which take {time}{fewer}.", of.needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pairs_can_find_is_said_before_they_are_measured() {
        let of = |finds, needed| Outlook {
            name: "p50".into(),
            of: Some(vec![("caller", "fifo:99".into())]),
            figures: 30,
            finds,
            needed,
        };
        assert_eq!(
            outlook(&of(Some(0.071), 21), 4, 10, 9_000_000_000),
            "By the first 4 pairs, 10 pairs find a difference in p50 (fifo:99) from about 7.1% on, in 9 of 10 \
             tries; for 5.0%, about 21 pairs are needed (--pairs), which take 4 min."
        );
        assert!(outlook(&of(Some(0.02), 5), 4, 10, 1).ends_with("from about 2.0% on, in 9 of 10 tries."));
        let none = outlook(&of(None, 11), 4, 10, 1_000_000_000);
        assert!(none.contains("10 pairs are too few to show any difference in one of 30 figures;"), "{none}");
        assert!(
            none.ends_with(
                "about 11 pairs are needed (--pairs), which take 11 s; or compare fewer --figures."
            )
        );
    }
}
