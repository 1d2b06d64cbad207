//! Whom a flush serves: the kernel makes one for all that have asked, which leaves no event. Must
//! not know what a flush's time belongs to.

use super::{Builder, Request};

impl Builder<'_> {
    /// One flush serves whoever had asked when it was made ready (block/blk-flush.c): as soon as
    /// one asks, or the flush before has ended. That leaves no event. So whoever asked between
    /// that and its issue is taken for served, until another flush comes and they have not been
    /// woken by the end of the first, or nobody else has asked for it: it is theirs.
    pub(super) fn flush_for(&mut self, flush: &mut Request) {
        let dev = flush.dev;
        let running = self.running.iter_mut().map(|one| &mut one.request).rev();
        let mut earlier = running.chain(self.done.iter_mut().rev());
        let mut before_ns = 0;
        if let Some(last) = earlier.find(|one| one.dev == dev && one.flush) {
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
