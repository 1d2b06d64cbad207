//! A recording as the kernel's text: calls of many clients and servers on eight CPUs, every
//! hundredth of them slow.

use std::io::Write;

/// Writes a recording of this many calls.
#[expect(clippy::too_many_lines, reason = "a call is easier to read as its lines in order")]
pub(crate) fn write(calls: u64, out: &mut dyn Write) {
    let mut time_us = 100_000_000;
    for call in 0..calls {
        let (pair, id) = (call % 40, 2 * call + 1);
        let (client, server) = (1000 + pair, 2000 + pair);
        let (cpu, other) = (pair % 8, (pair + 3) % 8);
        let took_us = if call % 100 == 99 { 3000 + call % 700 } else { 100 + call * 7919 % 900 };
        let (began_us, ended_us) = (time_us, time_us + took_us);
        let calls = format!("{:>16}-{client:<7} (   1000) [{cpu:03}] d..2.", format!("Render_{pair}"));
        let serves = format!("{:>16}-{server:<7} (   2000) [{other:03}] d..2.", format!("binder_{pair}"));
        let idle = |cpu: u64| format!("{:>16}-{:<7} (-------) [{cpu:03}] d..2.", "<idle>", 0);
        let at = |us: u64| format!(" {}.{:06}:", us / 1_000_000, us % 1_000_000);
        let next_client = format!("next_comm=Render_{pair} next_pid={client} next_prio=120");
        let next_server = format!("next_comm=binder_{pair} next_pid={server} next_prio=120");
        let leaves = |comm: &str, tid: u64, state: &str| {
            format!("sched_switch: prev_comm={comm} prev_pid={tid} prev_prio=120 prev_state={state} ==>")
        };
        let idles = |cpu: u64| format!("next_comm=swapper/{cpu} next_pid=0 next_prio=120");
        let woken = |how: &str, comm: &str, tid: u64, cpu: u64| {
            format!("{how}: comm={comm}_{pair} pid={tid} prio=120 target_cpu={cpu:03}")
        };
        let lines = [
            format!(
                "{calls}{} binder_transaction: transaction={id} dest_node={} dest_proc=2000 dest_thread=0 \
                 reply=0 flags=0x10 code=0x{:x}",
                at(began_us),
                pair + 5,
                pair % 7
            ),
            format!("{calls}{} {}", at(began_us + 2), woken("sched_waking", "binder", server, other)),
            format!("{calls}{} {}", at(began_us + 3), woken("sched_wakeup", "binder", server, other)),
            format!(
                "{calls}{} {} {}",
                at(began_us + 5),
                leaves(&format!("Render_{pair}"), client, "S"),
                idles(cpu)
            ),
            format!(
                "{}{} {} {next_server}",
                idle(other),
                at(began_us + 20),
                leaves(&format!("swapper/{other}"), 0, "R")
            ),
            format!("{serves}{} binder_transaction_received: transaction={id}", at(began_us + 25)),
            format!(
                "{serves}{} binder_transaction: transaction={} dest_node=0 dest_proc=1000 dest_thread={client} \
                 reply=1 flags=0x0 code=0x0",
                at(ended_us),
                id + 1
            ),
            format!("{serves}{} {}", at(ended_us + 2), woken("sched_waking", "Render", client, cpu)),
            format!("{serves}{} {}", at(ended_us + 3), woken("sched_wakeup", "Render", client, cpu)),
            format!(
                "{}{} {} {next_client}",
                idle(cpu),
                at(ended_us + 10),
                leaves(&format!("swapper/{cpu}"), 0, "R")
            ),
            format!("{calls}{} binder_transaction_received: transaction={}", at(ended_us + 15), id + 1),
            format!(
                "{serves}{} {} {}",
                at(ended_us + 17),
                leaves(&format!("binder_{pair}"), server, "S"),
                idles(other)
            ),
        ];
        for line in lines {
            writeln!(out, "{line}").expect("a recording is written");
        }
        time_us = ended_us + 40;
    }
}
