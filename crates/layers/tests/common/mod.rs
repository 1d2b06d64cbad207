//! A simulated scheduler that generates consistent recordings, and remembers what really happened.

use roundtrip_tracefs::{Body, Event, EventContext, Loss, TaskState, ThreadRef, Trace};

/// What really happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Running(u32),
    Runnable(u32),
    Waking,
    Blocked,
}

/// A random number generator with the same output everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}

/// A machine with threads 1, 2, 3, …; 0 is idle.
pub(crate) struct Machine {
    random: Random,
    now_ns: u64,
    current: Vec<u32>,
    in_interrupt: Vec<bool>,
    /// Pending wakeups: thread and target CPU.
    pending: Vec<(u32, u32)>,
    states: Vec<Truth>,
    pub(crate) trace: Trace,
    /// By thread: activities with start times.
    pub(crate) truth: Vec<Vec<(u64, Truth)>>,
    /// By CPU: threads with start times.
    pub(crate) on_cpu: Vec<Vec<(u64, u32)>>,
    /// Wakeups: time, woken thread, and waker; `None` for an interrupt.
    pub(crate) woken: Vec<(u64, u32, Option<u32>)>,
}

pub(crate) const ALL_EVENTS: [&str; 8] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_migrate_task",
    "irq/irq_handler_entry",
    "irq/softirq_entry",
    "irq_vectors/local_timer_entry",
    "raw_syscalls/sys_enter",
];

impl Machine {
    pub(crate) fn run(seed: u64, cpus: u32, threads: u32, steps: u32) -> Self {
        let start = vec![(0, Truth::Blocked)];
        let mut machine = Self {
            random: Random(seed),
            now_ns: 1_000,
            current: vec![0; cpus as usize],
            in_interrupt: vec![false; cpus as usize],
            pending: Vec::new(),
            states: vec![Truth::Blocked; threads as usize + 1],
            trace: Trace {
                recorded: ALL_EVENTS.map(str::to_owned).into(),
                machine: "x86_64".into(),
                ..Trace::default()
            },
            truth: vec![start; threads as usize + 1],
            on_cpu: vec![vec![(0, 0)]; cpus as usize],
            woken: Vec::new(),
        };
        machine.trace.names.intern("thread");
        for _ in 0..steps {
            // Some events have the same time.
            machine.now_ns += [0, 1, 500, 3_000, 40_000, 1_500_000][machine.random.below(6) as usize];
            machine.step();
        }
        machine.trace.stopped_ns = Some(machine.now_ns + 1);
        machine
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.now_ns
    }

    fn thread(&self, tid: u32) -> ThreadRef {
        ThreadRef { tid, prio: 100 + tid.cast_signed(), comm: roundtrip_tracefs::Name(1) }
    }

    fn event(&mut self, cpu: u32, body: Body) {
        let tid = self.current[cpu as usize];
        // All events of one CPU have different times, but two CPUs may act in the same nanosecond.
        if self
            .trace
            .events
            .iter()
            .rfind(|event| event.cpu == cpu)
            .is_some_and(|event| event.time_ns == self.now_ns)
        {
            self.now_ns += 1;
        }
        self.trace.events.push(Event { time_ns: self.now_ns, cpu, tid, body });
    }

    fn set(&mut self, tid: u32, truth: Truth) {
        if tid != 0 {
            self.states[tid as usize] = truth;
            self.truth[tid as usize].push((self.now_ns, truth));
        }
    }

    fn of(&self, truth: Truth) -> Vec<u32> {
        (1..self.states.len() as u32).filter(|&tid| self.states[tid as usize] == truth).collect()
    }

    fn step(&mut self) {
        let cpu = self.random.below(self.current.len() as u64) as u32;
        let current = self.current[cpu as usize];
        let arrived = self.pending.iter().position(|(_, target)| *target == cpu);
        match self.random.below(12) {
            0 | 1 if let Some(index) = arrived => {
                let (tid, _) = self.pending.remove(index);
                self.event(
                    cpu,
                    Body::Wakeup {
                        thread: self.thread(tid),
                        target_cpu: cpu,
                        new: false,
                        context: EventContext::Unknown,
                    },
                );
                self.set(tid, Truth::Runnable(cpu));
            }
            2 => {
                let entered = self.in_interrupt[cpu as usize];
                let body =
                    if entered { Body::SoftirqExit { vector: 3 } } else { Body::SoftirqEntry { vector: 3 } };
                self.event(cpu, body);
                self.in_interrupt[cpu as usize] = !entered;
            }
            3..=5 => self.wake(cpu),
            6 if !self.in_interrupt[cpu as usize] && current != 0 => {
                self.event(cpu, Body::SysEnter { number: 202, first: 0, third: 0, sixth: 0 });
            }
            7 => self.migrate(cpu),
            _ if !self.in_interrupt[cpu as usize] => self.switch(cpu, current),
            _ => {}
        }
    }

