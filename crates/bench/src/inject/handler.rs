//! Disturbances within a server's handler: it computes, sleeps, writes a file, or takes a lock.
//! Must not know what a call is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::HandlerPlan;
use super::log::Log;
use crate::clock::{now_ns, thread_cpu_ns};
use crate::error::{Error, Result};
use crate::sched::gettid;
use roundtrip_run::injection::Cause;

/// How much the handler writes before it syncs the file, in bytes.
const FILE_BYTES: usize = 2 << 20;

/// What a handler does in each call.
#[derive(Debug)]
pub(crate) struct Handler {
    plan: HandlerPlan,
    lock: Option<File>,
    file: Option<File>,
    log: Log,
    next_ns: AtomicU64,
}

impl Handler {
    /// # Errors
    /// [`Error::File`] if the lock, the file or the log cannot be opened.
    pub(crate) fn new(plan: HandlerPlan) -> Result<Self> {
        let open = |path: &std::path::PathBuf| {
            File::options()
                .read(true)
                .write(true)
                .open(path)
                .map_err(|source| Error::file("open", path, source))
        };
        let lock = plan.lock.as_ref().map(open).transpose()?;
        let file = (plan.cause == Cause::Fsync).then(unnamed_file).transpose()?;
        let log = Log::open(plan.log.as_deref())?;
        let next_ns = AtomicU64::new(now_ns() + plan.every_ns);
        Ok(Self { plan, lock, file, log, next_ns })
    }

    /// Disturbs the current call: takes the lock in every call, or causes the disturbance when it
    /// is due. Runs on the thread that serves the call.
    pub(crate) fn run(&self) {
        if let Some(lock) = &self.lock {
            Self::pass(lock);
        } else if self.is_due() {
            let begin_ns = now_ns();
            self.disturb();
            self.log.note(self.plan.cause, gettid(), begin_ns, now_ns());
        }
    }

    fn is_due(&self) -> bool {
        let (now_ns, due_ns) = (now_ns(), self.next_ns.load(Ordering::Relaxed));
        let next_ns = now_ns + self.plan.every_ns;
        // If a disturbance is due for several threads, only one of them gets it.
        now_ns >= due_ns
            && self.next_ns.compare_exchange(due_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn disturb(&self) {
        match self.plan.cause {
            Cause::Work => {
                let until_ns = thread_cpu_ns() + self.plan.for_ns;
                while thread_cpu_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
            Cause::Sleep => std::thread::sleep(Duration::from_nanos(self.plan.for_ns)),
            Cause::Fsync => {
                if let Some(file) = &self.file {
                    // Errors are ignored: the log shows how long the write took, even if it failed.
                    let _ = file.write_all_at(&vec![gettid() as u8; FILE_BYTES], 0);
                    let _ = file.sync_all();
                }
            }
            // The injector does these.
            Cause::Lock | Cause::LockPreempted | Cause::Hog | Cause::Stop | Cause::Flood => {}
        }
    }

    /// Takes the lock and releases it. Waits while the injector holds it; the injector logs when.
    fn pass(lock: &File) {
        if rustix::fs::flock(lock, FlockOperation::LockExclusive).is_ok() {
            let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
        }
    }
}

/// A file on a disk, already unlinked.
fn unnamed_file() -> Result<File> {
    let directory = std::path::Path::new("/var/tmp");
    let directory = if directory.is_dir() { directory.to_owned() } else { std::env::temp_dir() };
    let path = directory.join(format!(".roundtrip-{}-{}", std::process::id(), crate::clock::now_ns()));
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(|source| Error::file("create", &path, source))?;
    std::fs::remove_file(&path).map_err(|source| Error::file("remove", &path, source))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cause: Cause, directory: &std::path::Path) -> HandlerPlan {
        let log = directory.join("injected.csv");
        super::super::log::create(&log).unwrap();
        HandlerPlan { cause, every_ns: 0, for_ns: 200_000, lock: None, log: Some(log) }
    }

    #[test]
    fn each_disturbance_is_noted_with_its_thread_and_time() {
        for cause in [Cause::Work, Cause::Sleep, Cause::Fsync] {
            let root = crate::kernel::root::fixture(&[("x", "")]);
            let directory = root.path("run");
            let handler = Handler::new(plan(cause, &directory)).unwrap();
            handler.run();
            let log = std::fs::read_to_string(directory.join("injected.csv")).unwrap();
            let fields: Vec<&str> = log.lines().nth(1).unwrap().split(',').collect();
            assert_eq!((fields[0], fields[1].parse()), (cause.name(), Ok(gettid())));
            let [begin_ns, end_ns] = [2, 3].map(|index: usize| fields[index].parse::<u64>().unwrap());
            assert!(end_ns > begin_ns, "{log}");
        }
    }

    #[test]
    fn a_handler_does_nothing_before_its_time() {
        let root = crate::kernel::root::fixture(&[("x", "")]);
        let plan = HandlerPlan { every_ns: u64::MAX / 2, ..plan(Cause::Sleep, &root.path("run")) };
        let handler = Handler::new(plan).unwrap();
        handler.run();
        let log = std::fs::read_to_string(root.path("run/injected.csv")).unwrap();
        assert_eq!(log.lines().count(), 1);
    }
}
