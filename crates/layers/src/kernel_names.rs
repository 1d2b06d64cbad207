//! The kernel's own names that mean something here, as recordings have them. Must not know where
//! they are looked for.

/// Whether a CPU's vector is its own timer (x86).
pub(crate) fn is_timer_vector(vector: &str) -> bool {
    vector == "local_timer"
}

/// Whether a device's interrupt is the CPU's own timer (arm64).
pub(crate) fn is_timer_device(interrupt: &str) -> bool {
    interrupt == "arch_timer"
}

/// Whether an interrupt or vector is any timer's.
pub(crate) fn is_any_timer(name: &str) -> bool {
    name.contains("timer")
}

/// Whether one CPU sends this to another: x86's vectors, and the reasons that arm64's `ipi_entry`
/// gives.
pub(crate) fn is_from_cpus(vector: &str) -> bool {
    ["call_function", "reschedule", "Function call interrupts", "Rescheduling interrupts"]
        .iter()
        .any(|prefix| vector.starts_with(prefix))
}

/// Whether a thread is the one that a CPU's softirqs are left to when they are too many.
pub(crate) fn is_softirq_thread(comm: &str) -> bool {
    comm.starts_with("ksoftirqd/")
}

/// Whether a thread is a worker of the kernel's.
pub(crate) fn is_worker(comm: &str) -> bool {
    comm.starts_with("kworker/")
}

/// Whether an event is the completion of a block device's request.
pub(crate) fn is_block_completion(event: &str) -> bool {
    event.starts_with("block/block_rq_complete")
}
