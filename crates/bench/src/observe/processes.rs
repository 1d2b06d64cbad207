//! Which process a thread belongs to, and what both are called. Names are untrusted text: code that
//! shows them must escape them.

use std::collections::{HashMap, HashSet};

use std::fs::File;
use std::io::Read as _;

use roundtrip_run::observe::{Process, Subject};
use roundtrip_tracefs::{Body, Trace};

use super::pools::pool;
use crate::kernel::stat;

/// The most threads that are remembered. Beyond that, all are looked up again.
const MOST_THREADS: usize = 100_000;

/// The longest name that is kept, in bytes.
const MOST_NAME_BYTES: usize = 200;

/// What is known of threads and processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pids: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    /// Thread names from events, for threads that ended before they were looked up.
    comms: HashMap<u32, String>,
    /// The pool of each thread, by its name.
    pools: HashMap<u32, Option<String>>,
    /// The command that was started.
    command: Option<u32>,
    /// The command and all processes that it forked.
    descendants: HashSet<u32>,
}

impl Processes {
    /// From now on, processes that this one forks belong to the command.
    pub(super) fn follow(&mut self, pid: u32) {
        self.command = Some(pid);
        self.descendants.insert(pid);
    }

    /// Learns names and forks from events. Must be called before the calls in these events are
    /// evaluated.
    pub(super) fn learn(&mut self, trace: &Trace) {
        for event in &trace.events {
            match event.body {
                Body::Fork { child, .. } => {
                    if self.descendants.contains(&event.tid) {
                        self.descendants.insert(child);
                    } else if self.command != Some(child) {
                        // It has the id of a descendant that has ended.
                        self.descendants.remove(&child);
                    }
                }
                Body::Rename { tid, .. } => {
                    self.names.remove(&tid);
                    self.comms.remove(&tid);
                    self.pools.remove(&tid);
                }
                _ => {}
            }
            for (tid, name) in event.named() {
                // The thread may never run again, or exit before it is looked up.
                self.comms.entry(tid).or_insert_with(|| trace.names.text(name).to_owned());
            }
        }
        if self.pids.len().max(self.comms.len()).max(self.pools.len()) > MOST_THREADS {
            let descendants = std::mem::take(&mut self.descendants);
            *self = Self { command: self.command, descendants, ..Self::default() };
        }
    }

    /// Forgets threads that have ended, because the kernel may reuse their ids. Must be called
    /// after the calls in these events have been evaluated.
    pub(super) fn forget_ended(&mut self, trace: &Trace) {
        for event in trace.events.iter().filter(|event| matches!(event.body, Body::Exit)) {
            self.pids.remove(&event.tid);
            self.names.remove(&event.tid);
            self.comms.remove(&event.tid);
            self.pools.remove(&event.tid);
        }
    }

    /// The pool that a thread belongs to by its name; `None` where its name is not known.
    pub(super) fn pool_of(&mut self, tid: u32) -> Option<String> {
        if let Some(known) = self.pools.get(&tid) {
            return known.clone();
        }
        let found = pool(&self.comm(tid));
        self.pools.insert(tid, found.clone());
        found
    }

    /// A thread's title: what its process has written over its arguments, as servers do to tell
    /// their processes apart, or else the thread's name.
    pub(super) fn title(&self, tid: u32) -> String {
        let title = first_argument(tid).filter(|title| title.contains(": "));
        title.map_or_else(|| self.comm(tid), |title| title.trim_end().to_owned())
    }

    /// A thread's name from an event or /proc; empty if neither has it.
    fn comm(&self, tid: u32) -> String {
        let live = || std::fs::read_to_string(format!("/proc/{tid}/comm")).ok();
        let known = self.comms.get(&tid).cloned().or_else(live).unwrap_or_default();
        known.trim_end_matches('\n').to_owned()
    }

    /// The id of a thread's process. `saved` returns the process that the kernel saved for a thread
    /// that has ended.
    pub(super) fn pid_of(&mut self, tid: u32, saved: &mut dyn FnMut(u32) -> Option<u32>) -> u32 {
        *self.pids.entry(tid).or_insert_with(|| thread_group(tid).or_else(|| saved(tid)).unwrap_or(tid))
    }

    /// The process with this id.
    pub(super) fn of_process(&mut self, pid: u32) -> Process {
        if let Some(name) = self.names.get(&pid) {
            return Process { pid, name: name.clone() };
        }
        let name = program(pid).or_else(|| self.comms.get(&pid).cloned()).unwrap_or_default();
        self.names.insert(pid, name.clone());
        Process { pid, name }
    }

