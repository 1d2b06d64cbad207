//! Divides a stretch of one thread's time into parts with one state each, and follows the thread
//! that ended a wait. Must not know which part is to blame.

use roundtrip_tracefs::TaskState;

use crate::explanation::{Interrupt, Owner, Part, State, Thread, Unknown, Waker};
use crate::kernel_names;
use crate::timeline::{Current, Doing, During, Source, ThreadLine, Timeline, WakingBy};

/// How many wakers are followed: the owner's waker, that thread's waker, and so on.
const LEVELS: usize = 3;

/// A waker that leaves the CPU to the woken thread within this time hands the CPU over. One that
/// stays longer delays the woken thread.
const HAND_OVER_NS: u64 = 50_000;

/// The longest idle exit, even from the deepest states. If a CPU idles longer, it does so although
/// a thread is runnable.
const IDLE_EXIT_NS: u64 = 1_000_000;

/// A block request that completed at most this long before a wakeup, on the same CPU and in the
/// same interrupt, caused it.
const IO_BEFORE_NS: u64 = 100_000;

/// Divides `from_ns..to_ns` of a thread's time. The parts are contiguous and cover it exactly.
pub(crate) fn parts(
    timeline: &Timeline<'_>,
    owner: Owner,
    tid: Option<u32>,
    from_ns: u64,
    to_ns: u64,
) -> Vec<Part> {
    match tid {
        Some(tid) => Cutter { timeline, owner, tid, chain: &[tid], follow: true }.cut(from_ns, to_ns),
        None if from_ns < to_ns => vec![Part {
            begin_ns: from_ns,
            end_ns: to_ns,
            owner,
            thread: None,
            cpu: None,
            state: State::Unknown { reason: Unknown::Server },
            because: Vec::new(),
        }],
        None => Vec::new(),
    }
}

/// Like [`parts`], but does not follow the threads that ended waits.
pub(crate) fn shallow(
    timeline: &Timeline<'_>,
    owner: Owner,
    tid: u32,
    from_ns: u64,
    to_ns: u64,
) -> Vec<Part> {
    Cutter { timeline, owner, tid, chain: &[tid], follow: false }.cut(from_ns, to_ns)
}

/// A thread as shown to a reader, at an instant.
pub(crate) fn thread_at(timeline: &Timeline<'_>, tid: u32, time_ns: u64) -> Thread {
    let comm = timeline.name_at(tid, time_ns).to_owned();
    let pid = timeline.trace.processes.get(&tid).copied();
    Thread { tid, pid, comm, prio: timeline.prio_at(tid, time_ns) }
}

/// A stretch with its state, not yet a part.
type Piece = During<(Option<u32>, State)>;

struct Cutter<'a, 't> {
    timeline: &'a Timeline<'t>,
    owner: Owner,
    tid: u32,
    /// The chain of waiting threads from the owner to this one.
    chain: &'a [u32],
    /// Whether to follow the threads that ended waits.
    follow: bool,
}

