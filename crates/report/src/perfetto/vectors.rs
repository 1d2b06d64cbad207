//! Our own tracks for what Perfetto does not show: x86's interrupt vectors other than the timer,
//! interrupts from other CPUs, and gaps where events were lost. Must not know the format.

use std::collections::BTreeMap;

use roundtrip_tracefs::{Body, Name, Trace};

use super::track::{Annotation, Parent, Slice, Track};

/// A track for each CPU that has interrupt vectors other than the timer, or interrupts from other
/// CPUs. Leaves out interrupts whose start or end was not recorded.
pub(super) fn tracks(trace: &Trace) -> Vec<Track> {
    let mut open: BTreeMap<(u32, Name), u64> = BTreeMap::new();
    let mut slices: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    for event in trace.all() {
        match event.body {
            Body::VectorEntry { kind: name } | Body::IpiEntry { reason: name }
                if trace.names.text(name) != "local_timer" =>
            {
                open.insert((event.cpu, name), event.time_ns);
            }
            Body::VectorExit { kind: name } | Body::IpiExit { reason: name } => {
                if let Some(begin_ns) = open.remove(&(event.cpu, name)) {
                    slices.entry(event.cpu).or_default().push(Slice {
                        name: trace.names.text(name).to_owned(),
                        begin_ns,
                        end_ns: event.time_ns,
                        ..Slice::default()
                    });
                }
            }
            _ => {}
        }
    }
    let track =
        |(cpu, slices)| Track { name: format!("CPU {cpu} other interrupts"), parent: Parent::Top, slices };
    slices.into_iter().map(track).collect()
}

/// A track for each CPU that lost events, so that a gap does not look like a quiet period.
pub(super) fn losses(trace: &Trace) -> Vec<Track> {
    let last_ns = trace.stopped_ns.or_else(|| trace.last_ns()).unwrap_or(0);
    let mut slices: BTreeMap<u32, Vec<Slice>> = BTreeMap::new();
    for loss in trace.losses.iter().filter(|loss| loss.after_ns > 0) {
        let name = if loss.damaged { "events damaged" } else { "events lost" };
        slices.entry(loss.cpu).or_default().push(Slice {
            name: name.to_owned(),
            begin_ns: loss.after_ns,
            end_ns: loss.before_ns.min(last_ns).max(loss.after_ns),
            annotations: vec![match loss.events {
                Some(events) => Annotation::uint("events", events),
                None => Annotation::text("events", "not counted"),
            }],
            ..Slice::default()
        });
    }
    let track =
        |(cpu, slices)| Track { name: format!("CPU {cpu} not recorded"), parent: Parent::Top, slices };
    slices.into_iter().map(track).collect()
}
