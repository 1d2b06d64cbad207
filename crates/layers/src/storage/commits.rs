//! A journal's commits (jbd2) and which thread started them: a call that needs a commit may first
//! have to wait for another one. Must not know which layer a commit's time belongs to.

use std::collections::{BTreeSet, HashMap};

use roundtrip_tracefs::Body;

use super::Write;
use crate::kernel_names::is_worker;
use crate::timeline::{Doing, During, Timeline, Waking, WakingBy};

/// One commit.
#[derive(Clone, Copy, Debug)]
struct Commit {
    begin_ns: u64,
    end_ns: u64,
    /// The thread that started it, as far as events show.
    by: Option<u32>,
}

/// A commit that was in progress when a call began. The call had to wait for its end before the
/// call's own commit could start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OthersCommit {
    /// The thread that started it: the one that woke the journal thread for it or, without one, the
    /// first that requested durability after the start of the previous commit. `None` if the
    /// journal started it by itself after its commit interval, or if no event shows the thread.
    pub by: Option<u32>,
    /// That thread's name at the time; empty if unknown.
    pub comm: String,
    /// The duration of the wait, in nanoseconds.
    pub waited_ns: u64,
}

/// The commits of a recording, by the journal's thread, which does one after the other.
#[derive(Debug, Default)]
pub(super) struct Commits {
    of_journal: HashMap<u32, Vec<Commit>>,
}

impl Commits {
    pub(super) fn of(timeline: &Timeline<'_>) -> Self {
        let trace = timeline.trace;
        let mut of_journal: HashMap<u32, Vec<Commit>> = HashMap::new();
        if !trace.has("jbd2/jbd2_start_commit") {
            return Self::default();
        }
        // By file system: the first thread that requested durability after the start of a commit.
        let mut first: HashMap<Option<u64>, u32> = HashMap::new();
        for event in trace.all() {
            let Body::Other { event: kind, .. } = event.body else { continue };
            let dev = || trace.number(&event, "dev");
            match trace.names.text(kind) {
                "ext4/ext4_sync_file_enter" => {
                    first.entry(dev()).or_insert(event.tid);
                }
                "jbd2/jbd2_start_commit" => {
                    let all = of_journal.entry(event.tid).or_default();
                    let since_ns = all.last().map_or(0, |one| one.end_ns);
                    let wakings = timeline.wakings_of(event.tid, since_ns, event.time_ns);
                    // Workers and interrupts do not request commits: they end the journal's waits
                    // for a device.
                    let asks = |waking: &Waking| match waking.by {
                        WakingBy::Thread(by) if by != 0 && !is_worker(timeline.name(by)) => Some(by),
                        _ => None,
                    };
                    let by = wakings.iter().find_map(asks).or_else(|| first.get(&dev()).copied());
                    let (begin_ns, end_ns) = (event.time_ns, u64::MAX);
                    all.push(Commit { begin_ns, end_ns, by });
                    first.remove(&dev());
                }
                "jbd2/jbd2_end_commit" => {
                    let last = of_journal.get_mut(&event.tid).and_then(|all| all.last_mut());
                    if let Some(open) = last.filter(|one| one.end_ns == u64::MAX) {
                        open.end_ns = event.time_ns;
                    }
                }
                _ => {}
            }
        }
        Self { of_journal }
    }

    /// When a journal's commit that was in progress when a call began ended, and which thread had
    /// started it. `None` if there was no such commit, or if it was the caller's own.
    pub(super) fn of_another(&self, journal: u32, write: Write) -> Option<(u64, Option<u32>)> {
        self.under_way(journal, write).map(|one| (one.end_ns, one.by))
    }

    /// A journal's commit that was in progress when a call began, unless the caller had started it.
    fn under_way(&self, journal: u32, write: Write) -> Option<&Commit> {
        let all = self.of_journal.get(&journal)?;
        let last = all.partition_point(|one| one.begin_ns < write.start_ns).checked_sub(1)?;
        all.get(last).filter(|one| write.start_ns < one.end_ns && one.by != Some(write.tid))
    }

    /// The commits that were in progress when a call began, and that the call waited for: the
    /// caller slept until the journal thread woke it.
    pub(super) fn of_others(&self, timeline: &Timeline<'_>, write: Write) -> Vec<OthersCommit> {
        let Write { start_ns, end_ns, tid } = write;
        let woken = timeline.wakings_of(tid, start_ns, timeline.until(tid, end_ns)).iter();
        let journals: BTreeSet<u32> = woken
            .filter_map(|waking| match waking.by {
                WakingBy::Thread(by) => Some(by),
                _ => None,
            })
            .collect();
        let under_way =
            journals.into_iter().filter_map(|journal| Some((journal, self.under_way(journal, write)?)));
        let others = under_way.filter_map(|(journal, commit)| {
            let waits = timeline.doing(tid, start_ns, end_ns.min(commit.end_ns)).into_iter();
            let waits = waits.filter(|during| matches!(during.what, Doing::Blocked { .. }));
            let woken_by_journal = |wait: &During<Doing>| {
                let until_ns = timeline.until(tid, wait.begin_ns);
                let wakings = timeline.wakings_of(tid, start_ns, until_ns);
                wakings.last().is_some_and(|waking| waking.by == WakingBy::Thread(journal))
            };
            let waited_ns =
                waits.filter(woken_by_journal).map(|wait| wait.end_ns - wait.begin_ns).sum::<u64>();
            let comm = commit.by.map_or_else(String::new, |by| timeline.name(by).to_owned());
            (waited_ns > 0).then_some(OthersCommit { by: commit.by, comm, waited_ns })
        });
        others.collect()
    }
}
