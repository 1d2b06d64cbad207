//! Looper threads: threads that wait for incoming calls and serve them.

use std::sync::Arc;

use roundtrip_binder_driver::{Command, ReadableMemory};

use crate::{Error, Process};

/// Counts a looper in the pool, from before its thread starts until the thread ends, even if a
/// service panics on it.
struct Looping(Arc<Process>);

impl Looping {
    fn enter(process: &Arc<Process>) -> Self {
        process.pool().enter();
        Self(process.clone())
    }

    fn run(self, command: Command) -> Result<(), Error> {
        let process = &self.0;
        process.pool().adopt_scheduling(command == Command::RegisterLooper);
        let thread = process.thread();
        thread.looper.set(true);
        thread.push(command);
        let serve_until_stopped = || {
            while !process.pool().stopping() {
                if let Some(asked) = thread.next(process.connection(), &ReadableMemory::default())? {
                    thread.handle(process, &asked)?;
                }
            }
            Ok(())
        };
        let result = serve_until_stopped();
        thread.looper.set(false);
        thread.push(Command::ExitLooper);
        result.and(thread.flush(process.connection()))
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        self.0.pool().leave();
    }
}

impl Process {
    /// Makes the calling thread a looper until [`Process::stop`].
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    pub fn join_thread_pool(self: &Arc<Self>) -> Result<(), Error> {
        Looping::enter(self).run(Command::EnterLooper)
    }

    /// Sets what the names of looper threads begin with, before their number, instead of `looper-`.
    /// Only the first call has an effect, on the threads that start later.
    pub fn name_loopers(&self, start: String) {
        self.pool().name(start);
    }

    /// Starts a looper thread.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the system cannot start another thread.
    pub fn start_looper(self: &Arc<Self>) -> Result<(), Error> {
        self.spawn_looper(Command::EnterLooper)
    }

    /// Starts a looper thread that the driver requested. A failure is ignored: the existing loopers
    /// go on serving.
    pub(crate) fn spawn_registered_looper(self: &Arc<Self>) {
        let _ = self.spawn_looper(Command::RegisterLooper);
    }

    fn spawn_looper(self: &Arc<Self>, command: Command) -> Result<(), Error> {
        let looping = Looping::enter(self);
        if self.pool().stopping() {
            return Ok(());
        }
        let name = self.pool().next_name();
        // The looper fails only if the driver does; the next call of any other thread reports that.
        let thread = std::thread::Builder::new().name(name).spawn(move || drop(looping.run(command)));
        let thread = thread.map_err(|cause| Error::Spawn { cause })?;
        self.pool().keep(thread);
        Ok(())
    }
}
