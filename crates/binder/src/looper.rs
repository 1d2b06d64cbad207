//! Looper threads: those that wait for incoming calls and serve them.

use std::sync::Arc;

use binder_driver::{Command, Lent};

use crate::{Error, Process};

/// Counts a looper, from before its thread starts until it ends, even if a service panics in it.
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
                if let Some(asked) = thread.next(process.connection(), &Lent::default())? {
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
    /// Makes the calling thread a looper, until [`Process::stop`].
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn join_thread_pool(self: &Arc<Self>) -> Result<(), Error> {
        Looping::enter(self).run(Command::EnterLooper)
    }

    /// Starts a looper thread.
    ///
    /// # Errors
    /// [`Error::Spawn`] when there cannot be one more thread.
    pub fn start_looper(self: &Arc<Self>) -> Result<(), Error> {
        self.spawn_looper(Command::EnterLooper)
    }

    /// Starts the looper thread that the driver asks for. Without it the others serve, as they do
    /// now.
    pub(crate) fn spawn_registered_looper(self: &Arc<Self>) {
        let _ = self.spawn_looper(Command::RegisterLooper);
    }

    fn spawn_looper(self: &Arc<Self>, command: Command) -> Result<(), Error> {
        let looping = Looping::enter(self);
        if self.pool().stopping() {
            return Ok(());
        }
        let name = format!("looper-{}", self.pool().next_name());
        // What it returns is the driver being out of order; the next call of any other thread says
        // so.
        let thread = std::thread::Builder::new().name(name).spawn(move || drop(looping.run(command)));
        let thread = thread.map_err(|cause| Error::Spawn { cause })?;
        self.pool().keep(thread);
        Ok(())
    }
}
