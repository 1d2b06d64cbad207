//! `atrace`'s categories of kernel events, with the names from Android's `atrace.cpp`. Only checks
//! whether an event exists. Must not know how events are enabled.

use std::path::Path;

use tracefs::Chosen;

/// A category, with the events that it enables. A kernel may have only some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Category {
    /// The category's name.
    pub(crate) name: &'static str,
    /// Each event as `system/event`; `system/*` for all events of a system.
    events: &'static [&'static str],
}

impl Category {
    /// All categories.
    pub(crate) const ALL: &[Self] = &[
        Self::new(
            "sched",
            &[
                "sched/sched_switch",
                "sched/sched_wakeup",
                "sched/sched_wakeup_new",
                "sched/sched_waking",
                "sched/sched_blocked_reason",
                "sched/sched_pi_setprio",
                "sched/sched_cpu_hotplug",
                "sched/sched_process_exit",
                "cgroup/*",
                "oom/oom_score_adj_update",
                "task/task_newtask",
                "task/task_rename",
            ],
        ),
        Self::new("idle", &["power/cpu_idle"]),
        Self::new(
            "freq",
            &[
                "power/cpu_frequency",
                "power/cpu_frequency_limits",
                "power/gpu_frequency",
                "power/suspend_resume",
                "power/clock_set_rate",
                "power/clock_disable",
                "power/clock_enable",
                "clk/clk_set_rate",
                "clk/clk_disable",
                "clk/clk_enable",
                "cpuhp/cpuhp_enter",
                "cpuhp/cpuhp_exit",
                "cpuhp/cpuhp_pause",
            ],
        ),
        Self::new("workq", &["workqueue/*"]),
        Self::new(
            "binder_driver",
            &[
                "binder/binder_transaction",
                "binder/binder_transaction_received",
                "binder/binder_transaction_alloc_buf",
                "binder/binder_set_priority",
                "rust_binder/*",
            ],
        ),
        Self::new("sync", &["dma_fence/*", "sync/*", "fence/*"]),
        Self::new("irq", &["irq/*", "ipi/*"]),
        Self::new("irqoff", &["preemptirq/irq_enable", "preemptirq/irq_disable"]),
        Self::new("preemptoff", &["preemptirq/preempt_enable", "preemptirq/preempt_disable"]),
        Self::new(
            "disk",
            &[
                "f2fs/f2fs_sync_file_enter",
                "f2fs/f2fs_sync_file_exit",
                "f2fs/f2fs_write_begin",
                "f2fs/f2fs_write_end",
                "f2fs/f2fs_iostat",
                "f2fs/f2fs_iostat_latency",
                "ext4/ext4_da_write_begin",
                "ext4/ext4_da_write_end",
                "ext4/ext4_sync_file_enter",
                "ext4/ext4_sync_file_exit",
                "block/block_bio_queue",
                "block/block_bio_complete",
                // These are from older versions of atrace.
                "block/block_rq_issue",
                "block/block_rq_complete",
                "ufs/ufshcd_command",
            ],
        ),
        Self::new("mmc", &["mmc/*"]),
        Self::new("load", &["cpufreq_interactive/*"]),
        Self::new("membus", &["memory_bus/*"]),
        Self::new("i2c", &["i2c/*", "smbus/*"]),
        Self::new("regulators", &["regulator/*"]),
        Self::new(
            "memreclaim",
            &[
                "vmscan/mm_vmscan_direct_reclaim_begin",
                "vmscan/mm_vmscan_direct_reclaim_end",
                "vmscan/mm_vmscan_kswapd_wake",
                "vmscan/mm_vmscan_kswapd_sleep",
                "lowmemorykiller/*",
            ],
        ),
        Self::new("binder_lock", &["binder/binder_lock", "binder/binder_locked", "binder/binder_unlock"]),
        Self::new("pagecache", &["filemap/*"]),
        Self::new(
            "memory",
            &[
                "mm_event/mm_event_record",
                "synthetic/rss_stat_throttled",
                "kmem/ion_heap_grow",
                "kmem/ion_heap_shrink",
                "ion/ion_stat",
                "gpu_mem/gpu_mem_total",
                "fastrpc/fastrpc_dma_stat",
            ],
        ),
        Self::new("thermal", &["thermal/thermal_temperature", "thermal/cdev_update"]),
    ];

