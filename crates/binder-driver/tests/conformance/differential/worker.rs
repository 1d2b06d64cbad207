//! A worker: a thread that carries out steps for one thread of the sequence, and lives through many sequences. To the driver
//! it is a new thread in each, since each opens the device anew.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use binder_driver::Returns;

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

/// What a worker has begun.
pub(super) struct Begun<T> {
    result: Receiver<T>,
    tid: i32,
}

impl<T> Begun<T> {
    /// Waits for its end.
    pub(super) fn wait(&self) -> T {
        self.result.recv_timeout(Duration::from_secs(20)).expect("the step hangs, or its worker panicked")
    }

    /// Waits until it has ended, and gives the result, or until the thread sleeps in the driver: in its ioctl, or at the
    /// futex of the emulated one.
    pub(super) fn end_or_sleep(&self) -> Option<T> {
        let mut asleep = 0;
        for _ in 0..100_000 {
            match self.result.try_recv() {
                Ok(result) => return Some(result),
                Err(TryRecvError::Disconnected) => panic!("the worker panicked"),
                Err(TryRecvError::Empty) => {}
            }
            // Seen twice: a lock that the thread meets for a moment is no sleep.
            asleep = if self.sleeps() { asleep + 1 } else { 0 };
            if asleep == 2 {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the step hangs");
    }

    /// Whether the thread is off its processor inside such a system call. "running" is said of one that only waits for a
    /// processor.
    fn sleeps(&self) -> bool {
        let told = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.tid));
        let told = told.expect("a kernel that says where threads sleep");
        let number = told.split(' ').next().and_then(|number| number.parse::<i64>().ok());
        [libc::SYS_ioctl, libc::SYS_futex].iter().any(|&call| number == Some(call))
    }

    /// How often the thread has slept so far.
    pub(super) fn times_slept(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/self/task/{}/status", self.tid)).expect("a /proc");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("a number")
    }
}

/// Lets the thread run, which may have to share the processor with this one.
const PAUSE: Duration = Duration::from_micros(50);
