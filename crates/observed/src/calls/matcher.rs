//! Matches the driver's events to transactions.

use std::collections::{BTreeMap, HashMap};

use roundtrip_tracefs::{Body, Event};

use super::observed::{Call, Failed, Observed, Oneway, Sent, TF_ONE_WAY};

/// `BR_DEAD_REPLY` (linux/android/binder.h): the server is dead, or was when the call began.
pub const DEAD_REPLY: u32 = 0x7205;

/// `BR_FROZEN_REPLY`: the server is frozen.
pub const FROZEN_REPLY: u32 = 0x7212;

/// The return commands that end a call without a reply. The second one is `BR_FAILED_REPLY`: the
/// driver has refused the call or its reply.
pub const FAILURES: [u32; 3] = [DEAD_REPLY, 0x7211, FROZEN_REPLY];

/// Counts of what could not be matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// Received requests and replies whose sending was not recorded: it preceded the recording, or
    /// the event was lost.
    pub received: u64,
    /// Replies to requests whose receipt was not recorded.
    pub replies: u64,
    /// Requests whose end was not recorded: an event was lost, or a process died.
    pub ended: u64,
    /// Requests and replies that were dropped because too many were in flight.
    pub forgotten: u64,
}

/// A request that a thread is serving.
#[derive(Clone, Copy, Debug)]
struct Served {
    sent: Sent,
    received_ns: u64,
    behind_pool_ns: Option<u64>,
}

/// A reply that its client has not received yet.
#[derive(Clone, Copy, Debug)]
struct Reply {
    served: Served,
    server: u32,
    replied_ns: u64,
}

/// What a thread is doing in the driver.
#[derive(Debug, Default)]
struct Thread {
    /// Its calls in progress, outermost first.
    calls: Vec<Sent>,
    /// Calls of which the driver no longer knows anything: it has refused the last one, and returns
    /// the error next, or the end was not recorded.
    gone: Vec<Sent>,
    /// The oneway request that it sent last, until the driver returns whether it accepts it.
    oneway: Option<Sent>,
    /// The requests it is serving, outermost first.
    serves: Vec<Served>,
    /// When it last began to wait for work in the driver.
    wait_ns: Option<u64>,
}

impl Thread {
    fn is_idle(&self) -> bool {
        self.calls.is_empty()
            && self.gone.is_empty()
            && self.oneway.is_none()
            && self.serves.is_empty()
            && self.wait_ns.is_none()
    }
}

/// Matches events to transactions. Memory is bounded by the transactions in flight, up to a limit,
/// and by the threads that use the driver.
#[derive(Debug)]
pub struct Matcher {
    most: usize,
    /// Requests that no thread has received yet. The oldest have the lowest numbers, until the
    /// driver's counter wraps.
    sent: BTreeMap<i32, Sent>,
    replies: BTreeMap<i32, Reply>,
    threads: HashMap<u32, Thread>,
    unmatched: Unmatched,
}

