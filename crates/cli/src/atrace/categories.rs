//! `atrace`'s categories of kernel events, with the names from Android's `atrace.cpp`. Only checks
//! whether an event exists, and marks a trace's clocks. Must not know how events are enabled.

use std::path::Path;

use roundtrip_tracefs::{Chosen, GlobalTrace};
use rustix::time::{ClockId, clock_gettime};

/// A category, with the events that it enables. A kernel may have only some of them. Of a category
/// without `events`, programs write all events into the trace (`trace_marker`): atrace asks
/// Android's programs to, by system properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Category {
    /// The category's name.
    pub(crate) name: &'static str,
    /// What it contains, in the words of atrace's list.
    pub(crate) title: &'static str,
    /// Each event as `system/event`; `system/*` for all events of a system.
    events: &'static [&'static str],
    /// Whether programs write events of this category.
    pub(crate) by_programs: bool,
}

impl Category {
    /// All categories.
    pub(crate) const ALL: &[Self] = &[
        Self::new(
            "sched",
            "CPU Scheduling",
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
        Self::new("idle", "CPU Idle", &["power/cpu_idle"]),
        Self::new(
            "freq",
            "CPU Frequency and System Clock",
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
        Self::new("workq", "Kernel Workqueues", &["workqueue/*"]),
        Self::new(
            "binder_driver",
            "Binder Kernel driver",
            &[
                "binder/binder_transaction",
                "binder/binder_transaction_received",
                "binder/binder_transaction_alloc_buf",
                "binder/binder_set_priority",
                "rust_binder/*",
            ],
        ),
        Self::new("sync", "Synchronization", &["dma_fence/*", "sync/*", "fence/*"]),
        Self::new("irq", "IRQ Events", &["irq/*", "ipi/*"]),
        Self::new(
            "irqoff",
            "IRQ-disabled code section tracing",
            &["preemptirq/irq_enable", "preemptirq/irq_disable"],
        ),
        Self::new(
            "preemptoff",
            "Preempt-disabled code section tracing",
            &["preemptirq/preempt_enable", "preemptirq/preempt_disable"],
        ),
        Self::new(
            "disk",
            "Disk I/O",
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
        Self::new("mmc", "eMMC commands", &["mmc/*"]),
        Self::new("load", "CPU Load", &["cpufreq_interactive/*"]),
        Self::new("membus", "Memory Bus Utilization", &["memory_bus/*"]),
        Self::new("i2c", "I2C Events", &["i2c/*", "smbus/*"]),
        Self::new("regulators", "Voltage and Current Regulators", &["regulator/*"]),
        Self::new(
            "memreclaim",
            "Kernel Memory Reclaim",
            &[
                "vmscan/mm_vmscan_direct_reclaim_begin",
                "vmscan/mm_vmscan_direct_reclaim_end",
                "vmscan/mm_vmscan_kswapd_wake",
                "vmscan/mm_vmscan_kswapd_sleep",
                "lowmemorykiller/*",
            ],
        ),
        Self::new(
            "binder_lock",
            "Binder global lock trace",
            &["binder/binder_lock", "binder/binder_locked", "binder/binder_unlock"],
        ),
        Self::new("pagecache", "Page cache", &["filemap/*"]),
        Self::new(
            "memory",
            "Memory",
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
        Self::new("thermal", "Thermal event", &["thermal/thermal_temperature", "thermal/cdev_update"]),
        Self { events: &["gpu_mem/gpu_mem_total"], ..Self::of_programs("gfx", "Graphics") },
        Self::of_programs("input", "Input"),
        Self::of_programs("view", "View System"),
        Self::of_programs("webview", "WebView"),
        Self::of_programs("wm", "Window Manager"),
        Self::of_programs("am", "Activity Manager"),
        Self::of_programs("sm", "Sync Manager"),
        Self::of_programs("audio", "Audio"),
        Self::of_programs("video", "Video"),
        Self::of_programs("camera", "Camera"),
        Self::of_programs("hal", "Hardware Modules"),
        Self::of_programs("app", "Application"),
        Self::of_programs("res", "Resource Loading"),
        Self::of_programs("dalvik", "Dalvik VM"),
        Self::of_programs("rs", "RenderScript"),
        Self::of_programs("bionic", "Bionic C Library"),
        Self::of_programs("power", "Power Management"),
        Self::of_programs("pm", "Package Manager"),
        Self::of_programs("ss", "System Server"),
        Self::of_programs("database", "Database"),
        Self::of_programs("network", "Network"),
        Self::of_programs("adb", "ADB"),
        Self::of_programs("vibrator", "Vibrator"),
        Self::of_programs("aidl", "AIDL calls"),
        Self::of_programs("nnapi", "NNAPI"),
        Self::of_programs("rro", "Runtime Resource Overlay"),
        Self::of_programs("pdx", "PDX services"),
        Self::of_programs("core_services", "Core services"),
    ];

    /// The number of default categories, which come first in [`Category::ALL`]. They are those in
    /// the command line that Android's documentation recommends for latency, and irq.
    const USUAL: usize = 7;

    const fn new(name: &'static str, title: &'static str, events: &'static [&'static str]) -> Self {
        Self { name, title, events, by_programs: false }
    }

    const fn of_programs(name: &'static str, title: &'static str) -> Self {
        Self { name, title, events: &[], by_programs: true }
    }

    /// A category by name: one of the kernel's, or one whose events programs write. Or an error
    /// with the valid names.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|category| category.name == name).ok_or_else(|| {
            let kernel = Self::ALL.iter().filter(|category| !category.by_programs);
            let names = kernel.map(|category| category.name).collect::<Vec<_>>().join(", ");
            format!("'{name}' is not one of atrace's categories; the kernel's are {names}")
        })
    }

