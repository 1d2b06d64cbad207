//! Watches the conditions of a run while it lasts: what may change beside what is measured, and
//! would make the figures those of another machine. Must not judge what changed.
//!
//! Measurements look at the conditions between two turns, when nothing is timed. No thread does so
//! in the background, because it would use a CPU that calls need. While this process waits for its
//! workers, it wakes up twice a second, and reads the few conditions that take little time.

mod changes;
mod machine;
mod processes;
mod share;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use roundtrip_run::environment::Change;

use crate::clock::{now_ns, thread_cpu_ns};
use crate::kernel::counters;
use crate::kernel::root::Root;
use changes::Changes;
pub(crate) use processes::Process;
use share::Shares;

/// How often conditions are read at most. A reading takes up to a millisecond.
const EVERY_NS: u64 = 500_000_000;

/// The most processes that are read while workers make calls.
const MAX_GLIMPSED: usize = 16;

/// How long a condition must differ to count as changed. A thread may still be about to return an
/// inherited priority when its call has already ended.
const CONFIRM: std::time::Duration = std::time::Duration::from_millis(10);

thread_local! {
    /// The watch of the run that this thread makes.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// One reading of one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reading {
    what: String,
    /// The process that the condition belongs to, because a later one may have the same role; 0
    /// for the machine.
    pid: u32,
    value: String,
}

/// What the calling thread has done until an instant, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Waited {
    at_ns: u64,
    cpu_ns: u64,
    /// How long it has waited for a CPU.
    run_delay_ns: u64,
}

impl Waited {
    fn now() -> Self {
        let run_delay_ns = counters::run_delay_ns().unwrap_or(0);
        Self { at_ns: now_ns(), cpu_ns: thread_cpu_ns(), run_delay_ns }
    }
}

#[derive(Debug)]
struct Watch {
    root: Root,
    begun_ns: u64,
    last_ns: u64,
    /// When conditions were last read, or only those that take little time.
    glimpsed_ns: u64,
    /// When this thread last ended a wait.
    waited: Waited,
    changes: Changes,
    shares: Shares,
}

/// Whether this process has received SIGCONT, as after each stop.
static CONTINUED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
    let continued = Arc::default();
    // If this fails, only long stops are noticed.
    let _ = signal_hook::flag::register(libc::SIGCONT, Arc::clone(&continued));
    continued
});

/// Begins to watch. Until [`finish`], the calling thread's calls of [`look`] read conditions.
pub(crate) fn begin() {
    CONTINUED.store(false, Ordering::SeqCst);
    let (root, now_ns) = (Root::real(), now_ns());
    let mut changes = Changes::default();
    changes.add(machine::read(&root), 0);
    let shares = Shares::default();
    let (begun_ns, last_ns, glimpsed_ns) = (now_ns, now_ns, now_ns);
    let waited = Waited::now();
    let watch = Watch { root, begun_ns, last_ns, glimpsed_ns, waited, changes, shares };
    WATCH.with_borrow_mut(|one| *one = Some(watch));
}

/// Reads the conditions of the machine and of these processes, unless it did so within the last
/// half second. Call it while nothing is timed.
pub(crate) fn look(processes: &[Process<'_>]) {
    look_after(EVERY_NS, processes);
}

/// Like [`look`], whenever the last reading was made: at the first and the last look at processes.
pub(crate) fn look_now(processes: &[Process<'_>]) {
    look_after(0, processes);
}

fn look_after(least_ns: u64, processes: &[Process<'_>]) {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch.as_mut() else { return };
        if now_ns().saturating_sub(watch.last_ns) >= least_ns {
            watch.look(processes);
        }
    });
}

/// Reads what can be read in some microseconds, unless it did so within the last half second. May
/// be called while workers make calls, but never in a timed section.
pub(crate) fn glimpse<'a>(processes: impl FnOnce() -> Vec<Process<'a>>) {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch.as_mut() else { return };
        if now_ns().saturating_sub(watch.glimpsed_ns) >= EVERY_NS {
            watch.glimpse(&processes());
        }
    });
}

/// How long until the next glimpse is due.
pub(crate) fn until_glimpse() -> std::time::Duration {
    let glimpsed_ns = WATCH.with_borrow(|watch| watch.as_ref().map(|watch| watch.glimpsed_ns));
    let since_ns = glimpsed_ns.map_or(0, |glimpsed_ns| now_ns().saturating_sub(glimpsed_ns));
    std::time::Duration::from_nanos(EVERY_NS.saturating_sub(since_ns))
}

