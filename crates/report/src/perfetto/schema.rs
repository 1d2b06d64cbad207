//! The messages and fields of Perfetto's trace format that we write, with their names and numbers
//! from its public `.proto` files (`protos/perfetto/trace`). Must not know any values. A test
//! compares the table with the published schema.
#![allow(non_upper_case_globals, reason = "fields have the names of the schema")]

use super::wire::{Fixed64, Int, Nested, Text, Uint};

/// Declares messages. Each becomes a module of typed field numbers. For the test, there is also a
/// table of all of them.
macro_rules! messages {
    ($($module:ident $message:literal { $($field:ident: $kind:ident = $number:literal),* $(,)? })*) => {
        $(pub(super) mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(pub(in super::super) const $field: $kind = $kind($number);)*
        })*

        /// Message, field, number and kind of everything declared here.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str, u32, &str)] = &[
            $($(($message, stringify!($field), $number, stringify!($kind)),)*)*
        ];
    };
}

/// A kernel event whose message has the same fields with the same names.
#[derive(Debug)]
pub(super) struct Named {
    /// The event's name without its system.
    pub(super) event: &'static str,
    /// Its field in `FtraceEvent`.
    pub(super) field: Nested,
    /// The message.
    #[cfg(test)]
    pub(super) message: &'static str,
    /// Its fields.
    pub(super) fields: &'static [(&'static str, Kind)],
}

/// A field's number and kind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Int(u32),
    Uint(u32),
    Text(u32),
}

macro_rules! named {
    ($($event:ident $message:literal = $number:literal { $($field:ident: $kind:ident = $place:literal),* $(,)? })*) => {
        /// Sorted by name.
        pub(super) const NAMED: &[Named] = &[$(Named {
            event: stringify!($event),
            field: Nested($number),
            #[cfg(test)]
            message: $message,
            fields: &[$((stringify!($field), Kind::$kind($place))),*],
        }),*];
    };
}

named! {
    binder_transaction_alloc_buf "BinderTransactionAllocBufFtraceEvent" = 323 {
        data_size: Uint = 1, debug_id: Int = 2, offsets_size: Uint = 3, extra_buffers_size: Uint = 4,
    }
    clk_disable "ClkDisableFtraceEvent" = 321 { name: Text = 1 }
    clk_enable "ClkEnableFtraceEvent" = 320 { name: Text = 1 }
    clk_set_rate "ClkSetRateFtraceEvent" = 322 { name: Text = 1, rate: Uint = 2 }
    cpu_frequency_limits "CpuFrequencyLimitsFtraceEvent" = 12 { min_freq: Uint = 1, max_freq: Uint = 2, cpu_id: Uint = 3 }
    cpuhp_enter "CpuhpEnterFtraceEvent" = 345 { cpu: Uint = 1, idx: Int = 3, target: Int = 4 }
    cpuhp_exit "CpuhpExitFtraceEvent" = 343 { cpu: Uint = 1, idx: Int = 2, ret: Int = 3, state: Int = 4 }
    dma_fence_emit "DmaFenceEmitFtraceEvent" = 415 { context: Uint = 1, driver: Text = 2, seqno: Uint = 3, timeline: Text = 4 }
    dma_fence_init "DmaFenceInitFtraceEvent" = 414 { context: Uint = 1, driver: Text = 2, seqno: Uint = 3, timeline: Text = 4 }
    dma_fence_signaled "DmaFenceSignaledFtraceEvent" = 416 {
        context: Uint = 1, driver: Text = 2, seqno: Uint = 3, timeline: Text = 4,
    }
    dma_fence_wait_end "DmaFenceWaitEndFtraceEvent" = 418 {
        context: Uint = 1, driver: Text = 2, seqno: Uint = 3, timeline: Text = 4,
    }
    dma_fence_wait_start "DmaFenceWaitStartFtraceEvent" = 417 {
        context: Uint = 1, driver: Text = 2, seqno: Uint = 3, timeline: Text = 4,
    }
    gpu_frequency "GpuFrequencyFtraceEvent" = 332 { gpu_id: Uint = 1, state: Uint = 2 }
    sched_cpu_hotplug "SchedCpuHotplugFtraceEvent" = 19 { affected_cpu: Int = 1, error: Int = 2, status: Int = 3 }
    sched_process_exec "SchedProcessExecFtraceEvent" = 237 { filename: Text = 1, pid: Int = 2, old_pid: Int = 3 }
    sched_process_free "SchedProcessFreeFtraceEvent" = 240 { comm: Text = 1, pid: Int = 2, prio: Int = 3 }
    sched_process_wait "SchedProcessWaitFtraceEvent" = 242 { comm: Text = 1, pid: Int = 2, prio: Int = 3 }
    suspend_resume "SuspendResumeFtraceEvent" = 113 { action: Text = 1, val: Int = 2, start: Uint = 3 }
    sync_pt "SyncPtFtraceEvent" = 38 { timeline: Text = 1, value: Text = 2 }
    sync_timeline "SyncTimelineFtraceEvent" = 39 { name: Text = 1, value: Text = 2 }
    sync_wait "SyncWaitFtraceEvent" = 40 { name: Text = 1, status: Int = 2, begin: Uint = 3 }
    task_newtask "TaskNewtaskFtraceEvent" = 235 { pid: Int = 1, comm: Text = 2, clone_flags: Uint = 3, oom_score_adj: Int = 4 }
    workqueue_activate_work "WorkqueueActivateWorkFtraceEvent" = 56 { work: Uint = 1 }
    workqueue_queue_work "WorkqueueQueueWorkFtraceEvent" = 59 { work: Uint = 1, req_cpu: Int = 4, cpu: Int = 5, workqueue: Text = 6 }
}

