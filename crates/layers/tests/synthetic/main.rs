//! Writes in synthetic recordings. They cover what real recordings contain too rarely, or only on
//! some kernels.

mod buses;
mod flushes;
mod polled;
mod ring;
mod schedules;
mod waits;
mod woken;
mod written;

use roundtrip_layers::storage::{Begin, Controller, Devices, End, Layers, Write, Writes};
use written::{Is, Written};

use Is::{Int, Long, Text};

const DISK: u32 = 8 << 20;
const PARTITION: u32 = DISK | 3;
const WRITER: u32 = 70;
const WRITE: Write = Write { start_ns: 1_000, end_ns: 9_000, tid: WRITER };

const QUEUE: &str = "block/block_bio_queue";
const ISSUE: &str = "block/block_rq_issue";
const COMPLETE: &str = "block/block_rq_complete";

fn devices(names: &[&str], interrupts: &[&str], block_bytes: u32) -> Devices {
    let [names, interrupts] = [names, interrupts].map(|all| all.iter().map(|name| (*name).into()).collect());
    let controller = Controller { dev: DISK, names, paths: Vec::new(), interrupts, block_bytes };
    Devices {
        leaves: vec![DISK],
        interrupts: controller.interrupts.clone(),
        controllers: vec![controller],
        partitions: vec![(PARTITION, DISK)],
    }
}

fn layers(written: &mut Written, devices: Devices) -> Layers {
    layers_of(written, devices, WRITE)
}

fn layers_of(written: &mut Written, devices: Devices, write: Write) -> Layers {
    let trace = written.read();
    let layers = Writes::new(&trace, devices).layers(write);
    let sum: u64 = layers.pieces.iter().map(|piece| piece.end_ns - piece.begin_ns).sum();
    assert_eq!(sum, write.end_ns - write.start_ns);
    layers
}

/// A request's first sector, its times at the device, and the events that mark them.
type Found = (u64, Vec<(u64, u64)>, Begin, End);

fn found(layers: &Layers) -> Vec<Found> {
    let requests = layers.requests.iter();
    requests.map(|request| (request.sector, request.device.clone(), request.begin, request.end)).collect()
}

fn switch(written: &mut Written, time_ns: u64, cpu: u32, from: (u32, u64), next: u32) {
    switch_to(written, time_ns, cpu, from, (next, "b"));
}

fn switch_to(
    written: &mut Written,
    time_ns: u64,
    cpu: u32,
    (prev, state): (u32, u64),
    (next, name): (u32, &'static str),
) {
    let fields = [
        ("prev_comm", Text("a")),
        ("prev_pid", Int(prev)),
        ("prev_prio", Int(120)),
        ("prev_state", Long(state)),
        ("next_comm", Text(name)),
        ("next_pid", Int(next)),
        ("next_prio", Int(120)),
    ];
    written.event(time_ns, cpu, prev, "sched/sched_switch", &fields);
}

fn wake(written: &mut Written, time_ns: u64, cpu: u32, by: u32, woken: u32) {
    let fields = [("comm", Text("c")), ("pid", Int(woken)), ("prio", Int(120)), ("target_cpu", Int(0))];
    written.event(time_ns, cpu, by, "sched/sched_waking", &fields);
}

/// The writer's system call, from 1,010 to 8,900.
fn system_call(written: &mut Written) {
    written.event(1_010, 0, WRITER, "syscalls/sys_enter_write", &[("__syscall_nr", Int(1)), ("fd", Int(3))]);
    written.event(8_900, 0, WRITER, "syscalls/sys_exit_write", &[("__syscall_nr", Int(1)), ("ret", Long(0))]);
}
