//! Finds CPUs whose clocks differ, from events on two CPUs whose order is known: a binder
//! transaction is sent before it is received, and a request is issued to a device before it is
//! completed. Where these events bound the difference, the times are corrected. Must not know what
//! events are used for.

use std::collections::{BTreeMap, HashMap};

use roundtrip_tracefs::{Body, Event, Trace};

use crate::Foreign;

/// Bounds between more CPUs than this are not evaluated.
const MAX_CPUS: usize = 256;

/// A request that completes longer than this before it is issued, in nanoseconds, is another
/// request for the same sectors, which was in flight when the recording began.
const MAX_REQUEST_NS: i64 = 1_000_000;

/// By two CPUs: how much later, in nanoseconds, the clock of the second would have to be so that no
/// event on it precedes its cause on the first. Negative if it may even be earlier.
type Bounds = BTreeMap<(u32, u32), i64>;

/// The correction of a CPU's clock, in nanoseconds, and the least and the most that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shift {
    ns: i64,
    least_ns: Option<i64>,
    most_ns: Option<i64>,
}

/// Corrects the times of CPUs whose clocks differ, and notes it.
pub(crate) fn mend(foreign: &mut Foreign) {
    let bounds = bounds(&foreign.trace);
    let worst_ns = bounds.values().copied().max().unwrap_or(0);
    if worst_ns <= 0 {
        return;
    }
    let us = |ns: i64| format!("{:.1} us", ns as f64 / 1e3);
    let Some(shifts) = shifts(&bounds) else {
        foreign.clocks_disagree = true;
        foreign.notes.push(format!(
            "the clocks of its CPUs differ, and by different times: events come up to {} before those that cause them",
            us(worst_ns)
        ));
        return;
    };
    for (cpu, shift) in &shifts {
        let fits = match (shift.least_ns, shift.most_ns) {
            (Some(least), Some(most)) => format!("{} to {} fit", us(least), us(most)),
            (Some(least), None) => format!("at least {} fit", us(least)),
            (None, Some(most)) => format!("at most {} fit", us(most)),
            (None, None) => continue,
        };
        foreign.notes.push(format!(
            "the clocks of its CPUs differ: events of CPU {cpu} were moved by {} ({fits}), because others come before \
             those that cause them",
            us(shift.ns)
        ));
    }
    apply(&shifts, &mut foreign.trace);
}

fn apply(shifts: &BTreeMap<u32, Shift>, trace: &mut Trace) {
    let moved = |cpu: u32, ns: u64| shifts.get(&cpu).map_or(ns, |shift| ns.saturating_add_signed(shift.ns));
    trace.retime(|event| moved(event.cpu, event.time_ns));
    for loss in &mut trace.losses {
        if loss.after_ns > 0 {
            loss.after_ns = moved(loss.cpu, loss.after_ns);
        }
        if loss.before_ns < u64::MAX {
            loss.before_ns = moved(loss.cpu, loss.before_ns);
        }
    }
    trace.losses.sort_by_key(|loss| (loss.after_ns, loss.cpu));
    for (&cpu, from_ns) in &mut trace.complete_from_ns {
        if *from_ns > 0 {
            *from_ns = moved(cpu, *from_ns);
        }
    }
}

/// What identifies an event and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Transaction(i32),
    /// Device and sector.
    Request(u64, u64),
}

/// The CPU and time of a cause and of its effect.
#[derive(Default)]
struct Pair {
    ends: [Option<(u32, u64)>; 2],
    /// Whether there are several causes or effects.
    several: bool,
}

fn bounds(trace: &Trace) -> Bounds {
    let mut found: HashMap<Key, Pair> = HashMap::new();
    for event in trace.all() {
        if let Some((key, end)) = key(trace, &event) {
            let pair = found.entry(key).or_default();
            pair.several |= pair.ends[end].replace((event.cpu, event.time_ns)).is_some();
        }
    }
    let mut bounds = Bounds::new();
    for (key, pair) in found.into_iter().filter(|(_, pair)| !pair.several) {
        // If there are several, or if one of them was not recorded, they might be paired wrongly.
        let [Some((from, cause_ns)), Some((to, effect_ns))] = pair.ends else { continue };
        let ns = cause_ns.cast_signed().saturating_sub(effect_ns.cast_signed());
        if from != to && (matches!(key, Key::Transaction(_)) || ns <= MAX_REQUEST_NS) {
            let most = bounds.entry((from, to)).or_insert(ns);
            *most = ns.max(*most);
        }
    }
    bounds
}