    /// The names of all categories.
    pub(crate) const NAMES: &[&str] = &[
        "sched",
        "idle",
        "freq",
        "workq",
        "binder_driver",
        "sync",
        "irq",
        "irqoff",
        "preemptoff",
        "disk",
        "mmc",
        "load",
        "membus",
        "i2c",
        "regulators",
        "memreclaim",
        "binder_lock",
        "pagecache",
        "memory",
        "thermal",
    ];

    /// The number of default categories, which come first in [`Category::ALL`]. They are those in
    /// the command line that Android's documentation recommends for latency, and irq.
    const USUAL: usize = 7;

    const fn new(name: &'static str, events: &'static [&'static str]) -> Self {
        Self { name, events }
    }

    /// A category by name, or an error with the valid names.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let names = || Self::NAMES.join(", ");
        let found = Self::ALL.iter().find(|category| category.name == name).copied();
        found.ok_or_else(|| format!("'{name}' is not a category of kernel events: choose from {}", names()))
    }

    /// The default categories: sched, idle, freq, workq, binder_driver, sync and irq.
    pub(crate) fn usual() -> &'static [Self] {
        &Self::ALL[..Self::USUAL]
    }

    /// The category's events that exist in the tracefs at this root. For all events of a system,
    /// returns the system's name, because the system has its own `enable` file.
    fn events(self, root: &Path) -> Vec<String> {
        let events = self.events.iter().map(|name| name.strip_suffix("/*").unwrap_or(name));
        let there = events.filter(|event| root.join("events").join(event).join("enable").exists());
        there.map(str::to_owned).collect()
    }
}

/// The events of these categories that the kernel has, in the tracefs at this root, and the
/// categories without events. If no categories are given, uses the default ones.
///
/// # Errors
/// Invalid usage if the kernel has no event of a named category.
pub(crate) fn choose(root: &Path, categories: &[Category]) -> anyhow::Result<Chosen> {
    let mut chosen = Chosen::default();
    for category in if categories.is_empty() { Category::usual() } else { categories } {
        let found = category.events(root);
        if found.is_empty() {
            chosen.missing.push(category.name.to_owned());
        }
        for event in found {
            if !chosen.events.contains(&event) {
                chosen.events.push(event);
            }
        }
    }
    if categories.is_empty() || chosen.missing.is_empty() {
        return Ok(chosen);
    }
    let there = Category::ALL.iter().filter(|category| !category.events(root).is_empty());
    let there: Vec<_> = there.map(|category| category.name).collect();
    let (missing, there) = (chosen.missing.join(", "), there.join(", "));
    Err(crate::args::usage!("this kernel has no events for {missing}; it has events for {there}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_found_by_its_name_and_others_are_refused_with_the_names() {
        for name in ["sched", "idle", "freq", "irq", "workq", "sync", "binder_driver", "disk"] {
            assert_eq!(Category::named(name).unwrap().name, name);
        }
        let refusal = |name: &str| Category::named(name).unwrap_err();
        // The events of atrace's other categories are not kernel events: programs write them.
        assert!(
            refusal("gfx").starts_with("'gfx' is not a category of kernel events: choose from sched, idle")
        );
        assert!(Category::ALL.iter().map(|category| category.name).eq(Category::NAMES.iter().copied()));
        let usual: Vec<_> = Category::usual().iter().map(|category| category.name).collect();
        assert_eq!(usual, ["sched", "idle", "freq", "workq", "binder_driver", "sync", "irq"]);
    }

    #[test]
    fn the_events_are_those_that_the_kernel_has() {
        let root = std::env::temp_dir().join(format!("tracefs-atrace-{}", std::process::id()));
        for event in ["irq", "block/block_bio_queue"] {
            let folder = root.join("events").join(event);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("enable"), "0").unwrap();
        }
        let events = |name: &str| Category::named(name).unwrap().events(&root);
        assert_eq!(
            (events("irq"), events("disk")),
            (vec!["irq".into()], vec!["block/block_bio_queue".into()])
        );
        assert!(events("sched").is_empty());
        let chosen = choose(&root, &[]).unwrap();
        assert_eq!((chosen.events, chosen.missing.len()), (vec!["irq".to_owned()], 6));
        let named =
            |names: &[&str]| -> Vec<_> { names.iter().map(|name| Category::named(name).unwrap()).collect() };
        let chosen = choose(&root, &named(&["disk", "irq", "disk"])).unwrap();
        assert_eq!(chosen.events, ["block/block_bio_queue", "irq"]);
        let refusal = choose(&root, &named(&["sched", "irq"])).unwrap_err().to_string();
        assert_eq!(refusal, "this kernel has no events for sched; it has events for irq, disk");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
