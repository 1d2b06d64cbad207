//! One turn of all clients over one series: handles their messages and collects their results. Must
//! not know how many turns there are.

use std::path::PathBuf;

use super::flight::Flight;
use super::messages::{Ask, ClientMessage, Resume, SlowCall, Turn};
use super::setup::Setup;
use super::{Notice, halt};
use crate::error::{Error, Result};
use crate::ipc::ServerReport;
use crate::schedule::Part;
use crate::worker::{Event, What, WorkerGroup};
use roundtrip_run::ThreadCounters;
use roundtrip_run::ipc::latency::{Amount, Halted, Miss, PairResult, Series};

/// Untimed calls of each caller before each turn, so that both sides have touched their memory.
const WARM_UP: u32 = 10;

impl Setup<'_> {
    /// Has all clients make calls over one series at the same time, and returns their results.
    pub(super) fn turn(
        &mut self,
        index: usize,
        (amount, part): (Amount, Option<Part>),
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Vec<PairResult>> {
        let before = self.server_reports(index, group)?;
        let turn = Turn {
            series: index,
            amount,
            warm_up: WARM_UP,
            pace: self.plan.rate_per_s.zip(part),
            callers: self.callers.len(),
            start_ns: self.start_ns,
        };
        for &client in &self.clients {
            group.send(client, &Ask::Turn(turn.clone()))?;
        }
        let mut pairs = self.collect(index, group, notice)?;
        self.recorded(index, group, notice)?;
        self.flight.iter_mut().for_each(Flight::check);
        group.look();
        self.is_in_place(index, group)?;
        let after = self.server_reports(index, group)?;
        for (pair, (before, after)) in pairs.iter_mut().zip(before.iter().zip(&after)) {
            pair.server = Some(served_between(before, after));
        }
        Ok(pairs)
    }

    /// Checks that all processes of a series still run where the plan placed them.
    fn is_in_place(&self, series: usize, group: &WorkerGroup) -> Result<()> {
        if !self.plan.is_placed() {
            return Ok(());
        }
        let servers = self.servers.iter().map(|servers| servers[series].0);
        servers.chain(self.clients.iter().copied()).try_for_each(|worker| group.is_in_place(worker))
    }

    fn server_reports(&self, series: usize, group: &mut WorkerGroup) -> Result<Vec<ServerReport>> {
        self.servers.iter().map(|servers| servers[series].report(group)).collect()
    }

    /// Handles the clients' messages until each has finished its turn.
    fn collect(
        &mut self,
        series: usize,
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Vec<PairResult>> {
        let mut pairs = vec![PairResult { callers: Vec::new(), server: None }; self.clients.len()];
        let mut samples = vec![Vec::new(); self.clients.len()];
        let mut busy = self.clients.len();
        while busy > 0 {
            let Some(Event { worker, what }) = group.next(None)? else { continue };
            let garbled =
                |reason: String| Error::GarbledFrame { from: group.role(worker).to_owned(), reason };
            let Some(pair) = self.clients.iter().position(|&client| client == worker) else { continue };
            let said = match what {
                What::Samples(new) => {
                    samples[pair].extend(new);
                    continue;
                }
                What::Message(value) => value.read().map_err(|error| garbled(error.to_string()))?,
                What::Done => return Err(garbled("it exited before its turn was over".into())),
                What::Ready => continue,
            };
            match said {
                ClientMessage::Thread(report) => notice(Notice::Thread(&report)),
                ClientMessage::Caller(mut result, rescheduled) => {
                    if let Some(after) = rescheduled {
                        self.disturbed.rescheduled(pair, result.caller, after);
                    }
                    result.samples = std::mem::take(&mut samples[pair]);
                    pairs[pair].callers.push(*result);
                }
                ClientMessage::Recorded { series, caller, complete } => {
                    let calls = std::mem::take(&mut samples[pair]);
                    let caller = self.callers[caller];
                    if let Some(flight) = &mut self.flight {
                        flight.recorded(series, pair, caller, complete, &calls);
                    }
                }
                ClientMessage::Done => busy -= 1,
                ClientMessage::Slowest(latencies_ns) => self.slowest_ns[pair] = latencies_ns,
                ClientMessage::Slow(call) => {
                    let threshold_ns = self.slow(series, pair, *call)?;
                    group.send(worker, &Resume { threshold_ns })?;
                }
                ClientMessage::Halted { latency_ns, end_ns, caller, stopped } => {
                    let (stack, log) = (self.plan.series()[series].0, self.log_of_trace(stopped)?);
                    let deadline_ns = self.plan.deadline.ns;
                    let call = Halted { stack, pair, caller, latency_ns, deadline_ns, end_ns, log };
                    // Others may have missed their deadlines at the same time.
                    if self.halted.as_ref().is_none_or(|earlier| end_ns < earlier.end_ns) {
                        self.halted = Some(call);
                    }
                    self.clients.iter().for_each(|&client| group.stop(client));
                }
            }
        }
        Ok(pairs)
    }

    /// Has the clients report all calls that lie in recorded windows, and stores them.
    fn recorded(
        &mut self,
        series: usize,
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<()> {
        if !self.flight.as_ref().is_some_and(Flight::wants_calls) {
            return Ok(());
        }
        for &client in &self.clients {
            group.send(client, &Ask::Recorded)?;
        }
        self.collect(series, group, notice)?;
        self.flight.iter_mut().for_each(Flight::store_calls);
        Ok(())
    }

    /// Keeps the recording of a slow call while its client waits. Returns the new threshold
    /// for its calls, in nanoseconds.
    fn slow(&mut self, series: usize, pair: usize, call: SlowCall) -> Result<u64> {
        let Some(flight) = &mut self.flight else { return Ok(u64::MAX) };
        let SlowCall { caller, sample, client, server, client_counters, server_counters, stopped } = call;
        let snapshot = None;
        let miss =
            Miss { series, pair, caller, sample, client, server, client_counters, server_counters, snapshot };
        flight.slow(miss, stopped)
    }

    /// The text of the trace that a client has stopped, if it could.
    fn log_of_trace(&self, stopped: Result<(), String>) -> Result<PathBuf> {
        let switch = self.halt.clone().unwrap_or_default();
        match stopped {
            Ok(()) => Ok(halt::log_of(&switch)),
            Err(cause) => Err(Error::file("write", switch, std::io::Error::other(cause))),
        }
    }
}

/// Adds the calls of a turn to those of earlier turns.
pub(super) fn add(series: &mut Series, turn: &[PairResult]) {
    for (ours, new) in series.pairs.iter_mut().zip(turn) {
        // Only the clients know the scheduling that the kernel actually gave.
        for (ours, new) in ours.callers.iter_mut().zip(&new.callers) {
            ours.caller = new.caller;
        }
        ours.merge(new);
    }
}

/// What the scheduler did to a server's loopers between two reports.
fn served_between(before: &ServerReport, after: &ServerReport) -> ThreadCounters {
    let since = |&(tid, ref counters): &(u32, ThreadCounters)| {
        let earlier = before.loopers.iter().find(|(known, _)| *known == tid);
        earlier.map_or(*counters, |(_, earlier)| counters.since(earlier))
    };
    after.loopers.iter().map(since).reduce(|one, other| one.plus(&other)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_looper_is_counted_from_its_start() {
        let counters =
            |switches| ThreadCounters { voluntary_switches: switches, ..ThreadCounters::default() };
        let report = |loopers| ServerReport {
            loopers,
            copied_bytes: 0,
            limits: Vec::new(),
            inherited_by_pi_futex: 0,
            wake_up: None,
        };
        let before = report(vec![(7, counters(10))]);
        let after = report(vec![(7, counters(15)), (8, counters(3))]);
        assert_eq!(served_between(&before, &after).voluntary_switches, 8);
    }
}
