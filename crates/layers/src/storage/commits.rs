//! A journal's commits (jbd2), and who had them begun: a call that needs one may first have to wait
//! for another's. Must not know what a commit's time belongs to.

use tracefs::{Body, Trace};

use super::Write;
use crate::timeline::{Doing, Timeline, WakingBy};

/// One commit.
#[derive(Clone, Copy, Debug)]
struct Commit {
    /// The journal's thread.
    journal: u32,
    begin_ns: u64,
    end_ns: u64,
    /// Who had woken the journal's thread for it, where an event tells.
    by: Option<WakingBy>,
}

/// A commit that another had begun, as far as a call waited for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OthersCommit {
    /// The thread that had it begun; `None` where the journal did by itself, after its interval, or
    /// where no event tells.
    pub by: Option<u32>,
    /// That thread's name, then; empty where it is not known.
    pub comm: String,
    /// For how long, in nanoseconds.
    pub waited_ns: u64,
}

/// The commits of a recording.
#[derive(Debug, Default)]
pub(super) struct Commits {
    all: Vec<Commit>,
}

impl Commits {
    pub(super) fn of(timeline: &Timeline<'_>) -> Self {
        let trace = timeline.trace;
        let mut all: Vec<Commit> = Vec::new();
        if !trace.has("jbd2/jbd2_start_commit") {
            return Self::default();
        }
        for event in &trace.events {
            let Body::Other { event: kind, .. } = event.body else { continue };
            match trace.names.text(kind) {
                "jbd2/jbd2_start_commit" => {
                    let before = all.iter().rev().find(|one| one.journal == event.tid);
                    let since_ns = before.map_or(0, |one| one.end_ns);
                    let wakings = timeline.wakings_of(event.tid, since_ns, event.time_ns);
                    all.push(Commit {
                        journal: event.tid,
                        begin_ns: event.time_ns,
                        end_ns: u64::MAX,
                        by: wakings.first().map(|waking| waking.by),
                    });
                }
                "jbd2/jbd2_end_commit" => {
                    let open = all.iter_mut().rev().find(|one| one.journal == event.tid);
                    if let Some(open) = open.filter(|one| one.end_ns == u64::MAX) {
                        open.end_ns = event.time_ns;
                    }
                }
                _ => {}
            }
        }
        Self { all }
    }

    /// The commits that a call waited for although another had begun them: it slept until the
    /// journal's thread woke it, and that thread was at work on them.
    pub(super) fn of_others(&self, timeline: &Timeline<'_>, write: Write) -> Vec<OthersCommit> {
        let Write { start_ns, end_ns, tid } = write;
        let overlap = |one: &&Commit| one.begin_ns < end_ns && start_ns < one.end_ns;
        let commits: Vec<&Commit> = self.all.iter().filter(overlap).collect();
        if commits.is_empty() {
            return Vec::new();
        }
        let waits: Vec<_> = timeline
            .doing(tid, start_ns, end_ns)
            .into_iter()
            .filter(|during| matches!(during.what, Doing::Blocked { .. }))
            .collect();
        let mut others = Vec::new();
        for commit in commits {
            let by = match commit.by {
                Some(WakingBy::Thread(by)) if by == tid => continue,
                Some(WakingBy::Thread(by)) if by != 0 => Some(by),
                // Nobody was seen to wake the journal: then it is another's if it was under way
                // before the call.
                Some(WakingBy::Interrupt(_)) => None,
                _ if commit.begin_ns < start_ns => None,
                _ => continue,
            };
            let woken = |end_ns: u64| {
                let wakings = timeline.wakings_of(tid, start_ns, end_ns);
                wakings.last().is_some_and(|waking| waking.by == WakingBy::Thread(commit.journal))
            };
            let waited_ns = waits
                .iter()
                .filter(|wait| woken(wait.end_ns))
                .map(|wait| wait.end_ns.min(commit.end_ns).saturating_sub(wait.begin_ns.max(commit.begin_ns)))
                .sum();
            if waited_ns > 0 {
                others.push(OthersCommit {
                    by,
                    comm: by.map_or_else(String::new, |by| comm(timeline, by)),
                    waited_ns,
                });
            }
        }
        others
    }
}

fn comm(timeline: &Timeline<'_>, tid: u32) -> String {
    let trace: &Trace = timeline.trace;
    timeline.thread(tid).map_or_else(String::new, |line| trace.names.text(line.comm).to_owned())
}
