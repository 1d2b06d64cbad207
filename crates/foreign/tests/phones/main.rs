//! Recordings as phones make them: what such a file contains counts, and what it does not contain
//! is not lost. Each kind is made here, as text and in Perfetto's form.

mod perfetto;
mod text;

use roundtrip_foreign::Foreign;
use roundtrip_tracefs::{Body, EventContext};

fn read(bytes: &[u8]) -> Foreign {
    roundtrip_foreign::read(bytes).expect("a recording")
}

/// The contexts of all wakings and wakeups, in order.
fn contexts(foreign: &Foreign) -> Vec<EventContext> {
    let of = |body| match body {
        Body::Waking { context, .. } | Body::Wakeup { context, .. } => Some(context),
        _ => None,
    };
    foreign.trace.events.iter().filter_map(|event| of(event.body)).collect()
}
