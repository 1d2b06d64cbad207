//! Stores sums of reasons in a run, and reads them again. In a run, what is no process is words,
//! which the caller supplies.

use roundtrip_layers::reasons::{Across, Class, OverTime, Reason, ReasonKind, Row, Subject, Timed, Without};
use roundtrip_run::{Cause, Causes, OTHERS};

/// What names a reason if no process does.
pub type Words = dyn Fn(&Reason) -> String;

/// Of how many causes, those to which most time was lost, a run stores what would be left without
/// them.
const STORED_WITHOUT: usize = 10;

/// Sums as a run stores them.
#[must_use]
pub fn stored(across: &Across, words: &Words) -> Causes {
    let across = across.in_words(words);
    let cause = |(place, row): (usize, &Row)| {
        let (process, class, what) = match &row.subject {
            Subject::Process { name, class } => (Some(name.clone()), Some(class.name()), None),
            Subject::Reason(reason) => (None, None, Some(words(reason))),
            Subject::Words(what) => (None, None, Some(what.clone())),
            Subject::Unknown => (None, None, None),
            Subject::Others => (None, None, Some(OTHERS.to_owned())),
        };
        let Row { operations, lost_ns, worst_ns, .. } = *row;
        let without = (place < STORED_WITHOUT && !row.without.took.is_empty()).then(|| {
            let Without { took, would_take, saved } = row.without.clone();
            roundtrip_run::Without { took, would_take, saved: over_time(&saved) }
        });
        let kind = row.kind.name().to_owned();
        Cause { kind, process, class, what, operations, lost_ns, worst_ns, without }
    };
    Causes {
        operations: across.operations(),
        ordinary: across.ordinary(),
        causes: across.rows().into_iter().enumerate().map(cause).collect(),
        timed: timed(across.timed()),
    }
}

fn timed(of: &Timed) -> Option<roundtrip_run::Timed> {
    let Timed { known, unknown, missed } = of.clone();
    let any = !known.is_empty() || !unknown.is_empty();
    any.then(|| roundtrip_run::Timed { known, unknown, missed: over_time(&missed) })
}

fn over_time(of: &OverTime) -> roundtrip_run::OverTime {
    let (length_log2_ns, counts) = of.counts();
    roundtrip_run::OverTime { length_log2_ns, counts: counts.collect() }
}

fn read_over_time(of: &roundtrip_run::OverTime) -> OverTime {
    OverTime::stored(of.length_log2_ns, of.counts.iter().copied())
}

/// The sums that a run stores.
#[must_use]
pub fn read(causes: &Causes) -> Across {
    let row = |cause: &Cause| {
        let subject = match (&cause.process, &cause.what) {
            (Some(name), _) => {
                let class = cause.class.as_deref().map_or(Class::Unknown, Class::of_name);
                Subject::Process { name: name.clone(), class }
            }
            (None, Some(what)) if what == OTHERS => Subject::Others,
            (None, Some(what)) => Subject::Words(what.clone()),
            (None, None) => Subject::Unknown,
        };
        let Cause { operations, lost_ns, worst_ns, .. } = *cause;
        let without = cause.without.as_ref().map_or_else(Without::default, |of| Without {
            took: of.took.clone(),
            would_take: of.would_take.clone(),
            saved: read_over_time(&of.saved),
        });
        Row { kind: ReasonKind::of_name(&cause.kind), subject, operations, lost_ns, worst_ns, without }
    };
    let timed = causes.timed.as_ref().map_or_else(Timed::default, |of| Timed {
        known: of.known.clone(),
        unknown: of.unknown.clone(),
        missed: read_over_time(&of.missed),
    });
    Across::stored(causes.operations, causes.ordinary, causes.causes.iter().map(row).collect(), timed)
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::Unknown;
    use roundtrip_layers::reasons::{Operation, Process, Reasons, Role, Stretch, Why};

    use super::*;

    fn operation(reason: Reason, name: Option<&str>, ns: u64) -> Reasons {
        let process = name.map(|name| Process { pid: 7, name: name.into(), class: Class::RealTime(50) });
        let why = Why { process, ..Why::of(reason, Role::Server) };
        Reasons::of(&[Stretch { begin_ns: 0, end_ns: ns, why }], 0)
    }

    #[test]
    fn stored_sums_are_the_same_when_they_are_read_and_can_be_added_to() {
        let words = |reason: &Reason| format!("{:?}", reason.kind());
        let all = [
            operation(Reason::Cpu, Some("hog"), 9_000),
            operation(Reason::CpuGone, None, 3_000),
            operation(Reason::Unknown { why: Unknown::EventsLost }, None, 2_000),
        ];
        let mut across = Across::default();
        let of = Operation { start_ns: 5_000_000, duration_ns: 10_000, deadline_ns: Some(4_000) };
        all.iter().for_each(|one| across.add_timed(of, one));
        let stored = stored(&across, &words);
        assert_eq!((stored.operations, stored.causes.len()), (3, 3));
        assert_eq!(stored.causes[0].class.as_deref(), Some("real-time 50"));
        let mut again = read(&stored);
        assert_eq!(super::stored(&again, &words), stored);
        again.merge(&across.in_words(&words));
        let twice = super::stored(&again, &words);
        assert_eq!((twice.operations, twice.causes.len()), (6, 3), "the same causes are the same rows");
        assert_eq!((twice.causes[0].lost_ns, twice.causes[0].worst_ns), (18_000, 9_000));
    }
}
