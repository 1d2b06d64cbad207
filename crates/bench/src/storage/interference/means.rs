//! How each condition is brought about on this machine, for the time of one block, and undone behind it. What the machine
//! cannot do is found out before anything is measured. Must not know what is measured.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::limit::{Held, Limit};
use super::neighbour::{NeighbourJob, Work};
use super::setting::{Claim, Setting};
use crate::cgroup;
use crate::counters;
use crate::error::{Error, Result};
use crate::load;
use crate::root::Root;
use crate::scratch::Scratch;
use crate::storage::run::cannot_poll;
use crate::storage::writer::no_uring;
use crate::worker::{Spawner, WorkerGroup, WorkerId};
use run::Load;
use run::Scheduling;
use run::cpus::cpu_list;
use run::storage::interference::{Condition, InterferencePlan};
use run::storage::{Device, StoragePath};

/// How long a neighbour may take to set itself up: filling memory takes the longest.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How long a neighbour is at work before anything is measured beside it.
const SETTLE: Duration = Duration::from_millis(10);

/// What the neighbour that fills memory leaves untouched at least, and the least that is worth filling.
const LEAVE_BYTES: u64 = 256 << 20;
const WORTH_BYTES: u64 = 64 << 20;

/// Where frequency governors are set (Documentation/admin-guide/pm/cpufreq.rst).
const POLICIES: &str = "sys/devices/system/cpu/cpufreq";

/// How one condition is brought about.
#[derive(Debug)]
pub(super) enum Means {
    Nothing,
    /// A process that computes on each of these CPUs.
    Hogs(Vec<u32>),
    /// A neighbour on these CPUs; and whether it needs a folder beside the file.
    Neighbour {
        work: fn(PathBuf, u64, u64) -> Work,
        cpus: Vec<u32>,
        folder: bool,
        bytes: (u64, u64),
    },
    Limit(Limit),
    /// What is written to them, and what to put them back.
    Settings(Vec<(Rc<Claim>, String, String)>),
    /// Another writer.
    Polled,
}

/// What is known of the machine.
pub(super) struct Machine<'a> {
    pub(super) root: Root,
    pub(super) plan: &'a InterferencePlan,
    pub(super) path: &'a StoragePath,
    pub(super) writer_cpus: Vec<u32>,
    /// All that this process may use.
    pub(super) cpus: Vec<u32>,
    pub(super) spawner: Spawner,
    /// Settings that this run may change, by their files.
    pub(super) claims: RefCell<BTreeMap<PathBuf, Rc<Claim>>>,
}

/// Why a setting is not changed to what it is.
const COMPARED_WITH_IT: &str = "the others are compared with it";

/// Whether a reason against a condition says only how the machine is set now, and not that it lacks anything.
pub(super) fn is_of_now(reason: &str) -> bool {
    reason.contains(COMPARED_WITH_IT) || reason.contains(super::setting::OF_ANOTHER_RUN)
}

