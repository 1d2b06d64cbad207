//! Follows a wait to the requests behind it: until they are queued, in the queue, at the device,
//! and until their completion is noticed.

use super::*;

impl<'a> Follow<'a, '_> {
    /// Follows the write from `begin_ns` until an awaited request was completed. Does nothing if
    /// that was earlier.
    pub(super) fn request(&mut self, tid: u32, request: &'a Request, begin_ns: u64) {
        let completed_ns = request.completed_ns;
        if completed_ns <= begin_ns {
            return;
        }
        let first = request.queued.iter().min().copied();
        // Another thread may have queued it during the wait.
        let queued_ns = first.map_or(begin_ns, |(queued_ns, _)| queued_ns).clamp(begin_ns, completed_ns);
        match first {
            Some((_, by)) if by != 0 && by != tid => self.queuer(by, begin_ns, queued_ns),
            _ => self.unknown(tid, begin_ns, queued_ns, State::Unknown { reason: Unknown::Waker }),
        }
        self.stages(tid, request, queued_ns);
    }

    /// The time from an instant after an awaited request was queued until it was completed.
    pub(super) fn stages(&mut self, tid: u32, request: &'a Request, queued_ns: u64) {
        let completed_ns = request.completed_ns;
        if !request.leaf {
            let issued_ns = request.issued_ns.clamp(queued_ns, completed_ns);
            self.queue(tid, request, queued_ns, issued_ns);
            let by = request.completed_by;
            if by != 0 && !self.chain.contains(&by) && self.chain.len() < DEEPEST {
                return self.thread(by, issued_ns, completed_ns);
            }
            return self.unknown(tid, issued_ns, completed_ns, State::Unknown { reason: Unknown::Waker });
        }
        let started_ns = request.started_ns.clamp(queued_ns, completed_ns);
        // The device had answered before the thread that handles its softirqs was woken.
        let by = request.completed_by;
        let wakings = self.writes.timeline.wakings_of(by, started_ns, completed_ns);
        let woken_ns = wakings.last().filter(|_| self.handles_interrupts(by)).map(|waking| waking.time_ns);
        let ended_ns = request.ended_ns.min(woken_ns.unwrap_or(u64::MAX)).clamp(started_ns, completed_ns);
        self.queue(tid, request, queued_ns, started_ns);
        self.at_device(request, started_ns, ended_ns);
        self.completion(request, ended_ns, completed_ns);
    }

    /// Another thread queued the awaited request. It was late because of a timer, because of other
    /// work, or because of what delayed that thread.
    pub(super) fn queuer(&mut self, by: u32, begin_ns: u64, queued_ns: u64) {
        if begin_ns >= queued_ns {
            return;
        }
        let timeline = &self.writes.timeline;
        let owner = Some(self.thread_at(by, begin_ns));
        let waking = timeline.wakings_of(by, begin_ns, queued_ns).last().copied();
        let from_ns = match waking {
            Some(Waking { time_ns, by: WakingBy::Interrupt(Some(source)), .. })
                if source.is_timer(&timeline.trace.names) =>
            {
                self.push(begin_ns, time_ns, held(Limit::Io), owner, None);
                time_ns
            }
            Some(_) => begin_ns,
            None => {
                self.push(
                    begin_ns,
                    queued_ns,
                    Cause::Reason(Reason::Thread { but: None }),
                    owner.clone(),
                    owner,
                );
                queued_ns
            }
        };
        if self.chain.len() < DEEPEST && !self.chain.contains(&by) {
            self.thread(by, from_ns, queued_ns);
        } else {
            self.unknown(by, from_ns, queued_ns, State::Unknown { reason: Unknown::Waker });
        }
    }

    /// A request waits to be passed to the controller: for the thread that has to pass it, or for
    /// earlier requests.
    pub(super) fn queue(&mut self, tid: u32, request: &'a Request, mut begin_ns: u64, end_ns: u64) {
        // A flush has phases: its device first works on the call's own earlier requests.
        let near = self.writes.requests.near(begin_ns, end_ns);
        let mut earlier: Vec<&Request> = near
            .filter(|(index, own)| own.dev == request.dev && self.is_own(*index, own))
            .filter(|(_, own)| own.completed_ns < request.completed_ns)
            .filter(|(_, own)| (begin_ns + 1..=end_ns).contains(&own.completed_ns))
            .map(|(_, own)| own)
            .collect();
        earlier.sort_by_key(|own| own.completed_ns);
        for own in earlier {
            self.stages(tid, own, begin_ns);
            begin_ns = own.completed_ns;
        }
        let timeline = &self.writes.timeline;
        let issuer = request.issued_by;
        // Only a worker, or the thread that queued it, is known to be the one that had to issue it.
        let known = issuer != 0
            && (kernel_names::is_worker(timeline.name(issuer))
                || request.queued.iter().any(|queued| queued.1 == issuer))
            && timeline.knows.switches;
        if !known {
            return self.before(request, begin_ns, end_ns);
        }
        for part in shallow(timeline, Owner::Client, issuer, begin_ns, end_ns) {
            match part.state {
                State::Blocked { .. } | State::Stopped { .. } => {
                    self.before(request, part.begin_ns, part.end_ns);
                }
                State::Unknown { reason: ref unknown } if *unknown != Unknown::Queue => {
                    self.before(request, part.begin_ns, part.end_ns);
                }
                _ => self.part(issuer, part),
            }
        }
    }

    /// Which requests a queued one waits for.
    pub(super) fn before(&mut self, request: &'a Request, begin_ns: u64, end_ns: u64) {
        for (begin_ns, end_ns) in self.cut(begin_ns, end_ns, Some(request.dev)) {
            if let Some(own) = self.own_at_device(begin_ns) {
                self.push(begin_ns, end_ns, device(own), None, None);
            } else if let Some(other) = self.other_at_device(request.dev, begin_ns) {
                let of = self.of(other);
                self.push(begin_ns, end_ns, behind(Io::Requests), None, of);
            } else {
                self.push(
                    begin_ns,
                    end_ns,
                    Cause::Reason(Reason::Unknown { why: Unknown::RequestQueue }),
                    None,
                    None,
                );
            }
        }
    }

    /// A request is with the device. A device that answers in the order of issue works on earlier
    /// requests first.
    pub(super) fn at_device(&mut self, request: &'a Request, begin_ns: u64, end_ns: u64) {
        let mut from_ns = begin_ns;
        for (index, earlier) in self.writes.requests.before(request) {
            let until_ns = earlier.ended_ns.clamp(from_ns, end_ns);
            if self.is_own(index, earlier) {
                self.push(from_ns, until_ns, device(earlier), None, None);
            } else {
                self.push(from_ns, until_ns, behind(Io::Requests), None, self.of(earlier));
            }
            from_ns = until_ns;
        }
        self.push(from_ns, end_ns, device(request), None, None);
    }

    /// Whether a thread wakes others because it handles a request's completion, rather than because
    /// it waited for the request.
    pub(super) fn completes(&self, by: u32, request: &Request) -> bool {
        let queued = request.queued.iter().any(|queued| queued.1 == by);
        let worker = kernel_names::is_worker(self.writes.timeline.name(by));
        !queued && (worker || self.handles_interrupts(by) || request.completed_by == by)
    }

    /// Whether a thread handles interrupts or softirqs.
    pub(super) fn handles_interrupts(&self, tid: u32) -> bool {
        let name = self.writes.timeline.name(tid);
        kernel_names::is_softirq_thread(name) || kernel_names::is_interrupt_thread(name)
    }

    /// The device has answered, and the completion is handled: in an interrupt, or in a thread that
    /// may have to wait for a CPU.
    pub(super) fn completion(&mut self, request: &'a Request, begin_ns: u64, end_ns: u64) {
        let timeline = &self.writes.timeline;
        let by = request.completed_by;
        if !self.handles_interrupts(by) {
            let cause = self.completed(request.completed_cpu, request.completed_ns);
            return self.push(begin_ns, end_ns, cause, None, None);
        }
        for part in shallow(timeline, Owner::Client, by, begin_ns, end_ns) {
            match part.state {
                State::Behind { .. }
                | State::Preempted { .. }
                | State::HandOver { .. }
                | State::WakeUpPending
                | State::IdleExit { .. } => self.part(by, part),
                _ => {
                    let name = timeline.name(by).to_owned();
                    let cause = Cause::Reason(Reason::SoftirqThread { name });
                    self.push(part.begin_ns, part.end_ns, cause, part.thread, None);
                }
            }
        }
    }

    /// A completion is handled in the interrupt of this CPU and instant.
    pub(super) fn completed(&self, cpu: u32, time_ns: u64) -> Cause {
        let timeline = &self.writes.timeline;
        let within = timeline.cpu(cpu).and_then(|line| line.interrupts.within(time_ns, time_ns + 1).first());
        let by = within.map_or(Interrupt::Unnamed, |stretch| interrupt(timeline, stretch.source));
        Cause::Reason(Reason::Interrupted { by })
    }

    /// The thread that queued a request first.
    pub(super) fn of(&self, request: &Request) -> Option<Thread> {
        let &(time_ns, by) = request.queued.iter().min()?;
        Some(self.thread_at(by, time_ns))
    }

    /// Whether a request is one of the call's, or of a thread that the call is with: the journal's
    /// requests for an earlier call, for example.
    pub(super) fn is_own(&self, index: usize, request: &Request) -> bool {
        self.own.binary_search(&index).is_ok()
            || request.queued.iter().any(|queued| self.chain.contains(&queued.1))
    }

    /// One of the call's own requests that a device has at an instant.
    pub(super) fn own_at_device(&self, time_ns: u64) -> Option<&'a Request> {
        let near = self.writes.requests.near(time_ns, time_ns);
        let own = near.filter(|(index, request)| request.leaf && self.is_own(*index, request));
        own.map(|(_, request)| request).find(|request| request.is_at_device(time_ns))
    }

    /// The earliest request of another call that a device has at an instant.
    pub(super) fn other_at_device(&self, dev: u32, time_ns: u64) -> Option<&'a Request> {
        let near = self.writes.requests.near(time_ns, time_ns);
        let others = near.filter(|(index, request)| request.dev == dev && !self.is_own(*index, request));
        let others = others.map(|(_, request)| request).filter(|request| request.is_at_device(time_ns));
        others.min_by_key(|request| request.started_ns)
    }

    /// Divides a stretch where a request of the call, or one of this device, starts or ends.
    pub(super) fn cut(&self, begin_ns: u64, end_ns: u64, dev: Option<u32>) -> Vec<(u64, u64)> {
        let mut instants = vec![begin_ns, end_ns];
        let own = self.own.iter().map(|&index| &self.done()[index]);
        let others = dev.into_iter().flat_map(|dev| {
            let near = self.writes.requests.near(begin_ns, end_ns).map(|(_, request)| request);
            near.filter(move |request| request.dev == dev)
        });
        for request in own.chain(others) {
            instants.extend(request.device.iter().flat_map(|&(begin_ns, end_ns)| [begin_ns, end_ns]));
        }
        instants.retain(|instant| (begin_ns..=end_ns).contains(instant));
        instants.sort_unstable();
        instants.dedup();
        instants.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
    }
}
