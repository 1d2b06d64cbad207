//! The messages and fields of Perfetto's trace format that are read and written, with their names
//! and numbers from its public `.proto` files (`protos/perfetto/trace`). A test compares the tables
//! with the published schema.
#![allow(non_upper_case_globals, reason = "fields have the names of the schema")]
#![allow(missing_docs, reason = "the schema documents its fields")]

use crate::write::{Fixed64, Int, Nested, Text, Uint};

/// Declares messages. Each becomes a module of typed field numbers.
macro_rules! messages {
    ($($module:ident $message:literal { $($field:ident: $kind:ident = $number:literal),* $(,)? })*) => {
        $(pub mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(pub const $field: $kind = $kind($number);)*
        })*

        /// Message, field, number and kind of everything declared here, apart from events.
        pub const MESSAGES: &[(&str, &str, u32, &str)] = &[
            $($(($message, stringify!($field), $number, stringify!($kind)),)*)*
        ];
    };
}

/// A kernel event with a message of its own, whose fields have the kernel's names.
#[derive(Debug)]
pub struct Event {
    /// The event's name without its system.
    pub name: &'static str,
    /// Its field in `FtraceEvent`.
    pub number: u32,
    /// The message.
    pub message: &'static str,
    /// Its fields.
    pub fields: &'static [(&'static str, Kind)],
}

impl Event {
    /// The number of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<u32> {
        let (_, kind) = self.fields.iter().find(|(field, _)| *field == name)?;
        let (Kind::Int(number) | Kind::Uint(number) | Kind::Text(number)) = *kind;
        Some(number)
    }
}

/// A field's number and kind.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Int(u32),
    Uint(u32),
    Text(u32),
}

