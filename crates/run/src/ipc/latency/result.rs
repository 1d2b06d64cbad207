//! The result of a latency test: histograms and counters by series, pair and caller, which can be
//! merged. All other figures derive from these. Must not know how they were measured or shown.

use roundtrip_latency::{Deadline, DeadlineCount, Histogram, Placement, Sample, Timeline};
use serde::{Deserialize, Serialize};

use super::halted::Halted;
use super::plan::{Inheritance, LatencyPlan};
use super::slow_calls::Explained;
use crate::counters::ThreadCounters;
use crate::ipc::{Backend, Stack};
use crate::scheduling::Scheduling;

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// The plan.
    pub plan: LatencyPlan,
    /// The driver; `None` in passthrough mode.
    pub backend: Option<Backend>,
    /// The number of CPUs that this process may use.
    pub usable_cpus: usize,
    /// The cost of one clock reading, in nanoseconds. Each latency includes about one.
    pub clock_read_cost_ns: f64,
    /// How long the work of each call takes, in nanoseconds, measured before the run if the plan
    /// requests less than a millisecond: more than requested, because of the clock that ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_takes_ns: Option<u64>,
    /// One entry for each stack and inheritance setting.
    pub series: Vec<Series>,
    /// What a reader must know before trusting the figures.
    pub warnings: Vec<String>,
    /// Why the plan's real-time callers did not call; `None` if they did.
    pub realtime_refused: Option<String>,
    /// The slow calls that were kept, if the plan requests that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
    /// The call that stopped the kernel's trace and the run, if the plan requests that and there
    /// was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<Halted>,
    /// Whether real-time priorities were inherited through a PI futex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited_by_pi_futex: bool,
    /// How the driver wakes threads, if the driver chooses that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<String>,
}

impl LatencyResult {
    /// How long the work of each call takes, in nanoseconds, if that is at least 5% more than
    /// requested: one reading of the clock that ends it takes part of a microsecond.
    #[must_use]
    pub fn longer_work_ns(&self) -> Option<u64> {
        let requested_ns = self.plan.work_ns;
        self.work_takes_ns.filter(|&takes_ns| takes_ns >= requested_ns + requested_ns / 20)
    }
}

/// One stack with one inheritance setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The stack.
    pub stack: Stack,
    /// The setting.
    pub inheritance: Inheritance,
    /// One entry for each pair.
    pub pairs: Vec<PairResult>,
    /// Whether server threads ran with their callers' scheduling.
    pub verdict: Verdict,
}

/// Whether every server thread ran with its caller's policy class and real-time priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "inheritance", rename_all = "UPPERCASE")]
pub enum Verdict {
    /// They did in every call.
    Pass,
    /// They did not in every call.
    Fail {
        /// The likely reason.
        reason: String,
    },
    /// They ran at the caller's priority, but their policy did not always show it. In such a call
    /// the server thread inherited the priority through a PI futex, according to the driver's
    /// counter.
    Unseen {
        /// In how many calls the policy did not show it.
        reason: String,
    },
    /// There was no real-time caller.
    Skip {
        /// The reason for that.
        reason: String,
    },
}

impl Verdict {
    /// "PASS" or "FAIL", or "SKIP" if policies do not answer the question.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail { .. } => "FAIL",
            Self::Unseen { .. } | Self::Skip { .. } => "SKIP",
        }
    }

    /// Combines the verdicts of two runs. In both runs together, `failed` of `total` calls did not
    /// inherit. The worse verdict wins.
    pub(crate) fn merge(&mut self, other: &Self, failed: u64, total: u64) {
        let good = matches!(self, Self::Pass | Self::Unseen { .. });
        if good && *other != Self::Pass {
            *self = other.clone();
        }
        let theirs = other.reason().map(without_counts);
        if let Self::Fail { reason } | Self::Unseen { reason } = self {
            let ours = without_counts(reason);
            if ours == *reason {
                return;
            }
            let also = theirs.filter(|theirs| *theirs != ours && failed_too(other));
            let also = also.map_or_else(String::new, |theirs| format!("; in another run {theirs}"));
            *reason = format!("in {failed} of {total} calls {ours}{also}");
        }
    }

    /// The reason why the verdict is not PASS.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Fail { reason } | Self::Unseen { reason } | Self::Skip { reason } => Some(reason),
        }
    }
}

fn failed_too(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fail { .. })
}

