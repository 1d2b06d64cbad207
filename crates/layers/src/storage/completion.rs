//! The path of a completion: from the controller's interrupt, to the code that completes the
//! request, to the code that wakes the application. Also the interrupts of all CPUs during the
//! call. Must not know what this means for the call.

use super::{InterruptUse, Layers, Request, Write, Writes};
use crate::kernel_names::is_from_cpus;
use crate::timeline::{Source, WakingBy};

/// The context that code runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// A device's interrupt, or a timer's.
    Interrupt,
    /// A softirq.
    Softirq,
    /// An interrupt that another CPU sent.
    Ipi,
    /// A thread.
    Thread,
    /// No event shows it.
    Unknown,
}

/// The path of a call's last completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Completion {
    /// Whether its controller's interrupt was seen.
    pub interrupt: bool,
    /// The context in which the request was completed.
    pub completed_in: Context,
    /// Whether that was on another CPU than the interrupt.
    pub elsewhere: bool,
    /// The context in which the application was woken; `None` if it did not sleep.
    pub woken_in: Option<Context>,
}

impl Writes<'_> {
    /// The path of the last completion of a divided call. If the caller polled for requests, that
    /// of the last polled request. `None` if there is no request.
    #[must_use]
    pub fn completion(&self, write: Write, layers: &Layers) -> Option<Completion> {
        let polled = layers.requests.iter().rfind(|request| self.is_polled(request, write));
        let request = polled.or_else(|| layers.requests.iter().rfind(|request| request.leaf))?;
        let waking = self.timeline.last_waking(write.tid, write.end_ns);
        let waking = waking.filter(|waking| waking.time_ns >= request.started_ns);
        Some(Completion {
            interrupt: request.interrupt_cpu.is_some(),
            completed_in: self.context(request.completed_cpu, request.completed_ns),
            elsewhere: request.interrupt_cpu.is_some_and(|cpu| cpu != request.completed_cpu),
            woken_in: waking.map(|waking| match waking.by {
                WakingBy::Thread(_) => Context::Thread,
                WakingBy::Interrupt(Some(source)) => self.context_of(source),
                WakingBy::Interrupt(None) => Context::Interrupt,
                WakingBy::OtherCpu | WakingBy::Unknown => Context::Unknown,
            }),
        })
    }

    /// The interrupts of all CPUs during a call. Includes timers, but not softirqs.
    #[must_use]
    pub fn interrupts(&self, write: Write) -> InterruptUse {
        let mut all = InterruptUse::default();
        for line in (0..self.timeline.cpu_count()).filter_map(|cpu| self.timeline.cpu(cpu)) {
            for stretch in line.interrupts.within(write.start_ns, write.end_ns) {
                if !matches!(stretch.source, Source::Softirq(_)) {
                    all.count += 1;
                    all.handled_ns += stretch.end_ns - stretch.begin_ns;
                }
            }
        }
        all
    }

    /// Whether the caller itself, and not an interrupt on top of it, completed a request.
    pub(super) fn is_polled(&self, request: &Request, write: Write) -> bool {
        request.leaf
            && request.completed_by == write.tid
            && self.context(request.completed_cpu, request.completed_ns) == Context::Thread
    }

    fn context(&self, cpu: u32, time_ns: u64) -> Context {
        let line = self.timeline.cpu(cpu).filter(|_| self.timeline.knows.interrupts);
        let stretch = line.map(|line| line.interrupts.within(time_ns, time_ns + 1).first());
        match stretch {
            None => Context::Unknown,
            Some(None) => Context::Thread,
            Some(Some(stretch)) => self.context_of(stretch.source),
        }
    }

    fn context_of(&self, source: Source) -> Context {
        match source {
            Source::Device { .. } => Context::Interrupt,
            Source::Softirq(_) => Context::Softirq,
            Source::Vector(kind) if is_from_cpus(self.timeline.trace.names.text(kind)) => Context::Ipi,
            Source::Vector(_) => Context::Interrupt,
        }
    }
}
