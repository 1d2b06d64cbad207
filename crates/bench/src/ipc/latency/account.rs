//! The kernel's counters of a thread, cheap enough to read before every call: their files stay
//! open. Must not know which call was slow.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::clock::{now_ns, thread_cpu_ns};
use crate::kernel::cgroup;
use crate::kernel::root::Root;
use crate::kernel::usage::{Usage, thread_usage};
use crate::sched::gettid;
use roundtrip_run::ipc::latency::{CallCounters, ThreadId};

/// Counters of one thread so far.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    at_ns: u64,
    /// Time on a CPU and time waiting for one, in nanoseconds.
    schedstat: Option<(u64, u64)>,
    usage: Option<Usage>,
    /// Throttled periods, and throttled nanoseconds.
    throttled: Option<(u64, u64)>,
}

impl Counts {
    fn until(&self, later: &Self) -> CallCounters {
        let schedstat = self.schedstat.zip(later.schedstat);
        let usage = self.usage.zip(later.usage);
        let throttled = self.throttled.zip(later.throttled);
        let gained = |pair: Option<(u64, u64)>| pair.map(|(before, after)| after.saturating_sub(before));
        CallCounters {
            since_ns: Some(self.at_ns),
            cpu_ns: None,
            running_ns: gained(schedstat.map(|(before, after)| (before.0, after.0))),
            run_delay_ns: gained(schedstat.map(|(before, after)| (before.1, after.1))),
            voluntary_switches: gained(usage.map(|(a, b)| (a.voluntary_switches, b.voluntary_switches))),
            involuntary_switches: gained(
                usage.map(|(a, b)| (a.involuntary_switches, b.involuntary_switches)),
            ),
            major_faults: gained(usage.map(|(a, b)| (a.major_faults, b.major_faults))),
            throttled: gained(throttled.map(|(before, after)| (before.0, after.0))),
            throttled_ns: gained(throttled.map(|(before, after)| (before.1, after.1))),
        }
    }
}

/// The open files of one thread.
#[derive(Debug)]
struct Files {
    thread: ThreadId,
    schedstat: Option<File>,
    /// The `cpu.stat` of each control group with a CPU quota above the thread.
    quotas: Vec<File>,
}

impl Files {
    fn open(thread: ThreadId) -> Self {
        let ThreadId { pid, tid } = thread;
        let quotas = cgroup::quota_stats(&Root::real(), pid);
        Self {
            thread,
            schedstat: File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok(),
            quotas: quotas.into_iter().filter_map(|path| File::open(path).ok()).collect(),
        }
    }

    fn read(&self, usage: Option<Usage>) -> Counts {
        Counts {
            at_ns: now_ns(),
            schedstat: self.schedstat.as_ref().and_then(|file| schedstat(&text(file, &mut [0; 128])?)),
            usage,
            throttled: self.quotas.iter().try_fold((0, 0), |sum, file| {
                let (periods, ns) = cgroup::throttled(&text(file, &mut [0; 1024])?);
                Some((sum.0 + periods, sum.1 + ns))
            }),
        }
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<std::borrow::Cow<'a, str>> {
    let length = file.read_at(buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]))
}

/// Time on a CPU and time waiting for one, in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    let (running_ns, run_delay_ns) = (numbers.next()?, numbers.next()?);
    // A kernel without these statistics shows zeroes. A thread that calls or serves has run for
    // some time.
    (running_ns > 0).then_some((running_ns, run_delay_ns))
}

/// The counters of a caller's thread, and of the thread that served its last call.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    client: Option<Files>,
    server: Option<Files>,
    client_before: Counts,
    server_before: Option<Counts>,
    cpu_before_ns: u64,
}

impl Accounts {
    /// Called before a call, on the caller's thread.
    pub(super) fn begin(&mut self) {
        let own = ThreadId { pid: std::process::id(), tid: gettid() };
        if self.client.as_ref().is_none_or(|files| files.thread != own) {
            self.client = Some(Files::open(own));
        }
        self.server_before = self.server.as_ref().map(|files| files.read(None));
        self.client_before = self.client.as_ref().map(|files| files.read(thread_usage())).unwrap_or_default();
        // Last, so that it covers nothing but the call.
        self.cpu_before_ns = thread_cpu_ns();
    }

    /// Called after a call, with the thread that served it. That thread will probably serve the
    /// next call, too.
    pub(super) fn served_by(&mut self, server: Option<ThreadId>) {
        if let Some(server) = server
            && self.server.as_ref().is_none_or(|files| files.thread != server)
        {
            self.server = Some(Files::open(server));
        }
    }

    /// Called after a slow call. `cpu_ns` is the calling thread's CPU time at the end of that call.
    /// Returns what changed for the caller's thread, and for the serving thread if that was known
    /// before the call.
    pub(super) fn end(&self, cpu_ns: u64, server: Option<ThreadId>) -> (CallCounters, Option<CallCounters>) {
        let after = self.client.as_ref().map(|files| files.read(thread_usage())).unwrap_or_default();
        let mut client = self.client_before.until(&after);
        client.cpu_ns = Some(cpu_ns.saturating_sub(self.cpu_before_ns));
        let known = self.server.as_ref().filter(|files| Some(files.thread) == server);
        let server = known.zip(self.server_before).map(|(files, before)| before.until(&files.read(None)));
        (client, server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_sleeps_shows_in_its_threads_counters() {
        std::thread::spawn(|| {
            let own = ThreadId { pid: std::process::id(), tid: gettid() };
            let mut accounts = Accounts::default();
            accounts.begin();
            assert!(
                accounts.end(thread_cpu_ns(), Some(own)).1.is_none(),
                "the serving thread is not known yet"
            );
            accounts.served_by(Some(own));
            accounts.begin();
            let start_ns = now_ns();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let (client, server) = accounts.end(thread_cpu_ns(), Some(own));
            assert!(client.voluntary_switches.is_some_and(|switches| switches >= 1), "{client:?}");
            assert!(client.cpu_ns.is_some_and(|ns| ns < now_ns() - start_ns), "{client:?}");
            assert!(
                client.since_ns.is_some_and(|since_ns| since_ns <= start_ns) && client.throttled.is_some()
            );
            assert_eq!(server.unwrap().voluntary_switches, None, "only the thread itself can read it");
            assert!(accounts.end(0, Some(ThreadId { tid: 1, ..own })).1.is_none(), "another thread served");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn without_schedstat_there_are_no_run_queue_times() {
        assert_eq!(schedstat("1000 200 3\n"), Some((1000, 200)));
        assert_eq!((schedstat("0 0 0\n"), schedstat("")), (None, None));
    }
}