impl Machine<'_> {
    /// The CPU that the device's interrupt comes to: of several interrupts, that of the writer's own queue.
    pub(super) fn interrupt_cpu(&self) -> Option<u32> {
        let leaves = self.path.leaves();
        let interrupts = leaves.iter().flat_map(|device| &device.interrupts);
        let cpus: Vec<u32> = interrupts
            .filter_map(|interrupt| cpu_list(interrupt.cpus.as_deref()?)?.first().copied())
            .collect();
        cpus.iter().find(|cpu| self.writer_cpus.contains(cpu)).or(cpus.first()).copied()
    }

    /// How a condition is brought about, and that in words.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(super) fn means(&self, condition: Condition) -> std::result::Result<(Means, String), String> {
        let on = |cpus: &[u32]| {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            format!("on CPU {}", cpus.join(","))
        };
        let neighbour = |work, cpus: Vec<u32>, folder, bytes| Means::Neighbour { work, cpus, folder, bytes };
        match condition {
            Condition::Alone => Ok((Means::Nothing, "the control: alone against alone".into())),
            Condition::HogSame | Condition::HogOther | Condition::HogAll => {
                let mut cpus = self.cpus.clone();
                match condition {
                    Condition::HogSame => cpus.retain(|cpu| self.writer_cpus.contains(cpu)),
                    Condition::HogOther => {
                        cpus.retain(|cpu| !self.writer_cpus.contains(cpu));
                        cpus.truncate(1);
                    }
                    _ => {}
                }
                if cpus.is_empty() {
                    return Err(
                        "the writer may use every CPU that there is: give it fewer with --cpus".into()
                    );
                }
                let what = on(&cpus);
                Ok((Means::Hogs(cpus), what))
            }
            Condition::Timers | Condition::Network => {
                let (cpu, whose) = match self.interrupt_cpu().filter(|cpu| self.cpus.contains(cpu)) {
                    Some(cpu) => (cpu, "the device's interrupt's"),
                    None => (
                        self.writer_cpus.first().copied().unwrap_or(0),
                        "the writer's, for the interrupt's is not known",
                    ),
                };
                let work = if condition == Condition::Timers {
                    |_, _, _| Work::Timers
                } else {
                    |_, _, _| Work::Network
                };
                Ok((neighbour(work, vec![cpu], false, (0, 0)), format!("on CPU {cpu}, {whose}")))
            }
            Condition::Files | Condition::Fsync => {
                let work: fn(PathBuf, u64, u64) -> Work = match condition {
                    Condition::Files => |folder, _, _| Work::Files(folder),
                    _ => |folder, _, _| Work::Fsync(folder),
                };
                Ok((neighbour(work, Vec::new(), true, (0, 0)), "in the same file system, on any CPU".into()))
            }
            Condition::Memory => {
                let left = cgroup::memory_left_bytes(&self.root)
                    .ok_or("the kernel does not tell how much memory is free")?;
                let bytes = left / 100 * u64::from(self.plan.memory_percent);
                if bytes < WORTH_BYTES || left - bytes < LEAVE_BYTES {
                    return Err(format!(
                        "{} MiB of memory are free: too little to fill {}% of it and leave {} MiB",
                        left >> 20,
                        self.plan.memory_percent,
                        LEAVE_BYTES >> 20
                    ));
                }
                let leave = ((left - bytes) / 2).max(LEAVE_BYTES / 2);
                let what = format!("{} MiB of {} MiB that were free, on any CPU", bytes >> 20, left >> 20);
                Ok((
                    neighbour(
                        |_, bytes, leave| Work::Memory(bytes, leave),
                        Vec::new(),
                        false,
                        (bytes, leave),
                    ),
                    what,
                ))
            }
            Condition::IoLimit => {
                let device = self.device()?;
                let limit = Limit::make(&self.root, device.dev, self.plan.io_limit_bytes_per_s)?;
                let what = format!("{} bytes a second to {}", self.plan.io_limit_bytes_per_s, device.name);
                Ok((Means::Limit(limit), what))
            }
            Condition::RqAffinity0 | Condition::RqAffinity1 | Condition::RqAffinity2 => {
                let wanted = condition.rq_affinity().unwrap_or(0).to_string();
                let leaves = self.leaves()?;
                let files = leaves.iter().map(|device| {
                    let (major, minor) = (device.dev >> 20, device.dev & 0xf_ffff);
                    format!("sys/dev/block/{major}:{minor}/queue/rq_affinity").into()
                });
                let names: Vec<&str> = leaves.iter().map(|device| device.name.as_str()).collect();
                let means = self.settings(files.collect(), &wanted, "what its queue has")?;
                Ok((means, format!("the queue of {}", names.join(", "))))
            }
            Condition::Performance | Condition::Powersave | Condition::Schedutil | Condition::Ondemand => {
                let policies = self.root.names(POLICIES);
                let policies: Vec<_> = policies.iter().filter(|name| name.starts_with("policy")).collect();
                if policies.is_empty() {
                    return Err("there is no frequency governor here".into());
                }
                let offers = |name: &&String| {
                    let all = self.root.read(format!("{POLICIES}/{name}/scaling_available_governors"));
                    all.unwrap_or_default().split(' ').any(|one| one == condition.name())
                };
                if !policies.iter().all(offers) {
                    return Err("this kernel does not have that frequency governor".into());
                }
                let files = policies.iter().map(|name| format!("{POLICIES}/{name}/scaling_governor").into());
                let means = self.settings(files.collect(), condition.name(), "the governor of all CPUs")?;
                Ok((means, "the governor of all CPUs".into()))
            }
            Condition::Polled => {
                if let Some(reason) = cannot_poll(self.path) {
                    return Err(reason);
                }
                for device in self.leaves()? {
                    let block = u64::from(device.logical_block_bytes.unwrap_or(512));
                    if let Some(size) = self.plan.write.sizes_bytes.iter().find(|&&size| size % block != 0) {
                        return Err(format!(
                            "a write of {size} bytes is no multiple of {}'s {block}",
                            device.name
                        ));
                    }
                }
                match no_uring(true) {
                    Some(reason) => Err(reason),
                    None => Ok((Means::Polled, "io_uring, O_DIRECT: polled against by interrupt".into())),
                }
            }
        }
    }

    fn device(&self) -> std::result::Result<&Device, String> {
        self.path.device.as_ref().ok_or_else(|| "no block device is known".into())
    }

    fn leaves(&self) -> std::result::Result<Vec<&Device>, String> {
        self.device().map(|_| self.path.leaves())
    }

    /// Changes of files that all have another value now, and may be written.
    fn settings(&self, files: Vec<PathBuf>, wanted: &str, what: &str) -> std::result::Result<Means, String> {
        let mut changes = Vec::new();
        for file in files {
            if !self.root.has(&file) {
                return Err(format!("there is no /{}", file.display()));
            }
            let opened = File::options().write(true).open(self.root.path(&file));
            opened.map_err(|cause| format!("/{} cannot be changed: {cause}", file.display()))?;
            // Before it is read: another run may have changed it.
            let claim = self.claim(&file)?;
            let before = self.root.read(&file).unwrap_or_default();
            if before != wanted {
                changes.push((claim, wanted.to_owned(), before));
            }
        }
        if changes.is_empty() {
            Err(format!("it is {what} now: {COMPARED_WITH_IT}"))
        } else {
            Ok(Means::Settings(changes))
        }
    }

    /// Several conditions change the same setting.
    fn claim(&self, file: &Path) -> std::result::Result<Rc<Claim>, String> {
        if let Some(claim) = self.claims.borrow().get(file) {
            return Ok(Rc::clone(claim));
        }
        let claim = Rc::new(Claim::take(&self.root, file)?);
        self.claims.borrow_mut().insert(file.to_owned(), Rc::clone(&claim));
        Ok(claim)
    }

    /// Brings a condition about.
    ///
    /// # Errors
    /// Whatever keeps it from being so; then nothing of it stays.
    pub(super) fn begin(&self, means: &Means, writer_pid: u32) -> Result<Presence> {
        let mut presence = Presence::default();
        match means {
            Means::Nothing | Means::Polled => {}
            Means::Hogs(cpus) => {
                let mut group = WorkerGroup::new(self.spawner.clone())?;
                for &cpu in cpus {
                    let load = Load { hogs: 1, scheduling: Scheduling::other(0), cpus: Some(vec![cpu]) };
                    presence.workers.extend(load::start(&load, &mut group)?);
                }
                presence.group = Some(group);
            }
            Means::Neighbour { work, cpus, folder, bytes } => {
                let mut place = PathBuf::new();
                if *folder {
                    let above = self.plan.write.file.parent().filter(|path| !path.as_os_str().is_empty());
                    let scratch = Scratch::within(above.unwrap_or(Path::new(".")))?;
                    place = scratch.path().to_owned();
                    presence.scratch = Some(scratch);
                }
                let note = rustix::fs::memfd_create("roundtrip-neighbour", MemfdFlags::CLOEXEC)
                    .map_err(|cause| Error::system("make a note for a neighbour", cause))?;
                let path = format!("/proc/{}/fd/{}", std::process::id(), note.as_raw_fd());
                presence.note = Some(note.into());
                let mut group = WorkerGroup::new(self.spawner.clone())?;
                let job = NeighbourJob {
                    work: work(place, bytes.0, bytes.1),
                    cpus: cpus.clone(),
                    note: path.into(),
                };
                presence.workers.push(group.spawn_background("neighbour", &job)?);
                presence.group = Some(group);
            }
            Means::Limit(limit) => presence.held = Some(limit.hold(writer_pid)?),
            Means::Settings(changes) => {
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

/// A condition while it lasts. It ends with this value.
#[derive(Debug, Default)]
pub(super) struct Presence {
    // The processes end before what they use.
    group: Option<WorkerGroup>,
    workers: Vec<WorkerId>,
    note: Option<File>,
    scratch: Option<Scratch>,
    held: Option<Held>,
    settings: Vec<Setting>,
}

/// What a neighbour has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) count: Option<u64>,
    pub(super) cpu_ns: Option<u64>,
}

impl Presence {
    /// What the neighbours have done so far.
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
        // Before the first note nothing is done.
        let count = count.or(self.note.is_some().then_some(0));
        Done { count, cpu_ns: self.group.as_ref().and_then(cpu_ns) }
    }

    /// Ends it.
    ///
    /// # Errors
    /// Why a neighbour was not there all the time.
    pub(super) fn end(mut self) -> Result<()> {
        match &mut self.group {
            Some(group) => group.next(Some(Duration::ZERO)).map(drop),
            None => Ok(()),
        }
    }
}
