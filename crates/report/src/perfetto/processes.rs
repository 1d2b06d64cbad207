//! The start of a trace file: the clock, the system, and threads with their processes and names.
//! Must not know events, except for the names in them.

use std::io;

use roundtrip_perfetto::schema::{
    clock, clock_snapshot, packet, process, process_tree, system_info, thread, utsname,
};
use roundtrip_tracefs::Trace;

use super::packets::{BOOTTIME, Packets, Sequence};
use super::state::Coding;
use super::tracks;

/// Declares CLOCK_BOOTTIME as the trace's clock.
pub(super) fn clock(packets: &mut Packets<'_>, begin_ns: u64) -> io::Result<()> {
    packets.write(Sequence::Kernel, |message| {
        message.uint(packet::timestamp, begin_ns).nested(packet::clock_snapshot, |snapshot| {
            snapshot
                .nested(clock_snapshot::clocks, |one| {
                    one.uint(clock::clock_id, BOOTTIME).uint(clock::timestamp, begin_ns);
                })
                .int(clock_snapshot::primary_trace_clock, BOOTTIME);
        });
    })
}

/// Declares the kernel and the architecture, if known. Perfetto needs them to interpret states and
/// system calls.
pub(super) fn system(
    packets: &mut Packets<'_>,
    begin_ns: u64,
    release: &str,
    machine: &str,
) -> io::Result<()> {
    packets.write(Sequence::Kernel, |message| {
        message.uint(packet::timestamp, begin_ns).nested(packet::system_info, |info| {
            info.nested(system_info::utsname, |names| {
                names.text(utsname::sysname, "Linux");
                if Coding::of(release) == Coding::Modern {
                    names.text(utsname::release, release);
                }
                if !machine.is_empty() {
                    names.text(utsname::machine, machine);
                }
            });
        });
    })
}

/// Declares the processes of threads, and their names.
pub(super) fn tree(packets: &mut Packets<'_>, begin_ns: u64, trace: &Trace) -> io::Result<()> {
    let threads = trace.threads();
    let of_process = |pid: u32| Some(threads.process_name(pid)).filter(|name| !name.is_empty());
    let mut processes: Vec<u32> = trace.processes.values().copied().filter(|&pid| pid != 0).collect();
    processes.sort_unstable();
    processes.dedup();
    // Perfetto treats a process's name as a command line, and shows only its first word.
    let (blank, plain): (Vec<u32>, Vec<u32>) =
        processes.into_iter().partition(|&pid| of_process(pid).is_some_and(|name| name.contains(' ')));
    packets.write(Sequence::Kernel, |message| {
        message.uint(packet::timestamp, begin_ns).nested(packet::process_tree, |tree| {
            for &pid in &plain {
                tree.nested(process_tree::processes, |one| {
                    one.int(process::pid, pid);
                    // A process gets the name of its main thread, because its command line is not
                    // recorded.
                    if let Some(name) = of_process(pid) {
                        one.text(process::cmdline, name).uint(process::cmdline_is_comm, 1u32);
                    }
                });
            }
            for (&tid, &pid) in trace.processes.iter().filter(|&(&tid, &pid)| tid != 0 && pid != 0) {
                tree.nested(process_tree::threads, |one| {
                    one.int(thread::tid, tid).int(thread::tgid, pid);
                    match threads.name(tid) {
                        "" => {}
                        name => _ = one.text(thread::name, name),
                    }
                });
            }
        });
    })?;
    blank.into_iter().try_for_each(|pid| tracks::process(packets, pid, of_process(pid)))
}
