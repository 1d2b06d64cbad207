//! Slow calls and their causes as rows: CSV for programs and spreadsheets, Markdown for people.
//! Pure: explanations in, text out.

use roundtrip_analysis::slow_calls::Explained;
use roundtrip_layers::{Cause, Kind};

use crate::explanation::sentence::answer;
use crate::explanation::summary::cause_of;
use crate::explanation::words::{owner, what};
use crate::text::csv::Line;
use crate::text::inert;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// One line for each cause of each slow call: the slowest call and its largest cause come first. A
/// call without a known cause has one line.
#[must_use]
pub fn csv(explained: &[Explained]) -> String {
    let mut out = String::from(
        "number,call,latency_ns,deadline_ns,usual_ns,cause,kind,excess_ns,owner,thread,tid,name,cpu,answer\n",
    );
    for one in explained {
        let causes = &one.explanation.causes;
        for (number, cause) in (1..).zip(causes) {
            row(&mut out, one, Some((number, cause)));
        }
        if causes.is_empty() {
            row(&mut out, one, None);
        }
    }
    out
}

fn row(out: &mut String, one: &Explained, cause: Option<(usize, &Cause)>) {
    let thread = cause.and_then(|(_, cause)| cause.thread.as_ref());
    Line::of(out)
        .field(one.call.number)
        .field(inert::line(&one.call.what))
        .fields([one.explanation.duration_ns(), one.deadline_ns])
        .known(one.call.trip.usual_ns)
        .known(cause.map(|(number, _)| number))
        .known(cause.map(|(_, cause)| kind(cause.kind)))
        .known(cause.map(|(_, cause)| cause.excess_ns))
        .known(cause.map(|(_, cause)| owner(cause.owner)))
        .known(thread.map(|thread| inert::line(&thread.comm)))
        .known(thread.map(|thread| thread.tid))
        .known(
            cause
                .and_then(|(_, cause)| cause.what.as_ref())
                .map(|name| inert::line(&what(name)).into_owned()),
        )
        .known(cause.and_then(|(_, cause)| cause.cpu))
        .field(inert::line(&answer(&one.explanation)))
        .end();
}

/// The name of a kind in JSON.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Ordinary => "ordinary",
        Kind::Work => "work",
        Kind::SlowCpu => "slow_cpu",
        Kind::Competitor => "competitor",
        Kind::Interrupt => "interrupt",
        Kind::BusyPool => "busy_pool",
        Kind::Sleep => "sleep",
        Kind::Io => "io",
        Kind::WaitedFor => "waited_for",
        Kind::Stopped => "stopped",
        Kind::WakeUp => "wake_up",
        Kind::Throttled => "throttled",
        Kind::Gap => "gap",
        Kind::CannotTell => "cannot_tell",
    }
}

/// A table of the slow calls, slowest first.
#[must_use]
pub fn markdown(explained: &[Explained]) -> String {
    let mut table = Table::new([
        Column::number("number", ""),
        Column::text("call"),
        Column::number("took", ""),
        Column::number("deadline", ""),
        Column::number("usually", ""),
        Column::text("cause"),
        Column::text("explanation"),
    ]);
    for one in explained {
        table.row([
            one.call.number.to_string(),
            one.call.what.clone(),
            duration(one.explanation.duration_ns() as f64),
            duration(one.deadline_ns as f64),
            one.call.trip.usual_ns.map_or_else(|| "-".to_owned(), |ns| duration(ns as f64)),
            cause_of(one),
            answer(&one.explanation),
        ]);
    }
    table.markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_word_that_json_has() {
        for one in [
            Kind::Ordinary,
            Kind::Work,
            Kind::SlowCpu,
            Kind::Competitor,
            Kind::Interrupt,
            Kind::BusyPool,
            Kind::Sleep,
            Kind::Io,
            Kind::WaitedFor,
            Kind::Stopped,
            Kind::WakeUp,
            Kind::Throttled,
            Kind::Gap,
            Kind::CannotTell,
        ] {
            assert_eq!(roundtrip_stored::to_text(&one).unwrap(), format!("\"{}\"", kind(one)));
        }
    }
}
