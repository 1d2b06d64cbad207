//! Other programs' system calls, matched from the kernel's events of their entry and their return.
//! Must not know whose calls count.

mod names;

use std::collections::HashMap;

use roundtrip_tracefs::{Body, Event, Loss};

use crate::lost::Lost;
pub use crate::unmatched::Unmatched;
pub use names::name;

/// A system call that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The thread that made it.
    pub tid: u32,
    /// Its number on the recorded machine.
    pub number: i64,
    /// Its time in the kernel, in nanoseconds.
    pub latency_ns: u64,
    /// What it returned.
    pub result: i64,
}

impl Returned {
    /// Whether it returned an error.
    #[must_use]
    pub fn failed(&self) -> bool {
        (-MAX_ERRNO..0).contains(&self.result)
    }
}

/// The largest error number that a system call returns (`include/linux/err.h`).
const MAX_ERRNO: i64 = 4095;

/// Matches events. Its memory grows with the number of calls in flight, up to a limit.
#[derive(Debug)]
pub struct Matcher {
    most: usize,
    /// By thread: the number of the call in flight, and when it began.
    calls: HashMap<u32, (i64, u64)>,
    lost: Lost,
    unmatched: Unmatched,
}

impl Matcher {
    /// A matcher that tracks at most `most` calls at a time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, calls: HashMap::new(), lost: Lost::default(), unmatched: Unmatched::default() }
    }

    /// Counts of what could not be matched so far.
    #[must_use]
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// Adds losses of events, sorted by their begin. Call it before adding any later event.
    pub fn lost(&mut self, losses: &[Loss]) {
        self.lost.add(losses);
    }

    /// Takes the next event of a trace, in time order. Returns the call that it ends, if any.
    pub fn add(&mut self, event: &Event) -> Option<Returned> {
        let Event { time_ns, tid, .. } = *event;
        match event.body {
            Body::SysEnter { number, .. } => {
                if self.calls.len() >= self.most {
                    self.unmatched.forgotten += 1;
                    return None;
                }
                let under_way = self.calls.insert(tid, (number, time_ns));
                self.unmatched.not_ended += u64::from(under_way.is_some());
                None
            }
            Body::SysExit { number: returned, result } => match self.calls.remove(&tid) {
                // A return from a signal's handler has the number -1 on x86-64.
                Some((number, start_ns))
                    if (number == returned || returned < 0) && !self.lost.within(start_ns, time_ns) =>
                {
                    Some(Returned { tid, number, latency_ns: time_ns.saturating_sub(start_ns), result })
                }
                Some(_) => {
                    self.unmatched.not_ended += 1;
                    None
                }
                None => {
                    // A new thread returns 0 from a call that its parent made.
                    self.unmatched.begun_before += u64::from(result != 0);
                    None
                }
            },
            // Its last call never returns.
            Body::Exit => {
                self.calls.remove(&tid);
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
