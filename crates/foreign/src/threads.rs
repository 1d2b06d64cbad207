//! Threads as a file names them, charged to its budget. Must not know any file format.

use std::collections::BTreeMap;

use roundtrip_files::Budget;

use crate::BYTES_EACH;

/// The process and the name of each thread.
pub(crate) struct Threads<'b> {
    pub(crate) processes: BTreeMap<u32, u32>,
    pub(crate) comms: BTreeMap<u32, String>,
    budget: &'b Budget,
}

impl<'b> Threads<'b> {
    pub(crate) fn new(budget: &'b Budget) -> Self {
        Self { processes: BTreeMap::new(), comms: BTreeMap::new(), budget }
    }

    /// Sets a thread's process. Beyond the budget, new threads are left out.
    pub(crate) fn set_process(&mut self, tid: u32, process: u32) {
        if self.processes.contains_key(&tid) || self.budget.memory(BYTES_EACH).is_ok() {
            self.processes.insert(tid, process);
        }
    }

    /// Sets a thread's process, if none is known.
    pub(crate) fn add_process(&mut self, tid: u32, process: u32) {
        if !self.processes.contains_key(&tid) {
            self.set_process(tid, process);
        }
    }

    /// Sets a thread's name, if none is known.
    pub(crate) fn add_name(&mut self, tid: u32, name: &str) {
        if !self.comms.contains_key(&tid) && self.budget.memory(BYTES_EACH + name.len()).is_ok() {
            self.comms.insert(tid, name.to_owned());
        }
    }
}