/// Removes "in 3 of 8 calls " from the start of a reason.
fn without_counts(reason: &str) -> &str {
    let counted = reason.strip_prefix("in ").and_then(|rest| rest.split_once(" calls "));
    let number = |text: &str| text.parse::<u64>().is_ok();
    match counted.and_then(|(counts, rest)| Some((counts.split_once(" of ")?, rest))) {
        Some(((failed, total), rest)) if number(failed) && number(total) => rest,
        _ => reason,
    }
}

/// Which thread runs on which CPU, and how it is scheduled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// "service", "main", "client", "fifo-caller", "other-caller", or the stack's name for a
    /// serving thread.
    pub role: String,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The CPU that it ran on.
    pub cpu: u32,
    /// How it is scheduled.
    pub scheduling: Scheduling,
    /// Whether it inherited this scheduling for the call.
    pub inherited: bool,
}

/// One pair, or all pairs of a series together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairResult {
    /// The results of each caller, in calling order.
    pub callers: Vec<CallerResult>,
    /// The scheduler's counters of the server's looper threads while they served; `None` in
    /// passthrough mode.
    pub server: Option<ThreadCounters>,
}

/// The calls of one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallerResult {
    /// How the thread was actually scheduled, as read from the kernel.
    pub caller: Scheduling,
    /// Calls, and how many took longer than the deadline.
    pub deadline: DeadlineCount,
    /// The time from the start of the call until its reply.
    pub latency: Histogram,
    /// How these times changed during the run: the responses if calls have a rate, else the
    /// latency.
    pub timeline: Timeline,
    /// The time from the call's *intended* start until its reply, and how many of these times
    /// missed the deadline. Present only if calls have a rate.
    pub response: Option<Response>,
    /// The request leg: from the start of the call until the handler starts. The server's
    /// timestamps split each latency into three legs.
    pub request: Histogram,
    /// The handling leg: in the handler. It includes two clock readings, and one sched_getattr(2)
    /// for the serving thread's scheduling.
    pub handling: Histogram,
    /// The reply leg: from the end of the handler until the caller has the reply.
    pub reply: Histogram,
    /// Calls whose server thread ran on the CPU on which the caller started.
    pub same_cpu: u64,
    /// Calls whose server thread did not run with the caller's policy class and real-time priority.
    pub not_inherited: u64,
    /// How often the caller started a call on a CPU other than that of its previous call.
    pub cpu_changes: u64,
    /// How server threads were scheduled while they served, with the number of calls, most frequent
    /// first.
    pub served_as: Vec<(Scheduling, u64)>,
    /// The scheduler's counters of the calling thread; `None` for callers with a new thread for
    /// each call.
    pub counters: Option<ThreadCounters>,
    /// All calls in order, if the plan keeps them. Not stored with the result.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Response times, measured from when calls should have started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// From the intended start until the reply.
    pub time: Histogram,
    /// How many took longer than the deadline.
    pub missed: u64,
    /// How long the schedule ran, in nanoseconds; 0 in runs that did not store it.
    #[serde(default)]
    pub elapsed_ns: u64,
    /// How long the schedule stood still while recordings of slow calls were collected, in
    /// nanoseconds. No call was due in this time.
    #[serde(default)]
    pub paused_ns: u64,
}

impl Response {
    /// The calls per second that were reached.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.time.count() as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// The calls per second that were reached, if these are fewer than planned: by more than 1%,
    /// and by more than the two calls that may be under way at the end.
    #[must_use]
    pub fn too_slow(&self, planned_per_s: f64) -> Option<f64> {
        let due = self.elapsed_ns as f64 / 1e9 * planned_per_s;
        let lacks = due - self.time.count() as f64;
        self.rate_per_s().filter(|_| lacks > 2.0 && lacks > due / 100.0)
    }
}

impl CallerResult {
    /// An empty result of a run that started at `start_ns`.
    #[must_use]
    pub fn new(caller: Scheduling, deadline: Deadline, open_loop: bool, start_ns: u64) -> Self {
        Self {
            caller,
            deadline: deadline.counter(),
            latency: Histogram::new(),
            timeline: Timeline::new(start_ns),
            response: open_loop.then(Response::default),
            request: Histogram::new(),
            handling: Histogram::new(),
            reply: Histogram::new(),
            same_cpu: 0,
            not_inherited: 0,
            cpu_changes: 0,
            served_as: Vec::new(),
            counters: None,
            samples: Vec::new(),
        }
    }

