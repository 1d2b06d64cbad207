//! Produces a condition for one block, and undoes it afterwards. Must not know what is measured,
//! nor which conditions are possible on this machine (`choose.rs`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::background::{BackgroundJob, Work};
use super::limit::{Held, Limit};
use super::setting::{Claim, Setting};
use crate::directory::scratch::Scratch;
use crate::error::{Error, Result};
use crate::kernel::counters;
use crate::kernel::root::Root;
use crate::load;
use crate::worker::privileges::lent;
use crate::worker::{Spawner, WorkerGroup, WorkerId};
use roundtrip_run::Load;
use roundtrip_run::Scheduling;
use roundtrip_run::storage::StoragePath;
use roundtrip_run::storage::interference::InterferencePlan;

/// How long a background load may take to set itself up: filling memory takes the longest.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How long a background load runs before the measurement starts.
const SETTLE: Duration = Duration::from_millis(10);

/// How to produce one condition.
#[derive(Debug)]
pub(super) enum Recipe {
    Nothing,
    /// A CPU hog on each of these CPUs.
    Hogs(Vec<u32>),
    /// A load on these CPUs. `folder` says whether it needs a folder beside the file, and `bytes`
    /// how much memory it fills and leaves free.
    Background {
        work: fn(PathBuf, u64, u64) -> Work,
        cpus: Vec<u32>,
        folder: bool,
        bytes: (u64, u64),
    },
    Limit(Limit),
    /// The settings, each with the value to write and the value to restore.
    Settings(Vec<(Rc<Claim>, String, String)>),
    /// The writer that polls, instead of the one that waits for interrupts.
    Polled,
}

impl Recipe {
    /// The CPUs that the condition needs; empty if it may run on any.
    pub(super) fn cpus(&self) -> &[u32] {
        match self {
            Self::Hogs(cpus) | Self::Background { cpus, .. } => cpus,
            _ => &[],
        }
    }
}

/// What is known about the machine.
pub(super) struct Machine<'a> {
    pub(super) root: Root,
    pub(super) plan: &'a InterferencePlan,
    pub(super) path: &'a StoragePath,
    pub(super) writer_cpus: Vec<u32>,
    /// All CPUs that this process may use.
    pub(super) cpus: Vec<u32>,
    pub(super) spawner: Spawner,
    /// The settings that this run has claimed, by file.
    pub(super) claims: RefCell<BTreeMap<PathBuf, Rc<Claim>>>,
}

impl Machine<'_> {
    /// Produces a condition.
    ///
    /// # Errors
    /// If the condition cannot be produced. Then nothing of it remains.
    pub(super) fn begin(&self, recipe: &Recipe, writer_pid: u32) -> Result<Presence> {
        let mut presence = Presence::default();
        match recipe {
            Recipe::Nothing | Recipe::Polled => {}
            Recipe::Hogs(cpus) => {
                let mut group = WorkerGroup::new(self.spawner.clone())?;
                for &cpu in cpus {
                    let load = Load { hogs: 1, scheduling: Scheduling::other(0), cpus: Some(vec![cpu]) };
                    presence.workers.extend(load::start(&load, &mut group)?);
                }
                presence.group = Some(group);
            }
            Recipe::Background { work, cpus, folder, bytes } => {
                let mut place = PathBuf::new();
                if *folder {
                    let above = self.plan.write.file.parent().filter(|path| !path.as_os_str().is_empty());
                    let scratch = Scratch::within(above.unwrap_or(Path::new(".")))?;
                    place = scratch.path().to_owned();
                    presence.scratch = Some(scratch);
                }
                let note = rustix::fs::memfd_create("roundtrip-neighbour", MemfdFlags::CLOEXEC)
                    .map_err(|cause| Error::system("make shared memory for a background load", cause))?;
                let path = lent(&note);
                presence.note = Some(note.into());
                let mut group = WorkerGroup::new(self.spawner.clone())?;
                let job =
                    BackgroundJob { work: work(place, bytes.0, bytes.1), cpus: cpus.clone(), note: path };
                presence.workers.push(group.spawn_background("neighbour", &job)?);
                presence.group = Some(group);
            }
            Recipe::Limit(limit) => presence.held = Some(limit.hold(writer_pid)?),
            Recipe::Settings(changes) => {
                for (claim, value, before) in changes {
                    presence.settings.push(Setting::change(claim, value, before.clone())?);
                }
            }
        }
        if let Some(group) = &mut presence.group {
            group.start(READY_WITHIN)?;
            std::thread::sleep(SETTLE);
        }
        Ok(presence)
    }
}

/// A condition in effect. Dropping this value ends it.
#[derive(Debug, Default)]
pub(super) struct Presence {
    // The processes end before the resources that they use.
    group: Option<WorkerGroup>,
    workers: Vec<WorkerId>,
    note: Option<File>,
    scratch: Option<Scratch>,
    held: Option<Held>,
    settings: Vec<Setting>,
}

/// How much background load has run so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) count: Option<u64>,
    pub(super) cpu_ns: Option<u64>,
}

impl Presence {
    /// How much background load has run so far.
    pub(super) fn done(&self) -> Done {
        let count = self.note.as_ref().and_then(|note| {
            let mut bytes = [0; 8];
            note.read_exact_at(&mut bytes, 0).ok().map(|()| u64::from_le_bytes(bytes))
        });
        let cpu_ns = |group: &WorkerGroup| {
            let each = self.workers.iter().map(|&worker| {
                counters::of_thread(group.pid(worker)).ok().and_then(|counters| counters.running_ns)
            });
            each.sum::<Option<u64>>()
        };
        // Nothing was done before the first note.
        let count = count.or(self.note.is_some().then_some(0));
        Done { count, cpu_ns: self.group.as_ref().and_then(cpu_ns) }
    }

    /// Checks that each background load may still use the CPUs on which it was started.
    ///
    /// # Errors
    /// [`Disturbance::Moved`](crate::error::Disturbance::Moved) if not.
    pub(super) fn is_in_place(&self) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        self.workers.iter().try_for_each(|&worker| group.is_in_place(worker))
    }

    /// Ends the condition.
    ///
    /// # Errors
    /// If a background load did not run all the time.
    pub(super) fn end(mut self) -> Result<()> {
        match &mut self.group {
            Some(group) => group.next(Some(Duration::ZERO)).map(drop),
            None => Ok(()),
        }
    }
}