    /// A running thread, or an interrupt, wakes a sleeping one.
    fn wake(&mut self, cpu: u32) {
        let interrupt = self.in_interrupt[cpu as usize];
        let current = self.current[cpu as usize];
        if !interrupt && current == 0 {
            return;
        }
        if self.random.below(8) == 0 {
            self.wake_awake(cpu);
        }
        let Some(tid) = self.random.pick(&self.of(Truth::Blocked)) else { return };
        let target = self.random.below(self.current.len() as u64) as u32;
        self.event(
            cpu,
            Body::Waking { thread: self.thread(tid), target_cpu: target, context: EventContext::Unknown },
        );
        self.set(tid, Truth::Waking);
        self.woken.push((self.now_ns, tid, (!interrupt).then_some(current)));
        self.pending.push((tid, target));
    }

    /// A thread that is about to sleep is woken, and continues to run.
    fn wake_awake(&mut self, cpu: u32) {
        let tid = 1 + self.random.below(self.states.len() as u64 - 1) as u32;
        if let Truth::Running(target_cpu) = self.states[tid as usize] {
            let thread = self.thread(tid);
            self.event(cpu, Body::Waking { thread, target_cpu, context: EventContext::Unknown });
            self.event(cpu, Body::Wakeup { thread, target_cpu, new: false, context: EventContext::Unknown });
        }
    }

    fn migrate(&mut self, cpu: u32) {
        let Some(tid) = self.random.pick(&self.of(Truth::Runnable(cpu))) else { return };
        let to_cpu = (cpu + 1) % self.current.len() as u32;
        if to_cpu != cpu {
            // Another CPU pulls the thread, like idle CPUs do.
            self.event(to_cpu, Body::Migrate { thread: self.thread(tid), from_cpu: cpu, to_cpu });
            self.set(tid, Truth::Runnable(to_cpu));
        }
    }

    fn switch(&mut self, cpu: u32, current: u32) {
        let next = self.random.pick(&self.of(Truth::Runnable(cpu)));
        let preempt = current != 0 && next.is_some() && self.random.below(2) == 0;
        if current == 0 && next.is_none() {
            return;
        }
        let prev_state = match (current, preempt) {
            (0, _) => TaskState(0),
            (_, true) => TaskState::PREEMPTED,
            _ => TaskState([1, 1, 2, 4][self.random.below(4) as usize]),
        };
        let next = next.unwrap_or(0);
        let (prev, thread) = (self.thread(current), self.thread(next));
        self.event(cpu, Body::Switch { prev, prev_state, next: thread });
        self.set(current, if preempt { Truth::Runnable(cpu) } else { Truth::Blocked });
        self.set(next, Truth::Running(cpu));
        self.current[cpu as usize] = next;
        self.on_cpu[cpu as usize].push((self.now_ns, next));
    }

    pub(crate) fn truth_at(&self, tid: u32, time_ns: u64) -> Truth {
        at(&self.truth[tid as usize], time_ns)
    }

    pub(crate) fn had_cpu(&self, cpu: u32, time_ns: u64) -> u32 {
        at(&self.on_cpu[cpu as usize], time_ns)
    }

    /// Removes consecutive events of one CPU, and reports the loss as the kernel does.
    pub(crate) fn lose(&mut self, random: &mut Random) {
        let cpu = random.below(self.current.len() as u64) as u32;
        let of_cpu: Vec<usize> =
            (0..self.trace.events.len()).filter(|&index| self.trace.events[index].cpu == cpu).collect();
        if of_cpu.is_empty() {
            return;
        }
        let from = random.below(of_cpu.len() as u64) as usize;
        let to = (from + 1 + random.below(12) as usize).min(of_cpu.len());
        let after_ns = from.checked_sub(1).map_or(0, |index| self.trace.events[of_cpu[index]].time_ns);
        let before_ns = of_cpu.get(to).map_or(u64::MAX, |&index| self.trace.events[index].time_ns);
        // The order of events of two CPUs in the same nanosecond is unknown.
        let same = self.trace.events.iter().any(|event| event.cpu != cpu && event.time_ns == before_ns);
        if same || after_ns == before_ns {
            return;
        }
        for &index in of_cpu[from..to].iter().rev() {
            self.trace.events.remove(index);
        }
        self.trace.losses.push(Loss { cpu, after_ns, before_ns, events: None, damaged: false });
    }
}

fn at<T: Copy>(changes: &[(u64, T)], time_ns: u64) -> T {
    changes[changes.partition_point(|change| change.0 <= time_ns).saturating_sub(1)].1
}