    /// Counts consecutive calls.
    pub fn record(&mut self, samples: &[Sample]) {
        for sample in samples {
            let latency_ns = sample.latency_ns();
            let missed = self.deadline.record(latency_ns);
            self.latency.record(latency_ns);
            let (mut time_ns, mut missed) = (latency_ns, missed);
            if let Some(response) = &mut self.response {
                time_ns = sample.response_ns();
                missed = self.deadline.deadline.missed(time_ns);
                response.time.record(time_ns);
                response.missed += u64::from(missed);
            }
            self.timeline.record(sample.start_ns, time_ns, missed);
            if let Some(legs) = sample.legs() {
                self.request.record(legs.request_ns);
                self.handling.record(legs.handling_ns);
                self.reply.record(legs.reply_ns);
            }
            self.same_cpu += u64::from(sample.same_cpu());
            self.not_inherited += u64::from(!sample.inherited());
            self.served(scheduling_of(sample.server), 1);
        }
        let changes = samples.windows(2).filter(|pair| pair[0].caller.cpu != pair[1].caller.cpu);
        self.cpu_changes += changes.count() as u64;
    }

    fn served(&mut self, scheduling: Scheduling, calls: u64) {
        match self.served_as.iter_mut().find(|(known, _)| *known == scheduling) {
            Some((_, count)) => *count += calls,
            None => self.served_as.push((scheduling, calls)),
        }
    }

    /// Adds the calls of a caller with the same scheduling.
    pub fn merge(&mut self, other: &Self) {
        self.deadline.count += other.deadline.count;
        self.deadline.missed += other.deadline.missed;
        self.latency.merge(&other.latency);
        self.timeline.merge(&other.timeline);
        if let (Some(ours), Some(theirs)) = (&mut self.response, &other.response) {
            ours.time.merge(&theirs.time);
            ours.missed += theirs.missed;
            ours.elapsed_ns += theirs.elapsed_ns;
            ours.paused_ns += theirs.paused_ns;
        }
        self.request.merge(&other.request);
        self.handling.merge(&other.handling);
        self.reply.merge(&other.reply);
        self.same_cpu += other.same_cpu;
        self.not_inherited += other.not_inherited;
        self.cpu_changes += other.cpu_changes;
        for &(scheduling, calls) in &other.served_as {
            self.served(scheduling, calls);
        }
        self.served_as.sort_by_key(|&(_, calls)| std::cmp::Reverse(calls));
        self.counters = plus(self.counters, other.counters);
        self.samples.extend_from_slice(&other.samples);
    }

    /// The times that a caller is judged by: the responses if calls have a rate, else the latency.
    #[must_use]
    pub fn times(&self) -> &Histogram {
        self.response.as_ref().map_or(&self.latency, |response| &response.time)
    }

    /// How many of these times missed the deadline.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.response.as_ref().map_or(self.deadline.missed, |response| response.missed)
    }

    /// The number of calls.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.deadline.count
    }
}

impl PairResult {
    /// Adds the calls of the same callers in another pair or a later turn.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.callers.iter_mut().zip(&other.callers) {
            ours.merge(theirs);
        }
        self.server = plus(self.server, other.server);
    }

    /// The number of calls of all callers.
    pub fn count(&self) -> u64 {
        self.callers.iter().map(CallerResult::count).sum()
    }

    /// Calls of all callers served on the CPU on which they started.
    #[must_use]
    pub fn same_cpu(&self) -> u64 {
        self.callers.iter().map(|caller| caller.same_cpu).sum()
    }
}

impl Series {
    /// All pairs combined.
    #[must_use]
    pub fn all(&self) -> Option<PairResult> {
        let (first, rest) = self.pairs.split_first()?;
        let mut all = first.clone();
        rest.iter().for_each(|pair| all.merge(pair));
        Some(all)
    }
}

/// The sum of two counters; `None` adds nothing.
fn plus(one: Option<ThreadCounters>, other: Option<ThreadCounters>) -> Option<ThreadCounters> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(&other)),
        (one, other) => one.or(other),
    }
}

fn scheduling_of(placement: Placement) -> Scheduling {
    Scheduling { policy: placement.policy, priority: placement.priority, nice: placement.nice }
}

#[cfg(test)]
mod tests;
