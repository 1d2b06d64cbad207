//! The requests of a call: which of all completed ones belong to it, and what they claim of its
//! time. Must not know how threads are followed.

use super::Walk;
use crate::kernel_names;
use crate::storage::{Layer, Piece, Request, Write};
use crate::timeline::{Doing, Waking, WakingBy};

/// A request that is still open after this time no longer belongs to a call.
const LONGEST_NS: u64 = 60_000_000_000;

impl Walk<'_, '_> {
    /// A thread that polls for the end of a request does not sleep, so no wakeup leads back to its
    /// helpers. So every thread that it woke during the call counts as working for it until the end
    /// of the call, and so does every thread that those woke. Examples are io_uring's worker, which
    /// submits what the caller could not submit without blocking, the worker that ends the write,
    /// and the journal. Threads that the journal wakes do not count, because they had waited for
    /// it.
    pub(super) fn polled(&mut self) {
        let Write { start_ns, end_ns, tid } = self.write;
        let done = &self.writes.requests.done;
        let first = done.partition_point(|request| request.completed_ns < start_ns);
        let mut within = done[first..].iter().take_while(|request| request.completed_ns <= end_ns);
        if !within.any(|request| self.writes.is_polled(request, self.write)) {
            return;
        }
        let mut wakings: Vec<(u32, Waking)> = self.writes.timeline.wakings(start_ns, end_ns).collect();
        wakings.sort_by_key(|(_, waking)| waking.time_ns);
        let mut set_to_work = vec![(tid, start_ns)];
        for _ in 0..2 {
            let before = set_to_work.clone();
            for (woken, waking) in &wakings {
                let by_us = |&(by, since_ns): &(u32, u64)| {
                    waking.by == WakingBy::Thread(by) && since_ns <= waking.time_ns
                };
                if before.iter().any(by_us) && set_to_work.iter().all(|(known, _)| known != woken) {
                    set_to_work.push((*woken, waking.time_ns));
                }
            }
        }
        set_to_work.iter().skip(1).for_each(|&(by, since_ns)| self.workers.add(by, since_ns, end_ns));
    }

    /// Finds the requests of the call: from each device to the devices below it, through the
    /// threads that do the upper device's work.
    pub(super) fn requests(&mut self) {
        let mut followed = Vec::new();
        loop {
            self.own_requests();
            self.found.requests.sort_unstable();
            self.found.requests.dedup();
            let all = &self.found.requests;
            let is_new = |index: &usize| followed.binary_search(index).is_err();
            let new: Vec<usize> = all.iter().copied().filter(is_new).collect();
            if new.is_empty() {
                return;
            }
            followed.clone_from(all);
            for index in new {
                let request = &self.writes.requests.done[index];
                if !request.leaf && request.completed_by != 0 {
                    self.thread(request.completed_by, request.issued_ns, request.completed_ns, 1);
                }
            }
        }
    }

    /// The requests that threads queued while they worked for the call.
    fn own_requests(&mut self) {
        let Write { start_ns, end_ns, .. } = self.write;
        for (index, request) in self.writes.requests.issued(start_ns, end_ns) {
            let ours = request
                .queued
                .iter()
                .any(|&(time_ns, by)| (start_ns..=end_ns).contains(&time_ns) && self.worked(by, time_ns));
            if ours {
                self.found.requests.push(index);
            }
            if request.completed_ns > end_ns + LONGEST_NS {
                break;
            }
        }
    }

    pub(super) fn claim_requests(&mut self) {
        let requests: Vec<&Request> =
            self.found.requests.iter().map(|&index| &self.writes.requests.done[index]).collect();
        let (mut claims, mut fallback, mut late) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            let mut claim = |begin_ns, end_ns, layer| claims.push(Piece { begin_ns, end_ns, layer });
            // From the first bio that was queued during this call, because a flush serves other
            // calls, too.
            let queued = request.queued.iter().map(|queued| queued.0);
            let first = queued.filter(|&time| time >= self.write.start_ns).min().unwrap_or(request.issued_ns);
            if request.leaf {
                claim(first, request.started_ns, Layer::Block);
                late.push((request.issued_by, first, request.issued_ns));
                // Between two commands, the driver handles the answer and prepares the next
                // command.
                claim(request.started_ns, request.completed_ns, Layer::Irq);
                for &(begin_ns, end_ns) in &request.device {
                    claim(begin_ns, end_ns, Layer::Device);
                }
            } else {
                fallback.push(Piece { begin_ns: first, end_ns: request.completed_ns, layer: Layer::Block });
            }
        }
        self.found.fallback.extend(fallback);
        self.found.claims.extend(claims);
        for (tid, begin_ns, end_ns) in late {
            self.late_worker(tid, begin_ns, end_ns);
        }
    }

    /// A kernel worker passes a queued request to the driver as soon as it has a CPU.
    fn late_worker(&mut self, tid: u32, begin_ns: u64, end_ns: u64) {
        let timeline = &self.writes.timeline;
        if kernel_names::is_worker(timeline.name(tid)) {
            self.late_issue(tid, begin_ns, end_ns);
        }
    }

    /// The thread that has to issue a request waits for a CPU that other threads use.
    pub(super) fn late_issue(&mut self, tid: u32, begin_ns: u64, end_ns: u64) {
        for during in self.writes.timeline.doing(tid, begin_ns, end_ns) {
            if let Doing::Runnable { cpu, preempted } = during.what {
                self.behind_others(cpu, preempted, during.begin_ns, during.end_ns);
            }
        }
    }
}
