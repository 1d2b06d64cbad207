//! When each caller calls. Closed loop: the callers call one after the other, and an iteration is
//! one call of each. Open loop: each caller keeps its own schedule. Must not know what a call is.

use std::sync::{Barrier, Condvar, Mutex, PoisonError, RwLock};
use std::thread;

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::Timespec;

use super::call::Caller;
use super::messages::Turn;
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::kernel::counters;
use crate::sched;
use crate::schedule::{Clock, Rate};
use crate::worker::is_stopped;
use roundtrip_run::Scheduling;
use roundtrip_run::ThreadCounters;
use roundtrip_run::ipc::latency::Amount;
use roundtrip_sorting::SmallSort as _;

/// The longest time that a caller sleeps, in nanoseconds, before it checks whether to stop.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// How far in the future the start of an open-loop turn is set, in nanoseconds.
const LEAD_NS: u64 = 1_000_000;

/// Runs each call of a caller on a new thread, unless the caller is scheduled like the client's
/// main thread.
pub(super) fn on_fresh_threads(turn: &Turn, callers: &mut [Caller<'_>]) -> Result<()> {
    let main = sched::scheduling(0)?;
    let begin_ns = now_ns();
    for iteration in 0.. {
        if over(turn.amount, iteration, begin_ns, now_ns()) || is_stopped() {
            break;
        }
        for caller in callers.iter_mut() {
            if caller.wanted == main {
                caller.result.caller = main;
                caller.call(main, None)?;
                continue;
            }
            thread::scope(|scope| {
                let call = || {
                    let own = caller.take_on()?;
                    caller.call(own, None)?;
                    caller.check(own)
                };
                join(thread::Builder::new().spawn_scoped(scope, call).map_err(no_thread)?)
            })?;
        }
    }
    Ok(())
}

fn no_thread(cause: std::io::Error) -> Error {
    Error::system("start a thread for a caller", cause)
}

/// Runs each caller on a thread that it keeps for the turn.
pub(super) fn on_kept_threads(turn: &Turn, callers: &mut [Caller<'_>]) -> Result<()> {
    let baton = Baton::new(callers.len());
    let everyone = Barrier::new(callers.len());
    let begin_ns = Mutex::new(0);
    // Write-locked until all threads have started. If one cannot start, the others must not wait
    // for it forever.
    let complete = RwLock::new(false);
    thread::scope(|scope| {
        let mut all_started = complete.write().unwrap_or_else(PoisonError::into_inner);
        let threads: Result<Vec<_>> = callers
            .iter_mut()
            .enumerate()
            .map(|(me, caller)| {
                let (baton, everyone, begin_ns, complete) = (&baton, &everyone, &begin_ns, &complete);
                let body = move || {
                    if !*complete.read().unwrap_or_else(PoisonError::into_inner) {
                        return Ok(());
                    }
                    let _ends = Ends(baton);
                    let ready = set_up(turn, caller);
                    if everyone.wait().is_leader() {
                        *begin_ns.lock().unwrap_or_else(PoisonError::into_inner) = now_ns() + LEAD_NS;
                    }
                    everyone.wait();
                    let begin_ns = *begin_ns.lock().unwrap_or_else(PoisonError::into_inner);
                    let (own, before) = ready?;
                    match turn.pace {
                        None => closed_loop(turn, caller, own, me, baton, begin_ns)?,
                        Some((per_s, part)) => {
                            let rate = Rate { per_s, offset: me as f64 / turn.callers as f64 };
                            caller.keep_pace(&Boottime, own, rate, part, begin_ns)?;
                        }
                    }
                    caller.result.counters = Some(counters::of_thread(0)?.since(&before));
                    caller.check(own)?;
                    Ok(())
                };
                thread::Builder::new().spawn_scoped(scope, body).map_err(no_thread)
            })
            .collect();
        *all_started = threads.is_ok();
        drop(all_started);
        let threads = threads?;
        // Joins every thread. The first error is reported, because it may have caused later ones.
        let mut ends: Vec<Result<()>> = threads.into_iter().map(join).collect();
        ends.small_sort_by_key(Result::is_ok);
        ends.into_iter().next().unwrap_or(Ok(()))
    })
}

fn set_up(turn: &Turn, caller: &mut Caller<'_>) -> Result<(Scheduling, ThreadCounters)> {
    if turn.pace.is_some() {
        // Otherwise the sleep of an ordinary thread may end 50 us late (PR_SET_TIMERSLACK(2const)).
        // A failure is harmless.
        let _ = set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
    let own = caller.take_on()?;
    caller.warm_up(turn.warm_up)?;
    Ok((own, counters::of_thread(0)?))
}

fn closed_loop(
    turn: &Turn,
    caller: &mut Caller<'_>,
    own: Scheduling,
    me: usize,
    baton: &Baton,
    begin_ns: u64,
) -> Result<()> {
    for iteration in 0.. {
        if !baton.wait_for(me) {
            break;
        }
        // The first caller decides whether there is another iteration, so all make the same number
        // of calls.
        if me == 0 && (over(turn.amount, iteration, begin_ns, now_ns()) || is_stopped()) {
            break;
        }
        caller.call(own, None)?;
        baton.pass_on();
    }
    Ok(())
}

fn over(amount: Amount, done: u64, begin_ns: u64, now_ns: u64) -> bool {
    match amount {
        Amount::Iterations(iterations) => done >= iterations,
        // At least one call, however short the duration.
        Amount::DurationNs(duration_ns) => done > 0 && now_ns >= begin_ns.saturating_add(duration_ns),
    }
}

/// The clock of all measurements.
struct Boottime;

impl Clock for Boottime {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn sleep_until(&self, instant_ns: u64) -> Result<bool> {
        loop {
            let now_ns = now_ns();
            if is_stopped() {
                return Ok(false);
            }
            if now_ns >= instant_ns {
                return Ok(true);
            }
            sleep_to(instant_ns.min(now_ns + LONGEST_SLEEP_NS))?;
        }
    }
}

fn sleep_to(instant_ns: u64) -> Result<()> {
    let until = Timespec {
        tv_sec: (instant_ns / 1_000_000_000) as i64,
        tv_nsec: (instant_ns % 1_000_000_000) as i64,
    };
    loop {
        match clock_nanosleep_absolute(ClockId::Boottime, &until) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(Error::system("sleep until the next call", cause)),
        }
    }
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Lets threads take turns in a fixed order.
struct Baton {
    /// Whose turn it is; `None` when the turns are over.
    holder: Mutex<Option<usize>>,
    passed: Vec<Condvar>,
}

impl Baton {
    fn new(threads: usize) -> Self {
        let passed = (0..threads).map(|_| Condvar::new()).collect();
        Self { holder: Mutex::new(Some(0)), passed }
    }

    /// Waits for this thread's turn; false when the turns are over.
    fn wait_for(&self, me: usize) -> bool {
        let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |holder: &mut Option<usize>| holder.is_some_and(|holder| holder != me);
        let holder = self.passed[me].wait_while(holder, waiting).unwrap_or_else(PoisonError::into_inner);
        holder.is_some()
    }

    fn pass_on(&self) {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        *holder = holder.map(|holder| (holder + 1) % self.passed.len());
        if let Some(next) = *holder {
            self.passed[next].notify_one();
        }
    }
}

/// Ends the turns when a thread ends, for whatever reason, so that the others do not wait for it.
struct Ends<'a>(&'a Baton);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        *self.0.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.passed.iter().for_each(Condvar::notify_one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_until_one_ends() {
        let baton = Baton::new(3);
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for me in 0..3 {
                let (baton, order) = (&baton, &order);
                scope.spawn(move || {
                    let _ends = Ends(baton);
                    for _ in 0..2 {
                        if !baton.wait_for(me) {
                            return;
                        }
                        order.lock().unwrap().push(me);
                        baton.pass_on();
                    }
                    // Like the first caller: ends when its turn has come again.
                    baton.wait_for(me);
                });
            }
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_duration_ends_with_its_time_but_never_before_the_first_call() {
        let amount = Amount::DurationNs(100);
        assert!(!over(amount, 0, 1000, 2000));
        assert!(!over(amount, 1, 1000, 1099) && over(amount, 1, 1000, 1100));
        assert!(!over(Amount::Iterations(2), 1, 0, u64::MAX) && over(Amount::Iterations(2), 2, 0, 0));
    }
}
