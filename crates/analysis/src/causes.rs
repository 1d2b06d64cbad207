//! Stores sums of reasons in a run, and reads them again. In a run, what is no process is words,
//! which the caller supplies.

use roundtrip_layers::reasons::{Across, Class, Reason, ReasonKind, Row, Subject};
use roundtrip_run::{Cause, Causes};

/// What names a reason if no process does.
pub type Words = dyn Fn(&Reason) -> String;

/// Sums as a run stores them.
#[must_use]
pub fn stored(across: &Across, words: &Words) -> Causes {
    let across = across.in_words(words);
    let cause = |row: &Row| {
        let (process, class, what) = match &row.subject {
            Subject::Process { name, class } => (Some(name.clone()), Some(class.name()), None),
            Subject::Reason(reason) => (None, None, Some(words(reason))),
            Subject::Words(what) => (None, None, Some(what.clone())),
            Subject::Unknown => (None, None, None),
        };
        let Row { operations, lost_ns, worst_ns, .. } = *row;
        Cause { kind: row.kind.name().to_owned(), process, class, what, operations, lost_ns, worst_ns }
    };
    Causes {
        operations: across.operations(),
        ordinary: across.ordinary(),
        causes: across.rows().into_iter().map(cause).collect(),
    }
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
            (None, Some(what)) => Subject::Words(what.clone()),
            (None, None) => Subject::Unknown,
        };
        let Cause { operations, lost_ns, worst_ns, .. } = *cause;
        Row { kind: ReasonKind::of_name(&cause.kind), subject, operations, lost_ns, worst_ns }
    };
    Across::stored(causes.operations, causes.ordinary, causes.causes.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::Unknown;
    use roundtrip_layers::reasons::{Process, Reasons, Role, Stretch, Why};

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
        all.iter().for_each(|one| across.add(one));
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
