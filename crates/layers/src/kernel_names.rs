//! Kernel names in recordings that have a special meaning. Must not know where they are looked up.

/// Whether an interrupt vector is the CPU's own timer (x86).
pub(crate) fn is_timer_vector(vector: &str) -> bool {
    vector == "local_timer"
}

/// Whether a device's interrupt is the CPU's own timer (arm64).
pub(crate) fn is_timer_device(interrupt: &str) -> bool {
    interrupt == "arch_timer"
}

/// Whether an interrupt or vector belongs to any timer.
pub(crate) fn is_any_timer(name: &str) -> bool {
    name.contains("timer")
}

/// Whether one CPU sends this interrupt to another: x86's vectors, and the reasons in arm64's
/// `ipi_entry`.
pub(crate) fn is_from_cpus(vector: &str) -> bool {
    ["call_function", "reschedule", "Function call interrupts", "Rescheduling interrupts"]
        .iter()
        .any(|prefix| vector.starts_with(prefix))
}

/// Whether a thread is one that runs the softirqs that a CPU defers to it.
pub(crate) fn is_softirq_thread(comm: &str) -> bool {
    comm.starts_with("ksoftirqd/")
}

/// Whether a thread is the handler of an interrupt.
pub(crate) fn is_interrupt_thread(comm: &str) -> bool {
    comm.starts_with("irq/")
}

/// Whether a thread is the kernel's, and works for the writes of others: a worker, a journal, or
/// the thread of a stacked device.
pub(crate) fn works_for_writes(comm: &str) -> bool {
    const PREFIXES: [&str; 11] = [
        "kworker/",
        "jbd2/",
        "loop",
        "dmcrypt_write",
        "kdmflush",
        "md",
        "f2fs_ckpt",
        "f2fs_flush",
        "xfs",
        "iou-",
        "mmcqd",
    ];
    is_softirq_thread(comm)
        || is_interrupt_thread(comm)
        || PREFIXES.iter().any(|prefix| comm.starts_with(prefix))
}

/// Whether a thread of a program belongs to io_uring: it never leaves the kernel.
pub(crate) fn is_of_a_ring(comm: &str) -> bool {
    comm.starts_with("iou-")
}

/// Whether a thread is a kernel worker.
pub(crate) fn is_worker(comm: &str) -> bool {
    comm.starts_with("kworker/")
}

/// Whether a thread that is blocked in this kernel function is frozen.
pub(crate) fn is_freezer(function: &str) -> bool {
    ["__refrigerator", "do_freezer_trap"].contains(&function)
}

/// Whether an event is the completion of a block request.
pub(crate) fn is_block_completion(event: &str) -> bool {
    event.starts_with("block/block_rq_complete")
}
