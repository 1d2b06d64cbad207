//! How each condition can be produced on this machine, with a description, or why it cannot. Finds
//! this out before anything is measured, and changes nothing. Must not know how long a condition
//! lasts.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use roundtrip_run::cpus::cpu_list;
use roundtrip_run::storage::Device;
use roundtrip_run::storage::interference::Condition;

use super::background::Work;
use super::limit::Limit;
use super::recipe::{Machine, Recipe};
use super::setting::{Claim, OF_ANOTHER_RUN};
use crate::kernel::cgroup;
use crate::storage::run::cannot_poll;
use crate::storage::writer::no_uring;

/// The recipe of a condition and its description, or the reason why there is none.
type Choice = Result<(Recipe, String), String>;

/// What the memory load always leaves free, and the least amount that is worth filling.
const LEAVE_BYTES: u64 = 256 << 20;
const WORTH_BYTES: u64 = 64 << 20;

/// Where frequency governors are set (Documentation/admin-guide/pm/cpufreq.rst).
const POLICIES: &str = "sys/devices/system/cpu/cpufreq";

/// Why a setting is not changed to its current value.
const COMPARED_WITH_IT: &str = "the others are compared with it";

/// Whether a reason only describes the machine's current settings, rather than a missing
/// capability.
pub(super) fn is_of_now(reason: &str) -> bool {
    reason.contains(COMPARED_WITH_IT) || reason.contains(OF_ANOTHER_RUN)
}

