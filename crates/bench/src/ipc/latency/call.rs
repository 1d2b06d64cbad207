//! One caller: makes a call, times it, and records the result. The timed section is in
//! [`Caller::call`] and contains the call and two clock readings. Must not know whose turn it is.

use std::sync::Mutex;

use roundtrip_echo::{Benchmark, Purpose, ServerReport};
use roundtrip_latency::{Deadline, Placement, Policy, Sample};

use super::account::Accounts;
use super::halt::Switch;
use super::messages::{ClientMessage, Resume, SlowCall, Stop};
use super::watch::Watch;
use super::window::History;
use crate::clock::{now_ns, thread_cpu_ns};
use crate::error::{Error, Result};
use crate::ipc::probe::placement;
use crate::sched;
use crate::schedule::{Clock, Pace, Part, Rate};
use crate::worker::{Link, stop};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::latency::CallerResult;
use roundtrip_run::ipc::latency::ThreadId;
use roundtrip_run::ipc::latency::ThreadReport;

/// The capacity of the sample buffer. A full buffer is counted into the histograms between two
/// calls.
const BUFFER: usize = 16_384;

/// Shared by all callers of a turn.
pub(super) struct Shared<'a> {
    pub(super) service: &'a dyn Benchmark,
    pub(super) payload: &'a [u8],
    pub(super) deadline: Deadline,
    pub(super) open_loop: bool,
    /// When the run's first turn began, CLOCK_BOOTTIME.
    pub(super) start_ns: u64,
    pub(super) keep_samples: bool,
    pub(super) mode: Mode,
    /// The role under which serving threads are reported.
    pub(super) server_role: &'a str,
    /// Whether to report each call.
    pub(super) verbose: bool,
    pub(super) halt: Option<&'a Switch>,
    pub(super) watch: Option<&'a Watch>,
    pub(super) link: Mutex<&'a mut Link>,
}

impl Shared<'_> {
    pub(super) fn say(&self, said: &ClientMessage) -> Result<()> {
        self.link.lock().unwrap_or_else(std::sync::PoisonError::into_inner).send(said)
    }
}

/// How a caller is scheduled, and its calls so far.
pub(super) struct Caller<'a> {
    shared: &'a Shared<'a>,
    pub(super) wanted: Scheduling,
    pub(super) result: CallerResult,
    buffer: Vec<Sample>,
    accounts: Accounts,
    /// The latest calls, if a recorder runs.
    pub(super) history: History,
    /// How another program scheduled the caller's thread during the turn.
    pub(super) rescheduled: Option<Scheduling>,
    /// How far the caller is in its schedule, if calls have a rate.
    pub(super) pace: Pace,
    /// How long this caller waited after its last call, in nanoseconds, while the recording of a
    /// slow call was collected.
    paused_ns: u64,
}