impl Cutter<'_, '_> {
    fn cut(&self, from_ns: u64, to_ns: u64) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for during in self.timeline.doing(self.tid, from_ns, to_ns) {
            let pieces = match during.what {
                Doing::Running { cpu } => self.running(cpu, during.begin_ns, during.end_ns),
                Doing::Runnable { cpu: Some(cpu), preempted } => {
                    self.runnable(cpu, preempted, during.begin_ns, during.end_ns)
                }
                Doing::Runnable { cpu: None, .. } => {
                    vec![self.unknown(during, Unknown::Queue)]
                }
                Doing::Waking { cpu } => vec![piece(during, Some(cpu), State::WakeUpPending)],
                Doing::Blocked { state } => {
                    self.push(&mut parts, self.blocked(state, during));
                    continue;
                }
                Doing::Gone => vec![self.unknown(during, Unknown::NoThread)],
                Doing::Unknown | Doing::Moved { .. } | Doing::Left { .. }
                    if self.timeline.lost_within(during.begin_ns, during.end_ns) =>
                {
                    vec![self.unknown(during, Unknown::EventsLost)]
                }
                Doing::Unknown | Doing::Moved { .. } | Doing::Left { .. }
                    if self.timeline.incomplete_within(during.begin_ns, during.end_ns) =>
                {
                    vec![self.unknown(during, Unknown::OutsideRecording)]
                }
                Doing::Unknown | Doing::Moved { .. } | Doing::Left { .. } => {
                    vec![self.unknown(during, Unknown::NoEvent)]
                }
            };
            for piece in pieces {
                let (cpu, state) = piece.what;
                self.push(&mut parts, self.part(piece.begin_ns, piece.end_ns, cpu, state));
            }
        }
        parts
    }

    /// Adds a part. Equal adjacent parts are combined.
    fn push(&self, parts: &mut Vec<Part>, part: Part) {
        match parts.last_mut() {
            Some(last)
                if last.state == part.state
                    && last.cpu == part.cpu
                    && last.because.is_empty()
                    && part.because.is_empty() =>
            {
                last.end_ns = part.end_ns;
            }
            _ => parts.push(part),
        }
    }

    fn part(&self, begin_ns: u64, end_ns: u64, cpu: Option<u32>, state: State) -> Part {
        let thread = Some(thread_at(self.timeline, self.tid, begin_ns));
        Part { begin_ns, end_ns, owner: self.owner, thread, cpu, state, because: Vec::new() }
    }

    fn unknown<T>(&self, during: During<T>, reason: Unknown) -> Piece {
        piece(during, None, State::Unknown { reason })
    }

    fn line(&self) -> Option<&ThreadLine> {
        self.timeline.thread(self.tid)
    }

    /// On a CPU: the thread's own code, its system calls, and what took the CPU without a context
    /// switch.
    fn running(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Vec<Piece> {
        let calls = self.line().map_or(&[][..], |line| line.calls_within(from_ns, to_ns));
        let traced = self.timeline.knows.system_calls
            && self.line().is_some_and(|line| !line.calls_within(0, u64::MAX).is_empty());
        let own = if traced { State::User } else { State::Running };
        let base = vec![During { begin_ns: from_ns, end_ns: to_ns, what: (Some(cpu), own) }];
        let base = over(
            base,
            calls.iter().map(|call| During {
                begin_ns: call.begin_ns,
                end_ns: call.end_ns,
                what: State::SystemCall { call: self.timeline.system_call(self.tid, call.number) },
            }),
        );
        let locks = self.line().map_or(&[][..], |line| line.locks_within(from_ns, to_ns));
        let base = over(
            base,
            locks.iter().map(|lock| During {
                begin_ns: lock.begin_ns,
                end_ns: lock.end_ns,
                what: State::Spinning,
            }),
        );
        self.stolen(cpu, base, from_ns, to_ns)
    }

    /// What took the CPU: interrupts, and stretches in which the CPU did not run.
    fn stolen(&self, cpu: u32, base: Vec<Piece>, from_ns: u64, to_ns: u64) -> Vec<Piece> {
        let stretches = self.timeline.cpu(cpu).map_or(&[][..], |line| line.interrupts.within(from_ns, to_ns));
        let base = over(
            base,
            stretches.iter().map(|stretch| During {
                begin_ns: stretch.begin_ns,
                end_ns: stretch.end_ns,
                what: State::Stolen { interrupt: interrupt(self.timeline, stretch.source) },
            }),
        );
        let silences = self.timeline.silences(cpu, from_ns, to_ns);
        over(
            base,
            silences.into_iter().map(|silence| During {
                begin_ns: silence.begin_ns,
                end_ns: silence.end_ns,
                what: State::Gap,
            }),
        )
    }

    /// The idle state that a CPU left during a stretch, if events show that it was in it before.
    fn idle_state(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
        let (state, left_ns) = self.timeline.cpu(cpu)?.last_idle(to_ns)?;
        (from_ns < left_ns && left_ns <= to_ns).then_some(state)
    }

    /// Runnable: the thread waits because another thread has the CPU.
    fn runnable(&self, cpu: u32, preempted: bool, from_ns: u64, to_ns: u64) -> Vec<Piece> {
        let (since_ns, _) = self.timeline.doing_at(self.tid, from_ns);
        let waker = match self.timeline.last_waking(self.tid, since_ns) {
            Some(waking) if !preempted => match waking.by {
                WakingBy::Thread(tid) => Some(tid),
                _ => None,
            },
            _ => None,
        };
        let mut out = Vec::new();
        for during in self.timeline.on_cpu(cpu, from_ns, to_ns) {
            let (begin_ns, end_ns) = (during.begin_ns, during.end_ns);
            let state = match during.what {
                Current::Unknown => State::Unknown { reason: Unknown::CpuOwner },
                Current::Thread(tid) if tid == self.tid => State::Unknown { reason: Unknown::Contradiction },
                Current::Thread(0) if preempted || end_ns - begin_ns > IDLE_EXIT_NS => State::RunnableOnIdle,
                Current::Thread(0) => State::IdleExit { state: self.idle_state(cpu, begin_ns, end_ns) },
                Current::Thread(tid) => {
                    let thread = thread_at(self.timeline, tid, begin_ns);
                    if preempted {
                        State::Preempted { thread }
                    } else if waker == Some(tid) && begin_ns == from_ns && end_ns - since_ns < HAND_OVER_NS {
                        State::HandOver { thread }
                    } else {
                        State::Behind { thread }
                    }
                }
            };
            let whole = vec![During { begin_ns, end_ns, what: (Some(cpu), state) }];
            // Idle CPUs have no events, and their interrupts delay no thread.
            match during.what {
                Current::Thread(0) | Current::Unknown => out.extend(whole),
                Current::Thread(_) => out.extend(self.stolen(cpu, whole, begin_ns, end_ns)),
            }
        }
        out
    }

    /// Waiting: what ended the wait and, if that was a thread, what it did during that time.
    fn blocked(&self, state: Option<TaskState>, during: During<Doing>) -> Part {
        let (since_ns, _) = self.timeline.doing_at(self.tid, during.begin_ns);
        let until_ns = self.timeline.until(self.tid, during.begin_ns);
        let ended = self.timeline.waking_at(self.tid, until_ns);
        let waker = match ended.map(|waking| (waking, waking.by)) {
            None | Some((_, WakingBy::Unknown)) => Waker::Unknown,
            Some((_, WakingBy::OtherCpu)) => Waker::OtherCpu,
            Some((_, WakingBy::Thread(tid))) => {
                Waker::Thread { thread: thread_at(self.timeline, tid, until_ns) }
            }
            Some((waking, WakingBy::Interrupt(source))) => Waker::Interrupt {
                interrupt: source.map_or(Interrupt::Unnamed, |source| interrupt(self.timeline, source)),
                completed_io: self.timeline.io_completed(&waking, IO_BEFORE_NS),
            },
        };
        let blocked =
            self.line().and_then(|line| line.blocked_at(since_ns, until_ns.saturating_add(IO_BEFORE_NS)));
        let function = blocked.map(|(name, _)| self.timeline.trace.names.text(name));
        let stopped = self.timeline.stopped(self.tid, state, since_ns, function);
        let mut because = Vec::new();
        if let Waker::Thread { thread } = &waker
            && self.follow
            && stopped.is_none()
            && self.chain.len() <= LEVELS
            && !self.chain.contains(&thread.tid)
        {
            let chain: Vec<u32> = self.chain.iter().copied().chain([thread.tid]).collect();
            let (timeline, owner) = (self.timeline, self.owner);
            let inner = Cutter { timeline, owner, tid: thread.tid, chain: &chain, follow: true };
            because = inner.cut(during.begin_ns, during.end_ns);
        }
        let state = if let Some((how, by)) = stopped {
            let by = by.map(|by| thread_at(self.timeline, by, during.begin_ns));
            State::Stopped { how, by, waker }
        } else {
            let call = self.line().and_then(|line| line.calls_within(since_ns, since_ns + 1).last());
            State::Blocked {
                off: state.and_then(TaskState::off),
                system_call: call.map(|call| self.timeline.system_call(self.tid, call.number)),
                function: function.map(str::to_owned),
                io_wait: blocked.is_some_and(|(_, io_wait)| io_wait),
                waker,
            }
        };
        Part { because, ..self.part(during.begin_ns, during.end_ns, None, state) }
    }
}

