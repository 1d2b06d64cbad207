//! Which calls kept a server's thread busy while a request was queued.

use crate::explanation::Thread;
use crate::reasons::{Process, Reason, Stretch, Why};
use crate::timeline::Served;

/// The queue of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue<'a> {
    /// From when on the request was queued, in nanoseconds.
    pub(crate) from_ns: u64,
    /// When a thread took it, or when the reply was sent if that is earlier.
    pub(crate) to_ns: u64,
    /// When a thread took it.
    pub(crate) received_ns: u64,
    /// What that thread served, in the order of the ends.
    pub(crate) served: &'a [Served],
}

impl Queue<'_> {
    /// Gives the server's time in the queue, while its thread served others, to their calls.
    pub(crate) fn mark(
        &self,
        stretches: &mut Vec<Stretch>,
        caller: impl Fn(u32, u32, u64) -> (Process, Option<Thread>),
    ) {
        let first = self.served.partition_point(|served| served.end_ns <= self.from_ns);
        let earlier = |served: &&Served| served.end_ns <= self.received_ns;
        for served in self.served[first..].iter().take_while(earlier) {
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