/// How much longer than its timeout a wait must last to show that this process did not run, if
/// nothing else shows it.
const LATE_NS: u64 = 700_000_000;

/// The same if this process was continued meanwhile. Other programs also send SIGCONT to processes
/// that were not stopped.
const LATE_AND_CONTINUED_NS: u64 = 50_000_000;

/// Notes that the calling thread has waited since `from_ns`, where at most `timeout_ns` were asked
/// for. If it was late although it did not wait for a CPU, this process was stopped or frozen, or
/// the machine was suspended. A stop that SIGCONT ended is noticed also if it began before the
/// wait, but after the last one.
pub(crate) fn waited(from_ns: u64, timeout_ns: u64) {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch.as_mut() else { return };
        let until_ns = now_ns();
        if until_ns.saturating_sub(watch.waited.at_ns) < LATE_AND_CONTINUED_NS / 2 {
            return;
        }
        let waited = Waited::now();
        let earlier = std::mem::replace(&mut watch.waited, waited);
        let (from_ns, used_ns, late_ns) = match CONTINUED.swap(false, Ordering::SeqCst) {
            true => (earlier.at_ns, waited.cpu_ns.saturating_sub(earlier.cpu_ns), LATE_AND_CONTINUED_NS),
            false => (from_ns, 0, LATE_NS),
        };
        let delayed_ns = waited.run_delay_ns.saturating_sub(earlier.run_delay_ns);
        let took_ns = until_ns.saturating_sub(from_ns);
        if took_ns >= timeout_ns.saturating_add(used_ns + delayed_ns + late_ns) {
            let span_ns = [from_ns, until_ns].map(|ns| ns.saturating_sub(watch.begun_ns));
            watch.changes.add_span("state of this process", ["running", "stopped or frozen"], span_ns);
        }
    });
}

/// How long after the beginning of the run that this thread makes an instant was, in nanoseconds.
/// Without a run, the instant itself.
pub(crate) fn since_begin_ns(instant_ns: u64) -> u64 {
    WATCH.with_borrow(|watch| instant_ns.saturating_sub(watch.as_ref().map_or(0, |watch| watch.begun_ns)))
}

/// Ends the watch. Returns what changed, by time.
pub(crate) fn finish() -> Vec<Change> {
    // This process may have been stopped since its last wait.
    waited(now_ns(), 0);
    let Some(mut watch) = WATCH.take() else { return Vec::new() };
    watch.look(&[]);
    watch.changes.finish()
}