impl Matcher {
    /// Makes a matcher that tracks at most `most` requests and `most` replies at a time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            sent: BTreeMap::new(),
            replies: BTreeMap::new(),
            threads: HashMap::new(),
            unmatched: Unmatched::default(),
        }
    }

    /// Counts of what could not be matched so far.
    #[must_use]
    pub fn unmatched(&self) -> Unmatched {
        let gone: usize = self.threads.values().map(|thread| thread.gone.len()).sum();
        Unmatched { ended: self.unmatched.ended + gone as u64, ..self.unmatched }
    }

    /// Takes the next event, in time order. Calls `tell` with each transaction that the event
    /// completes.
    pub fn add(&mut self, event: &Event, tell: &mut dyn FnMut(Observed)) {
        let Event { time_ns, tid, .. } = *event;
        match event.body {
            Body::BinderTransaction { debug_id, to_thread, reply: true, .. } => {
                self.replied(debug_id, tid, to_thread, time_ns);
            }
            Body::BinderTransaction { debug_id, target_node, to_proc, code, flags, .. } => {
                let sent = Sent {
                    id: debug_id,
                    client: tid,
                    to_process: to_proc,
                    node: target_node,
                    code,
                    flags,
                    parent: None,
                    start_ns: time_ns,
                };
                self.sent(sent);
            }
            Body::BinderReceived { debug_id } => self.received(debug_id, tid, time_ns, tell),
            Body::BinderWait { transaction_stack, .. } => {
                let thread = self.threads.entry(tid).or_default();
                thread.wait_ns = Some(time_ns);
                self.unmatched.ended += thread.gone.drain(..).len() as u64;
                if !transaction_stack {
                    // All its earlier calls and served requests have ended, even if their end was
                    // not recorded. If the driver has refused the last call, it says so next.
                    thread.gone.append(&mut thread.calls);
                    self.unmatched.ended += thread.serves.drain(..).len() as u64;
                }
            }
            Body::BinderReturn { command } if FAILURES.contains(&command) => {
                let sent = self.failed(tid);
                tell(Observed::Failed(Failed { client: tid, sent, command, at_ns: time_ns }));
            }
            Body::BinderReturn { .. } => {
                let thread = self.threads.get_mut(&tid);
                if thread.is_some_and(|thread| thread.oneway.take().is_some()) {
                    self.forget_idle(tid);
                }
            }
            Body::Exit => {
                if let Some(Thread { calls, gone, serves, .. }) = self.threads.remove(&tid) {
                    self.unmatched.ended += (calls.len() + gone.len() + serves.len()) as u64;
                }
            }
            _ => {}
        }
    }

    fn sent(&mut self, mut sent: Sent) {
        let thread = self.threads.entry(sent.client).or_default();
        sent.parent = thread.serves.last().map(|served| served.sent.id);
        self.unmatched.ended += thread.gone.drain(..).len() as u64;
        if sent.flags & TF_ONE_WAY == 0 {
            thread.calls.push(sent);
            thread.oneway = None;
        } else {
            thread.oneway = Some(sent);
        }
        self.sent.insert(sent.id, sent);
        self.unmatched.forgotten += forget(&mut self.sent, self.most);
    }

    fn received(&mut self, id: i32, tid: u32, time_ns: u64, tell: &mut dyn FnMut(Observed)) {
        if let Some(Reply { served, server, replied_ns }) = self.replies.remove(&id) {
            let Served { sent, received_ns, behind_pool_ns } = served;
            self.ended(sent.client, sent.id);
            let call = Call { sent, server, behind_pool_ns, received_ns, replied_ns, end_ns: time_ns };
            tell(Observed::Call(call));
            return;
        }
        let Some(sent) = self.sent.remove(&id) else {
            self.unmatched.received += 1;
            return;
        };
        if sent.flags & TF_ONE_WAY != 0 {
            tell(Observed::Oneway(Oneway { sent, server: tid, received_ns: time_ns }));
            return;
        }
        let thread = self.threads.entry(tid).or_default();
        // If this thread began to wait only after the request was sent, it was busy until then. So
        // were all other threads, or one of them would have taken the request.
        let behind_pool_ns = thread.wait_ns.map(|wait_ns| wait_ns.saturating_sub(sent.start_ns));
        thread.serves.push(Served { sent, received_ns: time_ns, behind_pool_ns });
    }

    fn replied(&mut self, id: i32, server: u32, client: u32, replied_ns: u64) {
        let serves = self.threads.get_mut(&server).map(|thread| &mut thread.serves);
        // The events of some drivers do not name the thread that gets the reply. It is the client
        // of the request that this thread took last.
        let is_clients = |served: &Served| client == 0 || served.sent.client == client;
        let Some((serves, at)) =
            serves.and_then(|serves| serves.iter().rposition(is_clients).map(|at| (serves, at)))
        else {
            self.unmatched.replies += 1;
            return;
        };
        // The end of the requests above it on the stack was not recorded.
        self.unmatched.ended += (serves.len() - at - 1) as u64;
        serves.truncate(at + 1);
        if let Some(served) = serves.pop() {
            self.replies.insert(id, Reply { served, server, replied_ns });
            self.unmatched.forgotten += forget(&mut self.replies, self.most);
        }
    }

    /// A thread's call has ended, and so have all calls nested in it.
    fn ended(&mut self, client: u32, id: i32) {
        let Some(thread) = self.threads.get_mut(&client) else { return };
        if let Some(at) = thread.calls.iter().rposition(|call| call.id == id) {
            self.unmatched.ended += (thread.calls.len() - at - 1) as u64;
            thread.calls.truncate(at);
        }
        self.forget_idle(client);
    }

    fn forget_idle(&mut self, tid: u32) {
        if self.threads.get(&tid).is_some_and(Thread::is_idle) {
            self.threads.remove(&tid);
        }
    }

    /// The request that a returned error ends; `None` if the driver recorded none: a request to an
    /// unknown handle, or to a dead server, leaves no event. So the error ends the thread's last
    /// recorded request only in two cases: the driver has not accepted that request yet, or the
    /// thread still waits for its reply and has taken no other request since.
    fn failed(&mut self, tid: u32) -> Option<Sent> {
        let thread = self.threads.get_mut(&tid)?;
        let within = thread.serves.last().map(|served| served.sent.id);
        let refused = thread.oneway.take().or_else(|| thread.gone.pop());
        let sent = refused.or_else(|| thread.calls.last().copied().filter(|call| call.parent == within))?;
        self.sent.remove(&sent.id);
        // The reply may be what the driver has refused.
        self.replies.retain(|_, reply| reply.served.sent.id != sent.id);
        self.ended(tid, sent.id);
        Some(sent)
    }
}

/// Drops the oldest entries beyond `most`, and returns how many.
fn forget<T>(all: &mut BTreeMap<i32, T>, most: usize) -> u64 {
    let mut forgotten = 0;
    while all.len() > most {
        all.pop_first();
        forgotten += 1;
    }
    forgotten
}

#[cfg(test)]
mod tests;
