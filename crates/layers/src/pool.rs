//! Which calls kept a server's thread busy while a request was queued, from the driver's events.

use roundtrip_tracefs::{Body, Event};

use crate::explanation::Thread;
use crate::reasons::{Process, Reason, Stretch, Why};

/// A call that a thread served for another caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// Its start; `None` if that was not recorded.
    begin_ns: Option<u64>,
    end_ns: u64,
    /// The process of its caller.
    caller: u32,
    /// Its caller; 0 if the event does not name it.
    thread: u32,
    /// Its code; `None` if its start was not recorded.
    code: Option<u32>,
}

/// The calls that thread `tid` replied to until `until_ns`, in order, without those that it served
/// within another one.
pub(crate) fn served(events: &[Event], tid: u32, until_ns: u64) -> Vec<Served> {
    // Received and not replied to yet: when, and the code.
    let mut open: Vec<(u64, Option<u32>)> = Vec::new();
    let mut sent: Vec<(i32, Option<u32>)> = Vec::new();
    let mut out = Vec::new();
    for event in events.iter().take_while(|event| event.time_ns <= until_ns) {
        match event.body {
            Body::BinderTransaction { debug_id, reply, code, .. } if event.tid != tid => {
                sent.push((debug_id, (!reply).then_some(code)));
            }
            Body::BinderTransaction { reply: true, to_proc, to_thread, .. } => {
                let began = open.pop();
                if open.is_empty() {
                    let (begin_ns, code) = (began.map(|began| began.0), began.and_then(|began| began.1));
                    out.push(Served {
                        begin_ns,
                        end_ns: event.time_ns,
                        caller: to_proc,
                        thread: to_thread,
                        code,
                    });
                }
            }
            Body::BinderReceived { debug_id } if event.tid == tid => {
                let known = sent.iter().rfind(|(sent, _)| *sent == debug_id).map(|(_, code)| *code);
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

/// The queue of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue<'a> {
    /// From when on the request was queued, in nanoseconds.
    pub(crate) from_ns: u64,
    /// When a thread took it.
    pub(crate) to_ns: u64,
    /// What that thread served before.
    pub(crate) served: &'a [Served],
}

impl Queue<'_> {
    /// Gives the server's time in the queue, while its thread served others, to their calls.
    pub(crate) fn mark(
        &self,
        stretches: &mut Vec<Stretch>,
        caller: impl Fn(u32, u32, u64) -> (Process, Option<Thread>),
    ) {
        for served in self.served {
            let from_ns = served.begin_ns.unwrap_or(self.from_ns).max(self.from_ns);
            let to_ns = served.end_ns.min(self.to_ns);
            if from_ns >= to_ns {
                continue;
            }
            let Some(within) = stretches.iter().find(|one| one.begin_ns <= from_ns && from_ns < one.end_ns)
            else {
                continue;
            };
            let (process, thread) = caller(served.caller, served.thread, from_ns);
            let call_ns = served.begin_ns.map(|begin_ns| served.end_ns - begin_ns);
            let why = Why {
                reason: Reason::BusyPool { code: served.code, call_ns },
                process: Some(process),
                thread,
                chain: Vec::new(),
                function: None,
                cpu: None,
                ..within.why.clone()
            };
            replace(stretches, Stretch { begin_ns: from_ns, end_ns: to_ns, why });
        }
    }
}

/// Puts a stretch in place of what was there.
fn replace(stretches: &mut Vec<Stretch>, new: Stretch) {
    let mut out = Vec::with_capacity(stretches.len() + 2);
    let (begin_ns, end_ns) = (new.begin_ns, new.end_ns);
    let after = |one: &Stretch| {
        (one.end_ns > end_ns).then(|| Stretch { begin_ns: one.begin_ns.max(end_ns), ..one.clone() })
    };
    for one in stretches.iter().filter(|one| one.begin_ns < begin_ns) {
        out.push(Stretch { end_ns: one.end_ns.min(begin_ns), ..one.clone() });
    }
    out.push(new);
    out.extend(stretches.iter().filter_map(after));
    *stretches = out;
}
