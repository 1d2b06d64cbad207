//! A worker: a thread that carries out the steps of one thread of a sequence. It is used for many
//! sequences. Each sequence opens the device again, so the driver sees a new thread.

use std::sync::mpsc::{Receiver, Sender, channel};

use roundtrip_binder_driver::Returns;

use crate::begun::Begun;

type Job = Box<dyn FnOnce(&mut Returns) + Send>;

pub(super) struct Worker {
    jobs: Sender<Job>,
    /// Its thread id.
    pub(super) tid: i32,
}

impl Worker {
    pub(super) fn start() -> Self {
        let (jobs, received): (Sender<Job>, Receiver<Job>) = channel();
        let (tid_sender, tid) = channel();
        std::thread::spawn(move || {
            let _ = tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            let mut returns = Returns::with_room(4096);
            for job in received {
                job(&mut returns);
            }
        });
        Self { jobs, tid: tid.recv().expect("a thread") }
    }

    /// Starts `act` on the thread, with room for returns.
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

    /// Runs `act` on the thread and waits for it.
    pub(super) fn run<T: Send + 'static>(&self, act: impl FnOnce(&mut Returns) -> T + Send + 'static) -> T {
        self.begin(act).wait()
    }
}