/// Declares a list of events.
macro_rules! events {
    ($(#[$doc:meta])* $list:ident:
     $($event:ident $message:literal = $number:literal { $($field:ident: $kind:ident = $place:literal),* $(,)? })*) => {
        $(#[$doc])*
        pub const $list: &[Event] = &[$(Event {
            name: stringify!($event),
            number: $number,
            message: $message,
            fields: &[$((stringify!($field), Kind::$kind($place))),*],
        }),*];
    };
}

/// Declares events that are decoded: also as modules of typed field numbers, and in [`event`].
macro_rules! decoded {
    ($($event:ident $message:literal = $number:literal { $($field:ident: $kind:ident = $place:literal),* $(,)? })*) => {
        $(pub mod $event {
            #[allow(unused_imports)]
            use super::*;
            $(pub const $field: $kind = $kind($place);)*
        })*

        /// `FtraceEvent`.
        pub mod event {
            use super::*;
            pub const timestamp: Uint = Uint(1);
            pub const common_flags: Uint = Uint(5);
            pub const pid: Uint = Uint(2);
            pub const generic: Nested = Nested(327);
            $(pub const $event: Nested = Nested($number);)*
        }

        events! {
            /// Events that are read and written field by field.
            DECODED: $($event $message = $number { $($field: $kind = $place),* })*
        }
    };
}

/// The event with a field number of `FtraceEvent`, if it is among those that are read.
#[must_use]
pub fn read_event(number: u32) -> Option<&'static Event> {
    DECODED.iter().chain(READ).find(|event| event.number == number)
}

events! {
    /// Events that are only read.
    READ:
    binder_return "BinderReturnFtraceEvent" = 486 { cmd: Uint = 1 }
    block_bio_queue "BlockBioQueueFtraceEvent" = 119 { dev: Uint = 1, sector: Uint = 2, nr_sector: Uint = 3, rwbs: Text = 4 }
    block_rq_complete "BlockRqCompleteFtraceEvent" = 125 { dev: Uint = 1, sector: Uint = 2, nr_sector: Uint = 3, rwbs: Text = 5 }
    block_rq_issue "BlockRqIssueFtraceEvent" = 45 { dev: Uint = 1, sector: Uint = 2, nr_sector: Uint = 3, rwbs: Text = 5 }
    cgroup_attach_task "CgroupAttachTaskFtraceEvent" = 67 { dst_root: Int = 1, pid: Int = 3, cname: Text = 5, dst_path: Text = 7 }
    cgroup_transfer_tasks "CgroupTransferTasksFtraceEvent" = 71 { dst_root: Int = 1, pid: Int = 3, cname: Text = 5, dst_path: Text = 7 }
    ext4_sync_file_enter "Ext4SyncFileEnterFtraceEvent" = 43 { dev: Uint = 1, ino: Uint = 2, parent: Uint = 3, datasync: Int = 4 }
    ext4_sync_file_exit "Ext4SyncFileExitFtraceEvent" = 44 { dev: Uint = 1, ino: Uint = 2, ret: Int = 3 }
    f2fs_sync_file_enter "F2fsSyncFileEnterFtraceEvent" = 255 { dev: Uint = 1, ino: Uint = 2, pino: Uint = 3 }
    f2fs_sync_file_exit "F2fsSyncFileExitFtraceEvent" = 256 { dev: Uint = 1, ino: Uint = 2, datasync: Int = 4, ret: Int = 5 }
}

events! {
    /// Events that are written from all fields that the recording has, sorted by name.
    WRITTEN:
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

decoded! {
    print "PrintFtraceEvent" = 3 { buf: Text = 2 }
    sched_switch "SchedSwitchFtraceEvent" = 4 {
        prev_comm: Text = 1, prev_pid: Int = 2, prev_prio: Int = 3, prev_state: Int = 4, next_comm: Text = 5,
        next_pid: Int = 6, next_prio: Int = 7,
    }
    sched_waking "SchedWakingFtraceEvent" = 20 { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_wakeup "SchedWakeupFtraceEvent" = 17 { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_wakeup_new "SchedWakeupNewFtraceEvent" = 114 { comm: Text = 1, pid: Int = 2, prio: Int = 3, target_cpu: Int = 5 }
    sched_migrate_task "SchedMigrateTaskFtraceEvent" = 491 {
        comm: Text = 1, pid: Int = 2, prio: Int = 3, orig_cpu: Int = 4, dest_cpu: Int = 5,
    }
    sched_pi_setprio "SchedPiSetprioFtraceEvent" = 353 { newprio: Int = 2, oldprio: Int = 3, pid: Int = 4 }
    sched_blocked_reason "SchedBlockedReasonFtraceEvent" = 18 { pid: Int = 1, caller: Uint = 2, io_wait: Uint = 3 }
    sched_process_fork "SchedProcessForkFtraceEvent" = 239 { parent_pid: Int = 2, child_comm: Text = 3, child_pid: Int = 4 }
    sched_process_exit "SchedProcessExitFtraceEvent" = 238 { pid: Int = 2 }
    task_rename "TaskRenameFtraceEvent" = 236 { pid: Int = 1, oldcomm: Text = 2, newcomm: Text = 3 }
    irq_handler_entry "IrqHandlerEntryFtraceEvent" = 36 { irq: Int = 1, name: Text = 2 }
    irq_handler_exit "IrqHandlerExitFtraceEvent" = 37 { irq: Int = 1, ret: Int = 2 }
    softirq_raise "SoftirqRaiseFtraceEvent" = 26 { vec: Uint = 1 }
    softirq_entry "SoftirqEntryFtraceEvent" = 24 { vec: Uint = 1 }
    softirq_exit "SoftirqExitFtraceEvent" = 25 { vec: Uint = 1 }
    ipi_entry "IpiEntryFtraceEvent" = 21 { reason: Text = 1 }
    ipi_exit "IpiExitFtraceEvent" = 22 { reason: Text = 1 }
    ipi_raise "IpiRaiseFtraceEvent" = 23 { target_cpus: Uint = 1, reason: Text = 2 }
    cpu_idle "CpuIdleFtraceEvent" = 13 { state: Uint = 1, cpu_id: Uint = 2 }
    cpu_frequency "CpuFrequencyFtraceEvent" = 11 { state: Uint = 1, cpu_id: Uint = 2 }
    sys_enter "SysEnterFtraceEvent" = 329 { id: Int = 1, args: Uint = 2 }
    sys_exit "SysExitFtraceEvent" = 330 { id: Int = 1, ret: Int = 2 }
    workqueue_execute_start "WorkqueueExecuteStartFtraceEvent" = 58 { work: Uint = 1, function: Uint = 2 }
    workqueue_execute_end "WorkqueueExecuteEndFtraceEvent" = 57 { work: Uint = 1 }
    binder_transaction "BinderTransactionFtraceEvent" = 50 {
        debug_id: Int = 1, target_node: Int = 2, to_proc: Int = 3, to_thread: Int = 4, reply: Int = 5, code: Uint = 6, flags: Uint = 7,
    }
    binder_transaction_received "BinderTransactionReceivedFtraceEvent" = 51 { debug_id: Int = 1 }
    binder_set_priority "BinderSetPriorityFtraceEvent" = 52 { thread: Int = 2, old_prio: Uint = 3, new_prio: Uint = 4 }
    local_timer_entry "LocalTimerEntryFtraceEvent" = 559 { vector: Int = 1 }
    local_timer_exit "LocalTimerExitFtraceEvent" = 560 { vector: Int = 1 }
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
        cpu: Uint = 1, event: Nested = 2, lost_events: Uint = 3, previous_bundle_end_timestamp: Uint = 10
    }
    generic "GenericFtraceEvent" { event_name: Text = 1, field: Nested = 2 }
    generic_field "GenericFtraceEvent.Field" {
        name: Text = 1, str_value: Text = 3, int_value: Int = 4, uint_value: Uint = 5,
    }
}