/// What an event belongs to, and whether it is the cause (0) or the effect (1).
fn key(trace: &Trace, event: &Event) -> Option<(Key, usize)> {
    match event.body {
        Body::BinderTransaction { debug_id, .. } => Some((Key::Transaction(debug_id), 0)),
        Body::BinderReceived { debug_id } => Some((Key::Transaction(debug_id), 1)),
        Body::Other { event: name, .. } => {
            let end = match trace.names.text(name) {
                "block/block_rq_issue" => 0,
                "block/block_rq_complete" => 1,
                _ => return None,
            };
            let number = |field| trace.number(event, field);
            // A flush has no sector, so several would look alike.
            let sector =
                number("sector").filter(|_| number("nr_sector").is_some_and(|sectors| sectors > 0))?;
            Some((Key::Request(number("dev")?, sector), end))
        }
        _ => None,
    }
}

/// The smallest set of corrections after which every effect follows its cause; `None` if there is
/// none. The CPU with the lowest number keeps its clock.
fn shifts(bounds: &Bounds) -> Option<BTreeMap<u32, Shift>> {
    let mut found: BTreeMap<u32, Shift> = BTreeMap::new();
    for &(from, to) in bounds.keys() {
        found.entry(from).or_default();
        found.entry(to).or_default();
    }
    if found.len() > MAX_CPUS {
        return None;
    }
    let zero = Shift { ns: 0, least_ns: Some(0), most_ns: Some(0) };
    if let Some(mut first) = found.first_entry() {
        first.insert(zero);
    }
    // Bounds along all paths from and to the first CPU.
    let settled = (0..=found.len()).any(|_| {
        let mut changed = false;
        for (&(from, to), &ns) in bounds {
            let (before, after) = (found[&from], found[&to]);
            let least_ns = after.least_ns.max(before.least_ns.map(|least| least.saturating_add(ns)));
            let most = after.most_ns.map(|most| most.saturating_sub(ns));
            let most_ns = match (before.most_ns, most) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            changed |= least_ns != after.least_ns || most_ns != before.most_ns;
            found.entry(to).or_default().least_ns = least_ns;
            found.entry(from).or_default().most_ns = most_ns;
        }
        !changed
    });
    if !settled {
        return None;
    }
    for shift in found.values_mut() {
        shift.ns = match (shift.least_ns, shift.most_ns) {
            (Some(least), Some(most)) if least <= 0 && most >= 0 => 0,
            (Some(least), Some(most)) => least.midpoint(most),
            (Some(least), None) => least.max(0),
            (None, Some(most)) => most.min(0),
            (None, None) => 0,
        };
    }
    // A clock that fits by itself may not fit to those that were corrected.
    let fits = (0..=found.len()).any(|_| {
        let mut changed = false;
        for (&(from, to), &ns) in bounds {
            let needed = found[&from].ns.saturating_add(ns);
            if found[&to].ns < needed {
                found.entry(to).or_default().ns = needed;
                changed = true;
            }
        }
        !changed
    });
    found.retain(|_, shift| shift.ns != 0);
    fits.then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(bounds: &[((u32, u32), i64)]) -> Option<Vec<(u32, i64)>> {
        let shifts = shifts(&bounds.iter().copied().collect())?;
        Some(shifts.into_iter().map(|(cpu, shift)| (cpu, shift.ns)).collect())
    }

    #[test]
    fn a_clock_is_moved_to_the_middle_of_what_fits_and_only_if_it_must_be() {
        assert_eq!(moved(&[((0, 1), 30), ((1, 0), -80)]), Some(vec![(1, 55)]));
        assert_eq!(moved(&[((0, 1), -80), ((1, 0), 30)]), Some(vec![(1, -55)]));
        assert_eq!(moved(&[((0, 1), 30)]), Some(vec![(1, 30)]), "one direction bounds one side");
        let third = [((0, 1), 30), ((1, 0), -80), ((0, 2), -10), ((2, 0), -10)];
        assert_eq!(moved(&third), Some(vec![(1, 55)]), "the clock of CPU 2 fits");
    }

    #[test]
    fn clocks_that_drift_have_no_correction() {
        assert_eq!(moved(&[((0, 1), 30), ((1, 0), 5)]), None);
    }
}
