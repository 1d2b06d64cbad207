//! Which threads a flush serves. The kernel issues one flush for all threads that have requested
//! one, and no event shows which they are. Must not know which layer a flush's time belongs to.

use super::{Builder, Request};

impl Builder<'_> {
    /// A flush serves all threads that had requested one when it was set up (block/blk-flush.c).
    /// The kernel sets it up at the first request, or when the previous flush has ended. No event
    /// shows this. So a thread that requested a flush before the issue first counts as served. That
    /// changes if another flush is issued, and either the end of the first flush has not woken the
    /// thread, or no other thread has requested the second flush. Then the second flush serves the
    /// thread.
    pub(super) fn flush_for(&mut self, flush: &mut Request) {
        let dev = flush.dev;
        let mut running = self.running.iter_mut().map(|one| &mut one.request).rev();
        let last_done = self.last_flush.get(&dev).and_then(|&last| self.done.get_mut(last));
        let mut before_ns = 0;
        if let Some(last) = running.find(|one| one.dev == dev && one.flush).or(last_done) {
            before_ns = last.completed_ns;
            if let Some(ready_ns) = self.ready_ns.get(&dev) {
                let others = !flush.queued.is_empty();
                let woken = |tid: u32| self.woken_ns.get(&tid).is_some_and(|&ns| ns >= before_ns);
                let (served, left): (Vec<_>, Vec<_>) = last
                    .queued
                    .iter()
                    .partition(|&&(asked_ns, tid)| asked_ns <= *ready_ns || (others && woken(tid)));
                last.queued = served;
                flush.queued.extend(left);
            }
        }
        let asked_ns = flush.queued.iter().map(|queued| queued.0).min().unwrap_or(flush.issued_ns);
        self.ready_ns.insert(dev, asked_ns.max(before_ns));
    }
}