impl Machine<'_> {
    /// How to produce a condition, with a description.
    ///
    /// # Errors
    /// The reason why it cannot be produced.
    pub(super) fn recipe(&self, condition: Condition) -> Choice {
        match condition {
            Condition::Alone => Ok((Recipe::Nothing, "the control: alone against alone".into())),
            Condition::HogSame | Condition::HogOther | Condition::HogAll => self.hogs(condition),
            Condition::Timers => Ok(self.where_interrupts_come(|_, _, _| Work::Timers)),
            Condition::Network => Ok(self.where_interrupts_come(|_, _, _| Work::Network)),
            Condition::Files => Ok(beside_the_file(|folder, _, _| Work::Files(folder))),
            Condition::Fsync => Ok(beside_the_file(|folder, _, _| Work::Fsync(folder))),
            Condition::Memory => self.memory(),
            Condition::IoLimit => {
                let device = self.device()?;
                let limit = Limit::make(&self.root, device.dev, self.plan.io_limit_bytes_per_s)?;
                let what = format!("{} bytes a second to {}", self.plan.io_limit_bytes_per_s, device.name);
                Ok((Recipe::Limit(limit), what))
            }
            Condition::RqAffinity0 | Condition::RqAffinity1 | Condition::RqAffinity2 => {
                self.completion_cpu(condition)
            }
            Condition::Performance | Condition::Powersave | Condition::Schedutil | Condition::Ondemand => {
                self.governor(condition)
            }
            Condition::Polled => self.polled(),
        }
    }

    /// CPU hogs on the writer's CPUs, on another one, or on all.
    fn hogs(&self, condition: Condition) -> Choice {
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
            return Err("the writer may use every CPU: give it fewer with --cpus".into());
        }
        let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let what = format!("on CPU {}", names.join(","));
        Ok((Recipe::Hogs(cpus), what))
    }

    /// A load on the CPU that handles the device's interrupts.
    fn where_interrupts_come(&self, work: fn(PathBuf, u64, u64) -> Work) -> (Recipe, String) {
        let (cpu, whose) = match self.interrupt_cpu().filter(|cpu| self.cpus.contains(cpu)) {
            Some(cpu) => (cpu, "the device's interrupt's"),
            None => (
                self.writer_cpus.first().copied().unwrap_or(0),
                "the writer's, because the interrupt's is not known",
            ),
        };
        let recipe = Recipe::Background { work, cpus: vec![cpu], folder: false, bytes: (0, 0) };
        (recipe, format!("on CPU {cpu}, {whose}"))
    }

    /// A load that fills part of the free memory.
    fn memory(&self) -> Choice {
        let left = cgroup::memory_left_bytes(&self.root)
            .ok_or("the kernel does not show how much memory is free")?;
        let bytes = left / 100 * u64::from(self.plan.memory_percent);
        if bytes < WORTH_BYTES || left - bytes < LEAVE_BYTES {
            return Err(format!(
                "only {} MiB of memory are free: too little to fill {}% of it and leave {} MiB",
                left >> 20,
                self.plan.memory_percent,
                LEAVE_BYTES >> 20
            ));
        }
        let leave = ((left - bytes) / 2).max(LEAVE_BYTES / 2);
        let what = format!("{} of {} MiB of free memory, on any CPU", bytes >> 20, left >> 20);
        let work = |_, bytes, leave| Work::Memory(bytes, leave);
        Ok((Recipe::Background { work, cpus: Vec::new(), folder: false, bytes: (bytes, leave) }, what))
    }

    /// Where the block layer completes requests (Documentation/block/queue-sysfs.rst, rq_affinity).
    fn completion_cpu(&self, condition: Condition) -> Choice {
        let wanted = condition.rq_affinity().unwrap_or(0).to_string();
        let leaves = self.leaves()?;
        let files = leaves.iter().map(|device| {
            let (major, minor) = (device.dev >> 20, device.dev & 0xf_ffff);
            format!("sys/dev/block/{major}:{minor}/queue/rq_affinity").into()
        });
        let names: Vec<&str> = leaves.iter().map(|device| device.name.as_str()).collect();
        let recipe = self.settings(files.collect(), &wanted, "the setting of its queue")?;
        Ok((recipe, format!("the queue of {}", names.join(", "))))
    }

    fn governor(&self, condition: Condition) -> Choice {
        let policies = self.root.names(POLICIES);
        let policies: Vec<_> = policies.iter().filter(|name| name.starts_with("policy")).collect();
        if policies.is_empty() {
            return Err("this machine has no frequency governor".into());
        }
        let offers = |name: &&String| {
            let all = self.root.read(format!("{POLICIES}/{name}/scaling_available_governors"));
            all.unwrap_or_default().split(' ').any(|one| one == condition.name())
        };
        if !policies.iter().all(offers) {
            return Err("this kernel does not have that frequency governor".into());
        }
        let files = policies.iter().map(|name| format!("{POLICIES}/{name}/scaling_governor").into());
        let recipe = self.settings(files.collect(), condition.name(), "the governor of all CPUs")?;
        Ok((recipe, "the governor of all CPUs".into()))
    }

    /// Writes that poll for their completion, compared with writes completed by interrupt.
    fn polled(&self) -> Choice {
        if let Some(reason) = cannot_poll(self.path) {
            return Err(reason);
        }
        for device in self.leaves()? {
            let block = u64::from(device.logical_block_bytes.unwrap_or(512));
            if let Some(size) = self.plan.write.sizes_bytes.iter().find(|&&size| size % block != 0) {
                return Err(format!(
                    "a write of {size} bytes is not a multiple of {}'s {block}",
                    device.name
                ));
            }
        }
        match no_uring(true) {
            Some(reason) => Err(reason),
            None => {
                Ok((Recipe::Polled, "io_uring with O_DIRECT: polled completions against interrupts".into()))
            }
        }
    }

    /// The CPU that handles the device's interrupt. If there are several interrupts, that of the
    /// writer's own queue.
    pub(super) fn interrupt_cpu(&self) -> Option<u32> {
        let leaves = self.path.leaves();
        let interrupts = leaves.iter().flat_map(|device| &device.interrupts);
        let cpus: Vec<u32> = interrupts
            .filter_map(|interrupt| cpu_list(interrupt.cpus.as_deref()?)?.first().copied())
            .collect();
        cpus.iter().find(|cpu| self.writer_cpus.contains(cpu)).or(cpus.first()).copied()
    }

    fn device(&self) -> Result<&Device, String> {
        self.path.device.as_ref().ok_or_else(|| "no block device is known".into())
    }

    fn leaves(&self) -> Result<Vec<&Device>, String> {
        self.device().map(|_| self.path.leaves())
    }

    /// The changes that give these files the value `wanted`. Fails if a file cannot be written, or
    /// if all have that value already.
    fn settings(&self, files: Vec<PathBuf>, wanted: &str, what: &str) -> Result<Recipe, String> {
        let mut changes = Vec::new();
        for file in files {
            if !self.root.has(&file) {
                return Err(format!("/{} does not exist", file.display()));
            }
            let opened = File::options().write(true).open(self.root.path(&file));
            opened.map_err(|cause| format!("/{} cannot be changed: {cause}", file.display()))?;
            // Claimed before it is read, because another run may have changed it.
            let claim = self.claim(&file)?;
            let before = self.root.read(&file).unwrap_or_default();
            if before != wanted {
                changes.push((claim, wanted.to_owned(), before));
            }
        }
        if changes.is_empty() {
            Err(format!("it is {what} now: {COMPARED_WITH_IT}"))
        } else {
            Ok(Recipe::Settings(changes))
        }
    }

    /// Several conditions change the same setting, so claims are shared.
    fn claim(&self, file: &Path) -> Result<Rc<Claim>, String> {
        if let Some(claim) = self.claims.borrow().get(file) {
            return Ok(Rc::clone(claim));
        }
        let claim = Rc::new(Claim::take(&self.root, file)?);
        self.claims.borrow_mut().insert(file.to_owned(), Rc::clone(&claim));
        Ok(claim)
    }
}

/// A load that writes to the measured file system.
fn beside_the_file(work: fn(PathBuf, u64, u64) -> Work) -> (Recipe, String) {
    let recipe = Recipe::Background { work, cpus: Vec::new(), folder: true, bytes: (0, 0) };
    (recipe, "in the same file system, on any CPU".into())
}