impl<'a> Caller<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, wanted: Scheduling, history: History, pace: Pace) -> Self {
        let result = CallerResult::new(wanted, shared.deadline, shared.open_loop, shared.start_ns);
        let mut buffer = vec![Sample { start_ns: 1, ..Sample::default() }; BUFFER];
        // Filled once, so that its pages are resident when calls are timed.
        buffer.clear();
        Caller {
            shared,
            wanted,
            result,
            buffer,
            accounts: Accounts::default(),
            history,
            rescheduled: None,
            pace,
            paused_ns: 0,
        }
    }

    /// Schedules the calling thread as this caller, and returns the resulting scheduling.
    pub(super) fn take_on(&mut self) -> Result<Scheduling> {
        if sched::scheduling(0)? != self.wanted {
            sched::set_scheduling(0, self.wanted)?;
        }
        self.result.caller = sched::scheduling(0)?;
        Ok(self.result.caller)
    }

    /// Notes if the calling thread is no longer scheduled as `own`, as it was before its calls.
    pub(super) fn check(&mut self, own: Scheduling) -> Result<()> {
        let after = sched::scheduling(0)?;
        if after != own {
            self.rescheduled = Some(after);
        }
        Ok(())
    }

    /// Makes calls that do not count. They set the thread up for the driver.
    pub(super) fn warm_up(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            let report = self.shared.service.call(self.shared.payload, Purpose::WarmUp)?;
            if self.shared.watch.is_some() {
                self.accounts.served_by(self.server(&report));
            }
        }
        Ok(())
    }

    /// Makes the calls of a turn that have a rate. No caller makes calls while a recording is
    /// collected, so that time does not make a call late.
    pub(super) fn keep_pace(
        &mut self,
        clock: &impl Clock,
        own: Scheduling,
        rate: Rate,
        part: Part,
        begin_ns: u64,
    ) -> Result<()> {
        let mut pace = self.pace.clone();
        let made = pace.run(clock, rate, part, begin_ns, |intended_ns| {
            self.paused_ns = 0;
            self.call(own, Some(intended_ns))?;
            Ok(self.paused_ns)
        });
        if let Some(response) = &mut self.result.response {
            response.elapsed_ns = pace.elapsed_ns - self.pace.elapsed_ns;
            response.paused_ns = pace.paused_ns - self.pace.paused_ns;
        }
        self.pace = pace;
        made
    }

    /// Makes one call on the calling thread, which is scheduled as `own`.
    pub(super) fn call(&mut self, own: Scheduling, intended_ns: Option<u64>) -> Result<()> {
        let shared = self.shared;
        if self.buffer.len() == BUFFER {
            self.count()?;
        }
        let Scheduling { policy, priority, nice } = own;
        let mut caller = Placement { cpu: sched::current_cpu(), policy, priority, nice };
        if shared.verbose {
            self.report_caller(caller)?;
            caller.cpu = sched::current_cpu();
        }
        if shared.watch.is_some() {
            self.accounts.begin();
        }
        let start_ns = now_ns();
        let report = shared.service.call(shared.payload, Purpose::Measured);
        let end_ns = now_ns();
        let slow = shared.watch.filter(|watch| watch.slow(end_ns - start_ns)).map(|watch| {
            // The order matters: first read this thread's CPU time, then stop the recorder, then do
            // everything else.
            let cpu_ns = thread_cpu_ns();
            (watch, cpu_ns, watch.stop().map_err(|cause| cause.to_string()))
        });
        let missed = shared.deadline.missed(end_ns - start_ns);
        let halted = shared.halt.filter(|_| missed).and_then(|switch| switch.off(own));
        let report = report?;
        let sample = Sample {
            intended_ns: intended_ns.unwrap_or(start_ns),
            start_ns,
            received_ns: report.received_ns,
            replied_ns: report.replied_ns,
            end_ns,
            caller,
            server: placement(&report),
        };
        self.buffer.push(sample);
        if let Some(stopped) = halted {
            self.halted(stopped, sample, own)?;
        }
        if let Some(watch) = shared.watch {
            let server = self.server(&report);
            if let Some((watch, cpu_ns, stopped)) = slow {
                self.tell(watch, own, sample, server, cpu_ns, stopped)?;
            }
            watch.count(sample.latency_ns());
            self.accounts.served_by(server);
        }
        if shared.verbose { self.report_server(&report) } else { Ok(()) }
    }

    /// The thread that served a call, if it belongs to another process.
    fn server(&self, report: &ServerReport) -> Option<ThreadId> {
        let scheduling = report.scheduling.filter(|_| self.shared.mode == Mode::Binderize)?;
        Some(ThreadId { pid: scheduling.pid.unsigned_abs(), tid: scheduling.tid.unsigned_abs() })
    }

    /// Reports a slow call to the parent, and waits until the recorder is on again.
    fn tell(
        &mut self,
        watch: &Watch,
        caller: Scheduling,
        sample: Sample,
        server: Option<ThreadId>,
        cpu_ns: u64,
        stopped: std::result::Result<Stop, String>,
    ) -> Result<()> {
        let (client_counters, server_counters) = self.accounts.end(cpu_ns, server);
        let client = ThreadId { pid: std::process::id(), tid: sched::gettid() };
        let call = SlowCall { caller, sample, client, server, client_counters, server_counters, stopped };
        let mut link = self.shared.link.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        link.send(&ClientMessage::Slow(Box::new(call)))?;
        let Resume { threshold_ns } = link.receive()?.ok_or(Error::Orphaned)?;
        drop(link);
        watch.at_least(threshold_ns);
        self.paused_ns = now_ns() - sample.end_ns;
        Ok(())
    }

    /// Ends this client's calls with the current iteration, and reports to the parent that the
    /// trace was stopped, or why it could not be.
    fn halted(&self, stopped: std::io::Result<()>, sample: Sample, caller: Scheduling) -> Result<()> {
        stop();
        let stopped = stopped.map_err(|cause| cause.to_string());
        let (latency_ns, end_ns) = (sample.latency_ns(), sample.end_ns);
        self.shared.say(&ClientMessage::Halted { latency_ns, end_ns, caller, stopped })
    }

    /// Counts the samples in the buffer.
    pub(super) fn count(&mut self) -> Result<()> {
        self.result.record(&self.buffer);
        if let Some(windows) = self.shared.watch.and_then(Watch::windows) {
            self.history.add(&self.buffer, windows)?;
        }
        if self.shared.keep_samples {
            self.result.samples.extend_from_slice(&self.buffer);
        }
        self.buffer.clear();
        Ok(())
    }

    fn report_caller(&self, caller: Placement) -> Result<()> {
        let name = match caller.policy {
            Policy::Fifo => "fifo",
            Policy::RoundRobin => "rr",
            _ => "other",
        };
        let Placement { cpu, policy, priority, nice } = caller;
        self.shared.say(&ClientMessage::Thread(ThreadReport {
            role: format!("{name}-caller"),
            pid: std::process::id(),
            tid: sched::gettid(),
            cpu,
            scheduling: Scheduling { policy, priority, nice },
            inherited: false,
        }))
    }

    fn report_server(&self, report: &ServerReport) -> Result<()> {
        let Placement { cpu, policy, priority, nice } = placement(report);
        let (pid, tid) = report.scheduling.map_or((0, 0), |scheduling| (scheduling.pid, scheduling.tid));
        self.shared.say(&ClientMessage::Thread(ThreadReport {
            role: self.shared.server_role.to_owned(),
            pid: pid.unsigned_abs(),
            tid: tid.unsigned_abs(),
            cpu,
            scheduling: Scheduling { policy, priority, nice },
            // The server's threads have no real-time priority of their own.
            inherited: self.shared.mode == Mode::Binderize && policy.is_realtime(),
        }))
    }
}
