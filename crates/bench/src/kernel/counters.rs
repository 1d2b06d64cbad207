//! What the scheduler did to one thread: context switches, migrations, time on a CPU and time
//! waiting for one. Reads /proc, which takes microseconds: read it before and after a timed
//! section, never inside.

use crate::error::{Error, Result};
use crate::kernel::root::Root;
use roundtrip_run::ThreadCounters;

/// The counters of a thread so far. `tid` 0 is the calling thread.
///
/// # Errors
/// [`Error::File`] if there is no such thread.
pub fn of_thread(tid: u32) -> Result<ThreadCounters> {
    read_at(&Root::real(), if tid == 0 { crate::sched::gettid() } else { tid })
}

/// How long the calling thread has waited for a CPU so far, in nanoseconds; `None` if the kernel
/// does not count it. Cheaper than [`of_thread`].
pub(crate) fn run_delay_ns() -> Option<u64> {
    let tid = crate::sched::gettid();
    schedstat(&Root::real(), &format!("proc/{tid}/task/{tid}")).map(|(_, run_delay_ns)| run_delay_ns)
}

fn read_at(root: &Root, tid: u32) -> Result<ThreadCounters> {
    // /proc/TID/task/TID works for threads of every process.
    let directory = format!("proc/{tid}/task/{tid}");
    let path = format!("{directory}/status");
    let malformed = || std::io::Error::other("no count of context switches in it");
    let status = std::fs::read_to_string(root.path(&path))
        .map_err(|source| Error::file("read", root.path(&path), source))?;
    let count = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| Error::file("read", root.path(&path), malformed()))
    };
    let (running_ns, run_delay_ns) = schedstat(root, &directory).unzip();
    Ok(ThreadCounters {
        voluntary_switches: count("voluntary_ctxt_switches")?,
        involuntary_switches: count("nonvoluntary_ctxt_switches")?,
        migrations: migrations(root, &directory),
        running_ns,
        run_delay_ns,
    })
}

/// Time on a CPU and time waiting for one, in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat(root: &Root, directory: &str) -> Option<(u64, u64)> {
    let text = root.read(format!("{directory}/schedstat"))?;
    let mut numbers = text.split(' ').map_while(|number| number.parse().ok());
    let (running_ns, run_delay_ns) = (numbers.next()?, numbers.next()?);
    // A kernel without these statistics shows zeroes (fs/proc/base.c). Any thread that is measured
    // has run for some time, so a real count is not zero.
    (running_ns > 0).then_some((running_ns, run_delay_ns))
}

fn migrations(root: &Root, directory: &str) -> Option<u64> {
    let text = root.read(format!("{directory}/sched"))?;
    let line = text.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    const STATUS: &str = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";

    #[test]
    fn all_counts_are_read_where_the_kernel_has_them() {
        let root = fixture(&[
            ("proc/42/task/42/status", STATUS),
            ("proc/42/task/42/schedstat", "1000 200 3\n"),
            ("proc/42/task/42/sched", "x (42, #threads: 1)\n---\nse.nr_migrations   :      5\n"),
        ]);
        let expected = ThreadCounters {
            voluntary_switches: 150,
            involuntary_switches: 7,
            migrations: Some(5),
            running_ns: Some(1000),
            run_delay_ns: Some(200),
        };
        let counters = read_at(&root, 42).unwrap();
        assert_eq!(counters, expected);
        assert_eq!(counters.since(&counters).run_delay_ns, Some(0));
        assert_eq!(counters.plus(&counters).voluntary_switches, 300);
    }

    #[test]
    fn counters_that_the_kernel_lacks_are_none() {
        let root = fixture(&[("proc/42/task/42/status", STATUS), ("proc/42/task/42/schedstat", "0 0 0\n")]);
        let counters = read_at(&root, 42).unwrap();
        assert_eq!((counters.migrations, counters.run_delay_ns), (None, None));
        assert_eq!(counters.plus(&counters).running_ns, None);
    }

    #[test]
    fn a_thread_that_sleeps_has_voluntary_switches() {
        let before = of_thread(0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(of_thread(0).unwrap().since(&before).voluntary_switches >= 1);
    }

    #[test]
    fn a_missing_thread_is_an_error_with_its_path() {
        let error = read_at(&fixture(&[]), 42).unwrap_err().to_string();
        assert!(error.contains("proc/42/task/42/status"), "{error}");
    }
}