/// An interrupt as shown to a reader.
pub(crate) fn interrupt(timeline: &Timeline<'_>, source: Source) -> Interrupt {
    let text = |name| timeline.trace.names.text(name).to_owned();
    match source {
        Source::Device { name, .. } if kernel_names::is_timer_device(&text(name)) => Interrupt::Timer,
        Source::Device { irq, name } => Interrupt::Device { irq, name: text(name) },
        Source::Softirq(vector) => Interrupt::Softirq(vector),
        Source::Vector(kind) if kernel_names::is_timer_vector(&text(kind)) => Interrupt::Timer,
        Source::Vector(kind) => Interrupt::Vector { name: text(kind) },
    }
}

fn piece<T>(during: During<T>, cpu: Option<u32>, state: State) -> Piece {
    During { begin_ns: during.begin_ns, end_ns: during.end_ns, what: (cpu, state) }
}

/// Overlays pieces with stretches, which are in order and do not overlap. Where both apply, the
/// stretches win.
fn over(base: Vec<Piece>, stretches: impl Iterator<Item = During<State>>) -> Vec<Piece> {
    let mut stretches = stretches.peekable();
    let mut out = Vec::with_capacity(base.len());
    for piece in base {
        let (cpu, own) = piece.what;
        let mut from_ns = piece.begin_ns;
        while let Some(stretch) = stretches.peek() {
            let (begin_ns, end_ns) = (stretch.begin_ns.max(from_ns), stretch.end_ns.min(piece.end_ns));
            if stretch.begin_ns >= piece.end_ns {
                break;
            }
            if begin_ns < end_ns {
                if from_ns < begin_ns {
                    out.push(During { begin_ns: from_ns, end_ns: begin_ns, what: (cpu, own.clone()) });
                }
                out.push(During { begin_ns, end_ns, what: (cpu, stretch.what.clone()) });
                from_ns = end_ns;
            }
            // A stretch that continues into the next piece stays.
            if stretch.end_ns > piece.end_ns {
                break;
            }
            stretches.next();
        }
        if from_ns < piece.end_ns {
            out.push(During { begin_ns: from_ns, end_ns: piece.end_ns, what: (cpu, own) });
        }
    }
    out
}
