//! Which calls each thread served, from the driver's events.

use std::collections::HashMap;

use roundtrip_tracefs::{Body, Event};

/// A call that a thread served for another caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Its start; `None` if that was not recorded.
    pub(crate) begin_ns: Option<u64>,
    pub(crate) end_ns: u64,
    /// The process of its caller.
    pub(crate) caller: u32,
    /// Its caller; 0 if the event does not name it.
    pub(crate) thread: u32,
    /// Its code; `None` if its start was not recorded.
    pub(crate) code: Option<u32>,
}

/// By thread: the calls that it replied to, in order, without those that it served within another
/// one.
pub(super) fn served(events: &[Event]) -> HashMap<u32, Vec<Served>> {
    // By number: who sent a transaction, and the code if it is a request.
    let mut sent: HashMap<i32, (u32, Option<u32>)> = HashMap::new();
    // By thread: what it received and has not replied to yet, when, and the code.
    let mut open: HashMap<u32, Vec<(u64, Option<u32>)>> = HashMap::new();
    let mut out: HashMap<u32, Vec<Served>> = HashMap::new();
    for event in events {
        match event.body {
            Body::BinderTransaction { debug_id, reply, code, to_proc, to_thread, .. } => {
                sent.insert(debug_id, (event.tid, (!reply).then_some(code)));
                if !reply {
                    continue;
                }
                let open = open.entry(event.tid).or_default();
                let began = open.pop();
                if open.is_empty() {
                    let (begin_ns, code) = (began.map(|began| began.0), began.and_then(|began| began.1));
                    let served =
                        Served { begin_ns, end_ns: event.time_ns, caller: to_proc, thread: to_thread, code };
                    out.entry(event.tid).or_default().push(served);
                }
            }
            Body::BinderReceived { debug_id } => {
                let known = sent.remove(&debug_id).filter(|(by, _)| *by != event.tid).map(|(_, code)| code);
                let open = open.entry(event.tid).or_default();
                match known {
                    // A reply to a call of its own.
                    Some(None) => {}
                    Some(code) => open.push((event.time_ns, code)),
                    None if open.is_empty() => open.push((event.time_ns, None)),
                    None => {}
                }
            }
            _ => {}
        }
    }
    out
}
