//! One kernel event as Perfetto's message. Events for which Perfetto has no message are written as
//! generic ones with their known fields. Fields that the recording lacks are omitted. Must not know
//! files or CPUs.

mod generic;
mod irq;
mod kernel;
mod sched;

use roundtrip_perfetto::schema::{event as ftrace, print};
use roundtrip_perfetto::write::Message;
use roundtrip_tracefs::{Body, Event, Name, Trace};

use self::generic::{generic, other};
use super::state::Coding;

/// The kernel function in an event. Perfetto requires it as a number, with its name written once.
pub(super) fn symbol(body: &Body) -> Option<Name> {
    match *body {
        Body::BlockedReason { caller: name, .. } | Body::WorkStart { function: name, .. } => {
            (name != Name::default()).then_some(name)
        }
        _ => None,
    }
}

/// The number of a function's name; 0 for none.
pub(super) fn symbol_id(name: Name) -> u32 {
    name.0
}

/// The fields of a `FtraceEvent`.
pub(super) fn event(message: &mut Message, trace: &Trace, event: &Event, coding: Coding) {
    message.uint(ftrace::timestamp, event.time_ns).uint(ftrace::pid, event.tid);
    let known = sched::places(message, trace, event, coding)
        || sched::of_one_thread(message, trace, event)
        || irq::interrupts(message, trace, event)
        || kernel::on_a_cpu(message, event)
        || kernel::binder(message, event)
        || by_text(message, trace, event);
    if !known {
        // A kind of event that is newer than this file must not be omitted silently.
        generic(message, "unknown_to_roundtrip", |_| {});
    }
}

/// Writes an event that consists of a text. Returns whether the event was one.
fn by_text(message: &mut Message, trace: &Trace, event: &Event) -> bool {
    let text = |name: Name| trace.names.text(name);
    match event.body {
        // Perfetto interprets the text as a counter, or as the start or end of a slice. It treats
        // any other text as an error.
        Body::Print { text: written } if marks(text(written)) => {
            _ = message.nested(ftrace::print, |one| {
                one.text(print::buf, &format!("{}\n", text(written)));
            })
        }
        Body::Print { text: written } => generic(message, "print", |fields| {
            fields.text("buf", text(written));
        }),
        Body::Other { event: name, .. } => other(message, trace, event, text(name)),
        _ => return false,
    };
    true
}

/// Whether a text in `trace_marker` has the common format of Android's and Perfetto's tools
/// (`B|PID|NAME`, `E|PID`, `C|PID|NAME|VALUE` and similar; Android's `libs/cutils/trace`).
fn marks(text: &str) -> bool {
    let mut parts = text.split('|');
    let (kind, pid, rest) = (parts.next(), parts.next(), parts.count());
    let enough = match kind {
        Some("E") => 0,
        Some("B" | "I") => 1,
        Some("C" | "S" | "F" | "N") => 2,
        Some("G" | "H" | "T") => 3,
        _ => return false,
    };
    pid.is_none_or(|pid| pid.parse::<u32>().is_ok()) && rest >= enough
}