    /// The default categories: sched, idle, freq, workq, binder_driver, sync and irq.
    pub(crate) fn usual() -> &'static [Self] {
        &Self::ALL[..Self::USUAL]
    }

    /// The category's events that exist in the tracefs at this root. For all events of a system,
    /// returns the system's name, because the system has its own `enable` file.
    pub(crate) fn events(self, root: &Path) -> Vec<String> {
        let events = self.events.iter().map(|name| name.strip_suffix("/*").unwrap_or(name));
        let there = events.filter(|event| root.join("events").join(event).join("enable").exists());
        there.map(str::to_owned).collect()
    }
}

/// The help text of arguments that name categories.
pub(crate) const CATEGORIES: &str = "atrace's categories of kernel events: sched, idle, freq, workq, binder_driver, sync, irq, irqoff, \
     preemptoff, disk, mmc, load, membus, i2c, regulators, memreclaim, binder_lock, pagecache, memory, thermal. \
     Default: the first seven, as far as the kernel has them. A category that this kernel lacks is noted.";

/// The events of these categories that the kernel has, in the tracefs at this root, and the
/// categories without events. If no categories are given, uses the default ones.
///
/// # Errors
/// Invalid usage if the kernel has no event of any named category.
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
    if categories.is_empty() || !chosen.events.is_empty() || categories.iter().any(|one| one.by_programs) {
        return Ok(chosen);
    }
    let there = Category::ALL.iter().filter(|category| !category.by_programs);
    let there = there.filter(|category| !category.events(root).is_empty());
    let there: Vec<_> = there.map(|category| category.name).collect();
    let (missing, there) = (chosen.missing.join(", "), there.join(", "));
    Err(crate::args::usage!("this kernel has no events for {missing}; it has events for {there}"))
}

/// Notes on these categories, of which the kernel has no events for `missing`: one line for each
/// reason.
pub(crate) fn notes(categories: &[Category], missing: &[String]) -> Vec<String> {
    let (programs, kernel): (Vec<&Category>, Vec<_>) =
        categories.iter().partition(|category| category.by_programs);
    let kernel: Vec<&str> =
        kernel.into_iter().map(|one| one.name).filter(|name| missing.iter().any(|one| one == name)).collect();
    let mut notes = Vec::new();
    if !kernel.is_empty() {
        notes.push(format!("this kernel has no events for {}", kernel.join(", ")));
    }
    if !programs.is_empty() {
        let names = programs.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        notes.push(format!(
            "programs write the events of {names}, and only Android's atrace can ask them to; what they write \
             is recorded"
        ));
    }
    notes
}

/// Writes the marks into a trace by which viewers find out when it was recorded: the time since the
/// machine started, and the time of day.
pub(crate) fn mark_clocks(trace: &GlobalTrace) -> roundtrip_tracefs::Result<()> {
    let since_start = clock_gettime(ClockId::Monotonic);
    let seconds = since_start.tv_sec as f64 + since_start.tv_nsec as f64 / 1e9;
    trace.mark(&format!("trace_event_clock_sync: parent_ts={seconds:.6}\n"))?;
    let of_day = clock_gettime(ClockId::Realtime);
    let milliseconds = of_day.tv_sec * 1000 + of_day.tv_nsec / 1_000_000;
    trace.mark(&format!("trace_event_clock_sync: realtime_ts={milliseconds}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_found_by_its_name_and_others_are_refused_with_the_names() {
        for name in ["sched", "idle", "freq", "irq", "workq", "sync", "binder_driver", "disk"] {
            assert_eq!(Category::named(name).unwrap().name, name);
        }
        let unknown = Category::named("gxf").unwrap_err();
        assert!(unknown.starts_with("'gxf' is not one of atrace's categories; the kernel's are sched, idle"));
        assert!(Category::named("view").unwrap().events.is_empty());
        let mut names: Vec<_> = Category::ALL.iter().map(|category| category.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Category::ALL.len(), "each name is listed once");
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
        let categories = named(&["sched", "irq", "gfx"]);
        let missing = choose(&root, &categories).unwrap().missing;
        assert_eq!(missing, ["sched", "gfx"]);
        let notes = notes(&categories, &missing);
        assert_eq!(notes.len(), 2);
        assert!(
            notes[0].ends_with("no events for sched") && notes[1].starts_with("programs write"),
            "{notes:?}"
        );
        let refusal = choose(&root, &named(&["sched"])).unwrap_err().to_string();
        assert_eq!(refusal, "this kernel has no events for sched; it has events for irq, disk");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