    /// Whether a process is observed.
    pub(super) fn is_observed(&mut self, subject: &Subject, pid: u32) -> bool {
        match subject {
            Subject::Everyone => true,
            Subject::Process(observed) => pid == *observed,
            Subject::Name(name) => self.of_process(pid).name == *name || self.comm(pid) == *name,
            Subject::Command(_) => self.descendants.contains(&pid),
        }
    }
}

/// The thread group of a living thread (proc_pid_status(5)).
fn thread_group(tid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Whether a process is a thread of the kernel (`PF_KTHREAD` in `include/linux/sched.h`).
pub(super) fn is_of_kernel(pid: u32) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    // state ppid pgrp session tty_nr tpgid flags (proc_pid_stat(5)).
    let flags = stat.and_then(|stat| stat::split(&stat)?.1.nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// A process's name: its first argument without the folder, which Android sets to the package's
/// name, else its main thread's name. If a server has written a title there, only its constant
/// part: "postgres" of "postgres: walwriter".
fn program(pid: u32) -> Option<String> {
    if let Some(first) = first_argument(pid) {
        let stays = first.split(": ").next().unwrap_or_default();
        let name = stays.rsplit('/').next().unwrap_or_default();
        if !name.trim().is_empty() {
            return Some(name.to_owned());
        }
    }
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(comm.trim_end_matches('\n').to_owned())
}

/// A process's first argument, as it is now.
fn first_argument(pid: u32) -> Option<String> {
    let mut line = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    // A process may have arguments of any length, and may change them.
    file.take(MOST_NAME_BYTES as u64 * 16).read_to_end(&mut line).ok()?;
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    // The end of a long path is its name.
    let first = &first[first.len().saturating_sub(MOST_NAME_BYTES)..];
    Some(String::from_utf8_lossy(first).into_owned())
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::{Event, Name};

    use super::*;

    #[test]
    fn a_thread_belongs_to_its_process_which_is_called_after_its_program() {
        let mut processes = Processes::default();
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let pid = processes.pid_of(tid, &mut |_| None);
        let own = processes.of_process(pid);
        let program = std::env::args_os().next().unwrap();
        let program = std::path::Path::new(&program).file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(own, Process { pid: std::process::id(), name: program });
        assert!(processes.is_observed(&Subject::Process(std::process::id()), pid));
        assert!(!processes.is_observed(&Subject::Command(Vec::new()), pid));
        processes.follow(own.pid);
        assert!(processes.is_observed(&Subject::Command(Vec::new()), pid));
    }

    #[test]
    fn a_thread_of_the_kernel_is_no_program() {
        assert!(!is_of_kernel(std::process::id()) && !is_of_kernel(u32::MAX));
        // In a container, the kernel's threads are not visible.
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
            assert!(is_of_kernel(2));
        }
    }

    #[test]
    fn a_process_with_the_id_of_an_ended_descendant_does_not_belong_to_the_command() {
        let fork =
            |tid, child| Event { time_ns: 0, cpu: 0, tid, body: Body::Fork { child, comm: Name::default() } };
        let mut processes = Processes::default();
        processes.follow(100);
        processes.learn(&Trace {
            events: vec![fork(7, 100), fork(100, 101), fork(101, 102), fork(7, 8)],
            ..Trace::default()
        });
        let mut observed = |pid| processes.is_observed(&Subject::Command(Vec::new()), pid);
        // The command itself is a child of the observer, which is not observed.
        assert_eq!([100, 101, 102, 7, 8].map(&mut observed), [true, true, true, false, false]);
        processes.learn(&Trace { events: vec![fork(7, 102), fork(102, 103)], ..Trace::default() });
        let mut observed = |pid| processes.is_observed(&Subject::Command(Vec::new()), pid);
        assert_eq!([101, 102, 103].map(&mut observed), [true, false, false]);
    }

    #[test]
    fn a_thread_belongs_to_the_pool_that_its_name_says() {
        let pool_of = || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            Processes::default().pool_of(tid)
        };
        let thread = std::thread::Builder::new().name("Binder:812_1F".into()).spawn(pool_of).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some("Binder:#_#"));
        assert_eq!(Processes::default().pool_of(u32::MAX - 1), None);
    }

    #[test]
    fn a_thread_that_has_ended_is_known_from_what_the_kernel_saved() {
        let mut processes = Processes::default();
        // Larger than any id that the kernel assigns.
        let (tid, pid) = (u32::MAX - 1, u32::MAX - 2);
        assert_eq!(processes.pid_of(tid, &mut |asked| (asked == tid).then_some(pid)), pid);
        assert_eq!(processes.of_process(pid), Process { pid, name: String::new() });
    }
}
