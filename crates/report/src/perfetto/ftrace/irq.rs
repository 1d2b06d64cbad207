//! Interrupts, as Perfetto's messages.

use roundtrip_perfetto::schema::{
    event as ftrace, ipi_entry, ipi_exit, ipi_raise, irq_handler_entry, irq_handler_exit, softirq_entry,
    softirq_exit, softirq_raise,
};
use roundtrip_perfetto::write::Message;
use roundtrip_tracefs::{Body, Event, Name, Trace};

use super::generic::generic;

/// Interrupts of devices, of the CPU and between CPUs, and softirqs. Returns whether the event was
/// one.
pub(super) fn interrupts(message: &mut Message, trace: &Trace, event: &Event) -> bool {
    let text = |name: Name| trace.names.text(name);
    let softirq = |message: &mut Message, field, vec, vector: u32| {
        message.nested(field, |one| _ = one.uint(vec, vector));
    };
    match event.body {
        Body::IrqEntry { irq, name } => {
            _ = message.nested(ftrace::irq_handler_entry, |one| {
                one.int(irq_handler_entry::irq, irq).text(irq_handler_entry::name, text(name));
            })
        }
        Body::IrqExit { irq, handled } => {
            _ = message.nested(ftrace::irq_handler_exit, |one| {
                one.int(irq_handler_exit::irq, irq).int(irq_handler_exit::ret, handled);
            })
        }
        Body::SoftirqRaise { vector } => softirq(message, ftrace::softirq_raise, softirq_raise::vec, vector),
        Body::SoftirqEntry { vector } => softirq(message, ftrace::softirq_entry, softirq_entry::vec, vector),
        Body::SoftirqExit { vector } => softirq(message, ftrace::softirq_exit, softirq_exit::vec, vector),
        // Of x86's interrupt vectors, Perfetto only knows the timer. Our own tracks also show the
        // others.
        Body::VectorEntry { kind } if text(kind) == "local_timer" => {
            message.nested(ftrace::local_timer_entry, |_| {});
        }
        Body::VectorExit { kind } if text(kind) == "local_timer" => {
            message.nested(ftrace::local_timer_exit, |_| {});
        }
        Body::VectorEntry { kind } => generic(message, &format!("{}_entry", text(kind)), |_| {}),
        Body::VectorExit { kind } => generic(message, &format!("{}_exit", text(kind)), |_| {}),
        Body::IpiRaise { target_cpu, reason } => {
            _ = message.nested(ftrace::ipi_raise, |one| {
                if let Some(bit) = target_cpu.and_then(|cpu| 1u32.checked_shl(cpu)) {
                    one.uint(ipi_raise::target_cpus, bit);
                }
                one.text(ipi_raise::reason, text(reason));
            })
        }
        Body::IpiEntry { reason } => {
            message.nested(ftrace::ipi_entry, |one| _ = one.text(ipi_entry::reason, text(reason)));
        }
        Body::IpiExit { reason } => {
            message.nested(ftrace::ipi_exit, |one| _ = one.text(ipi_exit::reason, text(reason)));
        }
        _ => return false,
    };
    true
}