impl Watch {
    fn look(&mut self, processes: &[Process<'_>]) {
        let read = || {
            let mut readings = machine::read(&self.root);
            processes.iter().for_each(|process| readings.extend(process.read(&self.root)));
            readings
        };
        let mut readings = read();
        if self.changes.differs(&readings) {
            std::thread::sleep(CONFIRM);
            readings = read();
        }
        let at_ns = now_ns() - self.begun_ns;
        self.note_stops(processes, [self.glimpsed_ns - self.begun_ns, at_ns]);
        self.changes.add(readings, at_ns);
        for (what, values, span_ns) in self.shares.look(&self.root, processes, at_ns) {
            self.changes.add_span(what, values, span_ns);
        }
        self.last_ns = now_ns();
        self.glimpsed_ns = self.last_ns;
    }

    fn glimpse(&mut self, processes: &[Process<'_>]) {
        let processes = &processes[..processes.len().min(MAX_GLIMPSED)];
        let of_processes = processes.iter().flat_map(|process| process.glimpse(&self.root));
        let mut readings: Vec<_> = machine::glimpse(&self.root).into_iter().chain(of_processes).collect();
        // A process that is not ready yet has conditions that are not its own.
        readings.retain(|reading| self.changes.knows(reading));
        let earlier_ns = std::mem::replace(&mut self.glimpsed_ns, now_ns());
        self.note_stops(processes, [earlier_ns, self.glimpsed_ns].map(|ns| ns - self.begun_ns));
        self.changes.add(readings, self.glimpsed_ns - self.begun_ns);
    }

    /// Notes which of these processes were stopped since this was last asked.
    fn note_stops(&mut self, processes: &[Process<'_>], span_ns: [u64; 2]) {
        for process in processes.iter().filter(|process| process.was_stopped()) {
            let stopped = process.stopped();
            if process.is_stopped(&self.root) {
                self.changes.add(vec![stopped], span_ns[1]);
            } else if !self.changes.is_open(&stopped) {
                self.changes.add_span(&stopped.what, ["running", &stopped.value], span_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_moved_and_rescheduled_is_noticed() {
        if crate::sched::allowed_cpus(0).unwrap().len() < 2 {
            return roundtrip_skips::skip(roundtrip_skips::Need::Machine, "there is one CPU");
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let processes = [Process { role: "client of pair 1", pid, moves: false, is_child: true }];
        begin();
        look_now(&processes);
        let cpus = crate::sched::allowed_cpus(pid).unwrap();
        crate::sched::set_allowed_cpus(pid, &cpus[..1]).unwrap();
        look_now(&processes);
        crate::sched::set_allowed_cpus(pid, &cpus).unwrap();
        crate::sched::set_scheduling(pid, roundtrip_run::Scheduling::other(19)).unwrap();
        look_now(&processes);
        let changes = finish();
        child.kill().unwrap();
        child.wait().unwrap();
        let of = |what: &str| changes.iter().find(|change| change.what == what).unwrap();
        let moved = of("CPUs of client of pair 1");
        assert_eq!(moved.during, cpus[0].to_string());
        assert!(moved.until_ns > Some(moved.from_ns), "{moved:?}");
        let rescheduled = of("scheduling of client of pair 1");
        assert_eq!((rescheduled.during.as_str(), rescheduled.until_ns), ("nice:19", None));
    }

    #[test]
    fn a_change_within_a_turn_is_noticed_if_it_lasts_until_the_next_glimpse() {
        if crate::sched::allowed_cpus(0).unwrap().len() < 2 {
            return roundtrip_skips::skip(roundtrip_skips::Need::Machine, "there is one CPU");
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let process = Process { role: "client of pair 1", pid, moves: false, is_child: true };
        let cpus = crate::sched::allowed_cpus(pid).unwrap();
        let glimpse = || WATCH.with_borrow_mut(|watch| watch.as_mut().unwrap().glimpse(&[process]));
        begin();
        glimpse();
        crate::sched::set_allowed_cpus(pid, &cpus[..1]).unwrap();
        look_now(&[process]);
        crate::sched::set_allowed_cpus(pid, &cpus).unwrap();
        glimpse();
        look_now(&[process]);
        let changes = finish();
        child.kill().unwrap();
        child.wait().unwrap();
        let moved: Vec<_> =
            changes.iter().filter(|change| change.what == "CPUs of client of pair 1").collect();
        assert_eq!(moved.len(), 1, "the first look is the one to compare with: {changes:?}");
        assert_eq!(
            (moved[0].before.as_str(), moved[0].until_ns.is_some()),
            (cpus[0].to_string().as_str(), false)
        );
    }

    #[test]
    fn a_stopped_process_is_noticed_once() {
        use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let process = Process { role: "client", pid: child.id(), moves: false, is_child: true };
        assert!(!process.was_stopped());
        kill_process(pid, Signal::STOP).unwrap();
        // Waits until it has stopped, and leaves this to be noticed.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).unwrap();
        kill_process(pid, Signal::CONT).unwrap();
        assert!(process.was_stopped());
        assert!(!process.was_stopped());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_wait_that_is_late_without_waiting_for_a_cpu_is_a_stop() {
        begin();
        let now_ns = now_ns();
        let since_last_wait = |from_ns, timeout_ns| {
            WATCH.with_borrow_mut(|watch| watch.as_mut().unwrap().waited.at_ns -= LATE_NS);
            waited(from_ns, timeout_ns);
        };
        since_last_wait(now_ns, 0);
        since_last_wait(now_ns - 500_000_000, 500_000_000);
        // Since the machine was started: longer than this thread can have waited for a CPU.
        since_last_wait(0, 500_000_000);
        let states: Vec<_> =
            finish().into_iter().filter(|change| change.what == "state of this process").collect();
        assert_eq!(states.len(), 1, "{states:?}");
        assert_eq!(states[0].during, "stopped or frozen");
    }

    #[test]
    fn without_a_run_nothing_is_watched() {
        look_now(&[Process { role: "x", pid: std::process::id(), moves: false, is_child: true }]);
        assert_eq!(finish(), []);
    }
}
