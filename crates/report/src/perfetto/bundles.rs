//! Kernel events in bundles for Perfetto, each with the events of one CPU. A bundle shows if events
//! before it were lost. Must not know what the events mean.
//!
//! The first bundle of a CPU that is complete from the recording's start says that no bundle came
//! before it (`previous_bundle_end_timestamp` is 0). Others do not contain the start of the CPU's
//! complete events, because Perfetto would discard all events before the latest of these times.

use std::collections::{BTreeMap, HashSet};
use std::io;

use roundtrip_perfetto::schema::{bundle, interned, interned_string, packet};
use roundtrip_perfetto::write::Message;
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Loss, Name, Trace};

use super::ftrace;
use super::packets::{Packets, Sequence};
use super::state::Coding;

/// The largest bundle, in bytes. A packet is in memory while it is written and read.
const BUNDLE_BYTES: usize = 64 << 10;

/// Events of one CPU that have not been written yet.
#[derive(Default)]
struct Pending {
    events: Message,
    /// Whether the CPU is complete from the recording's start on, until that is written.
    whole: bool,
    /// Whether events are missing before them.
    lost: bool,
    /// Later losses, in reverse order.
    losses: Vec<Loss>,
}

/// Writes all events, with the losses between them.
pub(super) fn write(packets: &mut Packets<'_>, trace: &Trace, coding: Coding) -> io::Result<()> {
    let mut pending: BTreeMap<u32, Pending> = BTreeMap::new();
    let begin_ns = trace.complete_from_ns.values().copied().min();
    for (&cpu, &from_ns) in &trace.complete_from_ns {
        let lost = trace.losses.iter().any(|loss| loss.cpu == cpu && loss.after_ns == 0);
        pending.entry(cpu).or_default().whole = Some(from_ns) == begin_ns && !lost;
    }
    // Events that were overwritten before the start of the recording are not a gap.
    let mut losses: Vec<&Loss> = trace.losses.iter().filter(|loss| loss.after_ns > 0).collect();
    losses.small_sort_by_key(|loss| std::cmp::Reverse(loss.before_ns));
    for loss in losses {
        pending.entry(loss.cpu).or_default().losses.push(*loss);
    }
    let mut symbols = HashSet::new();
    for event in trace.all() {
        let event = &event;
        if let Some(name) = ftrace::symbol(&event.body).filter(|&name| symbols.insert(name)) {
            symbol(packets, name, trace.names.text(name))?;
        }
        let cpu = pending.entry(event.cpu).or_default();
        while cpu.losses.last().is_some_and(|loss| loss.before_ns <= event.time_ns) {
            flush(packets, event.cpu, cpu)?;
            cpu.losses.pop();
            cpu.lost = true;
        }
        cpu.events.nested(bundle::event, |message| ftrace::event(message, trace, event, coding));
        if cpu.events.bytes().len() >= BUNDLE_BYTES {
            flush(packets, event.cpu, cpu)?;
        }
    }
    for (cpu, mut rest) in pending {
        flush(packets, cpu, &mut rest)?;
        if !rest.losses.is_empty() {
            rest.lost = true;
            flush(packets, cpu, &mut rest)?;
        }
    }
    Ok(())
}

fn flush(packets: &mut Packets<'_>, cpu: u32, pending: &mut Pending) -> io::Result<()> {
    if pending.events.bytes().is_empty() && !pending.lost {
        return Ok(());
    }
    packets.write(Sequence::Kernel, |message| {
        message.nested(packet::ftrace_events, |message| {
            message.uint(bundle::cpu, cpu);
            if std::mem::take(&mut pending.whole) {
                message.uint(bundle::previous_bundle_end_timestamp, 0u32);
            }
            if std::mem::take(&mut pending.lost) {
                message.uint(bundle::lost_events, 1u32);
            }
            message.append(&pending.events);
        });
    })?;
    pending.events.clear();
    Ok(())
}

/// Writes the name of a kernel function before the first event that refers to it.
fn symbol(packets: &mut Packets<'_>, name: Name, text: &str) -> io::Result<()> {
    packets.write(Sequence::Kernel, |message| {
        message.nested(packet::interned_data, |data| {
            data.nested(interned::kernel_symbols, |one| {
                one.uint(interned_string::iid, ftrace::symbol_id(name)).text(interned_string::str, text);
            });
        });
    })
}
