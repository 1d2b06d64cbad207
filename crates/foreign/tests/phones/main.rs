//! Recordings as phones make them: what such a file contains counts, and what it does not contain
//! is not lost. Each kind is made here, as text and in Perfetto's form.

mod perfetto;
mod text;

use roundtrip_foreign::Foreign;
use roundtrip_tracefs::{Body, EventContext};

fn read(bytes: &[u8]) -> Foreign {
    roundtrip_foreign::read(bytes).expect("a recording")
}

/// The group, thread or value of each event of control groups, in order.
fn groups(foreign: &Foreign) -> Vec<(String, u64)> {
    let of = |event: &roundtrip_tracefs::Event| {
        let field = |names: [&str; 2]| names.into_iter().find_map(|name| foreign.trace.field(event, name));
        let number = field(["pid", "val"]).and_then(|value| value.number()).unwrap_or(0);
        Some((field(["dst_path", "path"])?.text()?.to_owned(), number))
    };
    foreign.trace.events.iter().filter_map(of).collect()
}

/// The contexts of all wakings and wakeups, in order.
fn contexts(foreign: &Foreign) -> Vec<EventContext> {
    let of = |body| match body {
        Body::Waking { context, .. } | Body::Wakeup { context, .. } => Some(context),
        _ => None,
    };
    foreign.trace.events.iter().filter_map(|event| of(event.body)).collect()
}
