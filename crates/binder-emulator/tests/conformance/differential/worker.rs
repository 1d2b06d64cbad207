//! A worker: a thread that carries out steps for one thread of the sequence, and lives through many
//! sequences. To the driver it is a new thread in each, since each opens the device anew.

use std::sync::mpsc::{Receiver, Sender, channel};

use binder_driver::Returns;

use crate::begun::Begun;

type Job = Box<dyn FnOnce(&mut Returns) + Send>;

pub(super) struct Worker {
    jobs: Sender<Job>,
    /// Its id in the system.
    pub(super) tid: i32,
}

impl Worker {
    pub(super) fn start() -> Self {
        let (jobs, received): (Sender<Job>, Receiver<Job>) = channel();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
            let mut returns = Returns::with_room(4096);
            for job in received {
                job(&mut returns);
            }
        });
        Self { jobs, tid: told.recv().expect("a thread") }
    }

    /// Begins something on the thread, with room for returns.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Returns) -> T + Send + 'static,
    ) -> Begun<T> {
        let (done, result) = channel();
        let job: Job = Box::new(move |returns| {
            let _ = done.send(act(returns));
        });
        self.jobs.send(job).expect("the worker panicked earlier");
        Begun { result, tid: self.tid }
    }

    /// Carries something out on the thread and waits for it.
    pub(super) fn run<T: Send + 'static>(&self, act: impl FnOnce(&mut Returns) -> T + Send + 'static) -> T {
        self.begin(act).wait()
    }
}
