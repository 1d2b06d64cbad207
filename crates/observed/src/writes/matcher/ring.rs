//! Operations of io_uring: who performs each one, and when it is done.

use std::collections::HashMap;

use roundtrip_tracefs::{Event, Trace};

use super::{Asked, Matcher, Observed, Operation, Performed, begun};

impl Matcher {
    /// A thread's name shows whether it is a worker of io_uring (`io_wq_worker`), and whose.
    pub(super) fn named<'n>(&mut self, tid: u32, name: impl FnOnce() -> &'n str) {
        if !self.operations.is_empty()
            && (self.workers.len() < self.most || self.workers.contains_key(&tid))
            && let Some(of) = name().strip_prefix("iou-wrk-").and_then(|of| of.parse().ok())
        {
            self.workers.insert(tid, of);
        }
    }

    /// What was done for an operation that a thread completes.
    fn done_for(&mut self, (begun, by_worker): (&Observed, bool), completed_by: u32) -> Option<Performed> {
        if completed_by != begun.tid {
            // The worker itself. If it did more, that was for operations that others complete.
            return self.performed.remove(&completed_by).and_then(|mut did| did.pop_back());
        }
        let of_ours = |tid: &u32| by_worker && self.workers.get(tid) == Some(&begun.tid);
        let workers = self.performed.iter_mut().filter(|(tid, did)| of_ours(tid) && !did.is_empty());
        // Another worker may not be done yet.
        let (_, did) = workers.max_by_key(|(_, did)| did.front().is_some_and(|did| did.synced))?;
        did.pop_front()
    }

    /// A thread no longer tries to perform an operation itself.
    fn no_longer_tried(submitted: &mut HashMap<u32, u64>, tid: u32, request: u64) {
        if submitted.get(&tid) == Some(&request) {
            submitted.remove(&tid);
        }
    }

    pub(super) fn operation(
        &mut self,
        trace: &Trace,
        event: &Event,
        kind: &str,
        tell: &mut dyn FnMut(Observed),
    ) {
        let number = |name| trace.number(event, name);
        let Some(request) = number("req") else { return };
        match kind {
            // Linux 6.0 renamed the field.
            "io_uring/io_uring_submit_req" | "io_uring/io_uring_submit_sqe" => {
                // The thread has given the previous operation to a worker, or has performed it.
                self.submitted.remove(&event.tid);
                let Some(begun) = operation(number("opcode"), event) else { return };
                if self.operations.len() >= self.most {
                    self.unmatched.forgotten += 1;
                    return;
                }
                self.submitted.insert(event.tid, request);
                self.unmatched.not_ended +=
                    u64::from(self.operations.insert(request, (begun, false)).is_some());
            }
            // The kernel refuses it before it counts as submitted.
            "io_uring/io_uring_req_failed" => {
                let begun = self.operations.remove(&request).map(|(begun, _)| begun);
                let begun = begun.or_else(|| operation(number("opcode"), event));
                if let Some(begun) = begun {
                    let result = number("error").map_or(0, u64::cast_signed);
                    self.ended(Observed { end_ns: event.time_ns, result, ..begun }, tell);
                }
            }
            "io_uring/io_uring_file_get" => {
                if let Some((begun, _)) = self.operations.get_mut(&request) {
                    #[expect(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
                    let descriptor = number("fd").map(|fd| fd as i32);
                    begun.descriptor = descriptor;
                }
            }
            "io_uring/io_uring_queue_async_work" => {
                if let Some((begun, by_worker)) = self.operations.get_mut(&request) {
                    *by_worker = true;
                    Self::no_longer_tried(&mut self.submitted, begun.tid, request);
                }
            }
            "io_uring/io_uring_complete" => {
                if let Some((mut begun, by_worker)) = self.operations.remove(&request) {
                    Self::no_longer_tried(&mut self.submitted, begun.tid, request);
                    if let Some(did) = self.done_for((&begun, by_worker), event.tid) {
                        did.note(&mut begun);
                    }
                    if self.operations.is_empty() {
                        // The rest was done for nobody in a ring.
                        self.performed.clear();
                    }
                    let result = number("res").map_or(0, u64::cast_signed);
                    self.ended(Observed { end_ns: event.time_ns, result, ..begun }, tell);
                }
            }
            _ => {}
        }
    }
}

/// An io_uring operation that an event begins; `None` if it neither writes nor makes durable.
fn operation(opcode: Option<u64>, event: &Event) -> Option<Observed> {
    let operation = opcode.and_then(Operation::of_opcode)?;
    let asked = if operation.writes() { Asked::Unknown } else { Asked::Call };
    Some(Observed { asked, ..begun(operation, event.tid, event.time_ns) })
}