messages! {
    trace "Trace" { packet: Nested = 1 }
    packet "TracePacket" {
        ftrace_events: Nested = 1, process_tree: Nested = 2, clock_snapshot: Nested = 6, timestamp: Uint = 8,
        trusted_packet_sequence_id: Uint = 10, track_event: Nested = 11, interned_data: Nested = 12,
        sequence_flags: Uint = 13, system_info: Nested = 45, trace_packet_defaults: Nested = 59,
        track_descriptor: Nested = 60,
    }
    packet_defaults "TracePacketDefaults" { timestamp_clock_id: Uint = 58 }
    clock_snapshot "ClockSnapshot" { clocks: Nested = 1, primary_trace_clock: Int = 2 }
    clock "ClockSnapshot.Clock" { clock_id: Uint = 1, timestamp: Uint = 2 }
    system_info "SystemInfo" { utsname: Nested = 1 }
    utsname "Utsname" { sysname: Text = 1, release: Text = 3, machine: Text = 4 }
    process_tree "ProcessTree" { processes: Nested = 1, threads: Nested = 2 }
    process "ProcessTree.Process" { pid: Int = 1, cmdline: Text = 3, cmdline_is_comm: Uint = 9 }
    thread "ProcessTree.Thread" { tid: Int = 1, name: Text = 2, tgid: Int = 3 }
    interned "InternedData" { event_names: Nested = 2, debug_annotation_names: Nested = 3, kernel_symbols: Nested = 26 }
    event_name "EventName" { iid: Uint = 1, name: Text = 2 }
    annotation_name "DebugAnnotationName" { iid: Uint = 1, name: Text = 2 }
    interned_string "InternedString" { iid: Uint = 1, str: Text = 2 }

    track "TrackDescriptor" {
        uuid: Uint = 1, name: Text = 2, process: Nested = 3, thread: Nested = 4, parent_uuid: Uint = 5,
        child_ordering: Int = 11, sibling_order_rank: Int = 12,
    }
    process_descriptor "ProcessDescriptor" { pid: Int = 1, process_name: Text = 6 }
    thread_descriptor "ThreadDescriptor" { pid: Int = 1, tid: Int = 2 }
    track_event "TrackEvent" {
        debug_annotations: Nested = 4, r#type: Int = 9, name_iid: Uint = 10, track_uuid: Uint = 11,
        flow_ids: Fixed64 = 47,
    }
    annotation "DebugAnnotation" { name_iid: Uint = 1, uint_value: Uint = 3, int_value: Int = 4, string_value: Text = 6 }

    bundle "FtraceEventBundle" {
        cpu: Uint = 1, event: Nested = 2, lost_events: Uint = 3
    }
    event "FtraceEvent" {
        timestamp: Uint = 1, pid: Uint = 2, print: Nested = 3, sched_switch: Nested = 4, cpu_frequency: Nested = 11,
        cpu_idle: Nested = 13, sched_wakeup: Nested = 17, sched_blocked_reason: Nested = 18, sched_waking: Nested = 20,
        ipi_entry: Nested = 21, ipi_exit: Nested = 22, ipi_raise: Nested = 23, softirq_entry: Nested = 24,
        softirq_exit: Nested = 25, softirq_raise: Nested = 26, irq_handler_entry: Nested = 36,
        irq_handler_exit: Nested = 37, binder_transaction: Nested = 50, binder_transaction_received: Nested = 51,
        binder_set_priority: Nested = 52, workqueue_execute_end: Nested = 57, workqueue_execute_start: Nested = 58,
        sched_wakeup_new: Nested = 114, task_rename: Nested = 236, sched_process_exit: Nested = 238,
        sched_process_fork: Nested = 239, generic: Nested = 327, sys_enter: Nested = 329, sys_exit: Nested = 330,
        sched_pi_setprio: Nested = 353, sched_migrate_task: Nested = 491, local_timer_entry: Nested = 559,
        local_timer_exit: Nested = 560,
    }
    print "PrintFtraceEvent" { buf: Text = 2 }
    sched_switch "SchedSwitchFtraceEvent" {
        prev_comm: Text = 1, prev_pid: Int = 2, prev_prio: Int = 3, prev_state: Int = 4, next_comm: Text = 5,
        next_pid: Int = 6, next_prio: Int = 7,
    }
    sched_waking "SchedWakingFtraceEvent" { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_wakeup "SchedWakeupFtraceEvent" { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_wakeup_new "SchedWakeupNewFtraceEvent" { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_migrate_task "SchedMigrateTaskFtraceEvent" {
        comm: Text = 1, pid: Int = 2, prio: Int = 3, orig_cpu: Int = 4, dest_cpu: Int = 5,
    }
    sched_pi_setprio "SchedPiSetprioFtraceEvent" { newprio: Int = 2, oldprio: Int = 3, pid: Int = 4 }
    sched_blocked_reason "SchedBlockedReasonFtraceEvent" { pid: Int = 1, caller: Uint = 2, io_wait: Uint = 3 }
    sched_process_fork "SchedProcessForkFtraceEvent" { parent_pid: Int = 2, child_comm: Text = 3, child_pid: Int = 4 }
    sched_process_exit "SchedProcessExitFtraceEvent" { pid: Int = 2 }
    task_rename "TaskRenameFtraceEvent" { pid: Int = 1, newcomm: Text = 3 }
    irq_handler_entry "IrqHandlerEntryFtraceEvent" { irq: Int = 1, name: Text = 2 }
    irq_handler_exit "IrqHandlerExitFtraceEvent" { irq: Int = 1, ret: Int = 2 }
    softirq_raise "SoftirqRaiseFtraceEvent" { vec: Uint = 1 }
    softirq_entry "SoftirqEntryFtraceEvent" { vec: Uint = 1 }
    softirq_exit "SoftirqExitFtraceEvent" { vec: Uint = 1 }
    ipi_entry "IpiEntryFtraceEvent" { reason: Text = 1 }
    ipi_exit "IpiExitFtraceEvent" { reason: Text = 1 }
    ipi_raise "IpiRaiseFtraceEvent" { target_cpus: Uint = 1, reason: Text = 2 }
    cpu_idle "CpuIdleFtraceEvent" { state: Uint = 1, cpu_id: Uint = 2 }
    cpu_frequency "CpuFrequencyFtraceEvent" { state: Uint = 1, cpu_id: Uint = 2 }
    sys_enter "SysEnterFtraceEvent" { id: Int = 1, args: Uint = 2 }
    sys_exit "SysExitFtraceEvent" { id: Int = 1, ret: Int = 2 }
    workqueue_execute_start "WorkqueueExecuteStartFtraceEvent" { work: Uint = 1, function: Uint = 2 }
    workqueue_execute_end "WorkqueueExecuteEndFtraceEvent" { work: Uint = 1 }
    binder_transaction "BinderTransactionFtraceEvent" {
        debug_id: Int = 1, target_node: Int = 2, to_proc: Int = 3, to_thread: Int = 4, reply: Int = 5, code: Uint = 6, flags: Uint = 7,
    }
    binder_transaction_received "BinderTransactionReceivedFtraceEvent" { debug_id: Int = 1 }
    binder_set_priority "BinderSetPriorityFtraceEvent" { thread: Int = 2, old_prio: Uint = 3, new_prio: Uint = 4 }
    generic "GenericFtraceEvent" { event_name: Text = 1, field: Nested = 2 }
    generic_field "GenericFtraceEvent.Field" {
        name: Text = 1, str_value: Text = 3, int_value: Int = 4, uint_value: Uint = 5,
    }
}
