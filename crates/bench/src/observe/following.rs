//! Limits a recorder in the kernel to the threads that are observed, where these are known when it
//! starts. Must not know what is recorded.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use roundtrip_run::observe::Subject;
use roundtrip_tracefs::{Body, Instance, Trace, Tracefs};

use crate::error::{Error, Result};
use crate::sched::gettid;

/// How often the threads of a process are listed at most, until all are followed.
const MAX_LISTS: usize = 100;

/// Whether the kernel can limit a recording to this subject. A name belongs to processes that do
/// not exist yet, too.
pub(super) fn is_possible(tracefs: &Tracefs, subject: &Subject) -> bool {
    let known = matches!(subject, Subject::Process(_) | Subject::Command(_));
    known && ["set_event_pid", "options/event-fork"].iter().all(|file| tracefs.root().join(file).exists())
}

/// Follows all threads of a process, and what they create.
///
/// # Errors
/// [`Error::Trace`](crate::Error::Trace) if the kernel refuses.
pub(super) fn process(instance: &Instance, pid: u32) -> Result<()> {
    let mut followed = BTreeSet::new();
    // A thread that is not followed yet may create others meanwhile.
    for _ in 0..MAX_LISTS {
        let listed = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let tids = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let new: Vec<u32> = tids.filter(|tid| followed.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        instance.follow(&new)?;
    }
    Ok(())
}

/// Follows what `create` creates, and not the observer: a thread of its own creates it. Begins to
/// record just before. Returns when, in nanoseconds, and what was created.
///
/// # Errors
/// As `create`, and [`Error::Trace`](crate::Error::Trace) if the kernel refuses.
pub(super) fn what<T: Send>(
    instance: &Instance,
    create: impl FnOnce() -> Result<T> + Send,
) -> Result<(u64, T)> {
    let failed = |cause| Error::system("start a thread of the observer", cause);
    let (to_parent, tid) = channel();
    let (to_thread, begin) = channel();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            let _ = to_parent.send(gettid());
            // Without a message, recording did not begin.
            begin.recv().ok().map(|()| create())
        });
        let thread = thread.map_err(failed)?;
        let begin = || {
            instance.follow(&[tid.recv().map_err(|ended| failed(std::io::Error::other(ended)))?])?;
            Ok(instance.on()?)
        };
        let begun: Result<u64> = begin();
        if begun.is_ok() {
            let _ = to_thread.send(());
        }
        drop(to_thread);
        let created = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let start_ns = begun?;
        let created = created.unwrap_or_else(|| Err(failed(std::io::ErrorKind::Other.into())))?;
        Ok((start_ns, created))
    })
}

/// Processes whose first thread has ended. If another thread then executes a program, it continues
/// under the first one's id. Kernels before 5.19 no longer list that id.
#[derive(Debug, Default)]
pub(super) struct Headless(BTreeSet<u32>);

impl Headless {
    /// Follows processes again that the kernel no longer follows, and returns one of them. Must be
    /// called after each round.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace) if the kernel refuses.
    pub(super) fn follow_again(&mut self, instance: &Instance, trace: &Trace) -> Result<Option<u32>> {
        let ended = trace.events.iter().filter(|event| matches!(event.body, Body::Exit));
        self.0.extend(ended.map(|event| event.tid));
        let mut alive = Vec::new();
        self.0.retain(|&pid| match first_thread_runs(pid) {
            Some(true) => {
                alive.push(pid);
                false
            }
            other => other.is_some(),
        });
        let mut lost = None;
        for pid in alive {
            if !instance.follows(pid)? {
                instance.follow(&[pid])?;
                lost = Some(pid);
            }
        }
        Ok(lost)
    }
}

/// Whether the first thread of a process has not ended; `None` if there is no such process.
fn first_thread_runs(pid: u32) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // The ids of other threads are also found in /proc.
    (field("Tgid:")?.parse() == Ok(pid))
        .then(|| !field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_whose_first_thread_runs_is_followed_again() {
        assert_eq!(first_thread_runs(std::process::id()), Some(true));
        let other = std::thread::spawn(|| first_thread_runs(gettid())).join().unwrap();
        assert_eq!(other, None, "a thread is not a process");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let begun = std::time::Instant::now();
        while first_thread_runs(ended.id()) != Some(false) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        ended.wait().unwrap();
        assert_eq!(first_thread_runs(ended.id()), None);
    }
}
