//! The process of each thread, and the names of processes, as the kernel knows them now. Must not
//! know what the threads did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::mount::read;
use crate::snapshot::CpuSnapshot;

/// The processes of all threads that ran while any trace was recorded since the machine started.
/// Unknown ones are left out. `root` is that of tracefs.
pub(crate) fn processes(root: &Path) -> BTreeMap<u32, u32> {
    saved(&saved_tgids(root)).collect()
}

/// The same of the threads that occur in these pages only. On a machine that has run for long,
/// these are very few of them.
///
/// The pages are not decoded: every thread id in an event is an aligned 32-bit word, in the running
/// machine's byte order. A few other threads are returned because other words look like their ids.
pub(crate) fn mentioned(root: &Path, cpus: &[CpuSnapshot]) -> BTreeMap<u32, u32> {
    mentioned_in(&saved_tgids(root), cpus)
}

/// Empty if the kernel saves none.
fn saved_tgids(root: &Path) -> String {
    read(&root.join("saved_tgids")).unwrap_or_default()
}

fn mentioned_in(saved_tgids: &str, cpus: &[CpuSnapshot]) -> BTreeMap<u32, u32> {
    let words = Words::of(cpus);
    saved(saved_tgids).filter(|(tid, _)| words.have(*tid)).collect()
}

/// The lines of `saved_tgids`: thread and process.
fn saved(text: &str) -> impl Iterator<Item = (u32, u32)> + '_ {
    text.lines().filter_map(|line| {
        let (tid, pid) = line.trim().split_once(' ')?;
        Some((tid.parse().ok()?, pid.trim().parse().ok().filter(|&pid| pid != 0)?))
    })
}

/// Which of the numbers below [`Words::BELOW`] are among the aligned 32-bit words of pages.
struct Words(Vec<u64>);

impl Words {
    /// The kernel's limit on thread ids (`PID_MAX_LIMIT` in `include/linux/threads.h`).
    const BELOW: usize = 4 << 20;
    const BITS: usize = u64::BITS as usize;

    fn of(cpus: &[CpuSnapshot]) -> Self {
        let mut bits = vec![0; Self::BELOW / Self::BITS];
        for word in cpus.iter().flat_map(|cpu| cpu.pages.chunks_exact(4)) {
            let word = word.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as usize;
            if let Some(bits) = bits.get_mut(word / Self::BITS) {
                *bits |= 1 << (word % Self::BITS);
            }
        }
        Self(bits)
    }

    fn have(&self, word: u32) -> bool {
        let word = word as usize;
        self.0.get(word / Self::BITS).is_some_and(|bits| bits >> (word % Self::BITS) & 1 == 1)
    }
}

/// The names of these processes, as far as they still exist.
pub(crate) fn names(processes: &BTreeMap<u32, u32>) -> BTreeMap<u32, String> {
    let pids: BTreeSet<u32> = processes.values().copied().collect();
    let name = |pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((pid, name.trim_end_matches('\n').to_owned()))
    };
    pids.into_iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_occur_in_a_page_are_kept() {
        let lines = (1..40_000).map(|tid| format!("{tid} {}\n", tid / 2)).collect::<String>();
        let page = |words: &[u32]| CpuSnapshot {
            pages: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            ..CpuSnapshot::default()
        };
        // Two bytes of one word and two of the next are no id.
        let pages = [page(&[39_999, 0, u32::MAX]), page(&[7, 64, 129 << 16, 1 << 30])];
        assert_eq!(mentioned_in(&lines, &pages), [(7, 3), (64, 32), (39_999, 19_999)].into());
        // The kernel does not know the process of thread 1.
        assert!(mentioned_in(&lines, &[page(&[0, 1])]).is_empty());
        assert!(mentioned_in(&lines, &[]).is_empty());
        assert_eq!(saved(&lines).count(), 39_998);
    }

    #[test]
    fn processes_that_have_ended_have_no_name() {
        let own = std::process::id();
        let names = names(&[(1, own), (2, own), (3, u32::MAX)].into());
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(names, [(own, comm.trim_end().to_owned())].into());
    }
}
