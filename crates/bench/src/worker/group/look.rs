//! Looks at the conditions of the workers between turns. Must not know what the workers do.

use super::{Progress, Worker, WorkerGroup, WorkerId};
use crate::conditions::{self, Process};
use crate::error::{Disturbance, Result};
use crate::sched;
use roundtrip_run::cpus::ranges;

impl WorkerGroup {
    /// Reads the conditions of the machine and the workers, at most twice a second. Call it while
    /// nothing is timed.
    pub(crate) fn look(&self) {
        conditions::look(&self.processes());
    }

    /// Reads the conditions for the last time.
    pub(super) fn look_last(&self) {
        conditions::look_now(&self.processes());
    }

    /// Notes where the workers may run, once all of them are ready.
    pub(super) fn placed(&mut self) {
        conditions::look_now(&self.processes());
        for worker in &mut self.workers {
            worker.cpus = sched::allowed_cpus(worker.pid).ok();
        }
    }

    /// Checks that a worker may still use the CPUs on which it was placed. Call it after each turn
    /// of a run that chose the CPUs.
    ///
    /// # Errors
    /// [`Disturbance::Moved`] if not: because another program has changed its affinity or its
    /// cpuset, or a CPU has gone.
    pub(crate) fn is_in_place(&self, worker: WorkerId) -> Result<()> {
        let worker = &self.workers[worker.0];
        worker.cpus.as_ref().map_or(Ok(()), |cpus| check(worker, cpus))
    }

    /// Checks that a worker that chose its CPUs itself may still use exactly these.
    ///
    /// # Errors
    /// As [`WorkerGroup::is_in_place`].
    pub(crate) fn is_on(&self, worker: WorkerId, cpus: &[u32]) -> Result<()> {
        check(&self.workers[worker.0], cpus)
    }

    /// From now on, workers that use other CPUs than before are no disturbance: they choose them
    /// for each block.
    pub(crate) fn may_move(&mut self) {
        self.moves = true;
    }

    /// Also reads the conditions of a process that a worker has started.
    pub(crate) fn watch(&mut self, role: String, pid: u32) {
        self.watched.push((role, pid));
    }

    /// The processes of the run.
    pub(super) fn processes(&self) -> Vec<Process<'_>> {
        let moves = self.moves;
        let running = self.workers.iter().filter(|worker| worker.progress != Progress::Ended);
        let running = running.map(|worker| (&worker.role, worker.pid, true));
        let watched = self.watched.iter().map(|(role, pid)| (role, *pid, false));
        running.chain(watched).map(|(role, pid, is_child)| Process { role, pid, moves, is_child }).collect()
    }
}

fn check(worker: &Worker, cpus: &[u32]) -> Result<()> {
    // If it has ended, its end is the error.
    let Ok(now) = sched::allowed_cpus(worker.pid) else { return Ok(()) };
    match now == cpus {
        true => Ok(()),
        false => {
            let role = worker.role.clone();
            Err(Disturbance::Moved { role, before: ranges(cpus), now: ranges(&now) }.into())
        }
    }
}
