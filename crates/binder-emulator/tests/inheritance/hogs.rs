//! Hogs: threads that only compute, one of each kind on each CPU. This file does not know the
//! driver.
//!
//! The kernel reserves part of each second for ordinary threads, even if real-time threads never
//! sleep (5% by default). Ordinary hogs use that part up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::unprivileged::{FIFO, OTHER};
use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Ordinary,
    Realtime,
}

pub(crate) struct Hogs {
    threads: Vec<JoinHandle<()>>,
    running: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Hogs {
    /// Starts the hogs on the calling thread's CPUs, and waits until all run. The real-time hogs
    /// have `priority`, which must not be above the calling thread's. They end after `life`.
    pub(crate) fn start(kinds: &[Kind], priority: u32, life: Duration) -> Self {
        let usable = sched_getaffinity(None).expect("its CPUs");
        let (running, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| usable.is_set(cpu));
        let lower = SchedAttr { policy: FIFO, priority, ..Default::default() };
        let nice = rustix::process::getpriority_process(None).expect("this thread's own");
        let ordinary = SchedAttr { policy: OTHER, nice, ..Default::default() };
        let threads: Vec<_> = cpus
            .flat_map(|cpu| kinds.iter().map(move |&kind| (cpu, kind)))
            .map(|(cpu, kind)| {
                let scheduling = match kind {
                    Kind::Ordinary => ordinary,
                    Kind::Realtime => lower,
                };
                let (running, stop) = (Arc::clone(&running), Arc::clone(&stop));
                std::thread::spawn(move || {
                    let mut only = CpuSet::new();
                    only.set(cpu);
                    sched_setaffinity(None, &only).expect("one of its CPUs");
                    running.fetch_add(1, Relaxed);
                    sched_attr::set(0, scheduling).expect("a lower priority");
                    let begin = Instant::now();
                    while begin.elapsed() < life && !stop.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                    running.fetch_sub(1, Relaxed);
                })
            })
            .collect();
        while running.load(Relaxed) < threads.len() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { threads, running, stop }
    }

    pub(crate) fn all_run(&self) -> bool {
        self.running.load(Relaxed) == self.threads.len()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }
}
