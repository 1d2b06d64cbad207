//! Interrupts: device interrupts, softirqs, interrupt vectors (x86), and inter-processor
//! interrupts.

use super::Reader;
use super::slots::{Bytes, Number, Text};
use crate::event::Body;
use crate::format::Format;
use crate::name::Names;

/// The softirq vectors in the order of [`Body::SoftirqRaise`].
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

pub(super) fn reader(format: &Format, names: &mut Names) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    Some(match (format.system.as_str(), format.name.as_str()) {
        ("irq", "irq_handler_entry") => {
            let (irq, name) = (number("irq")?, Text::of(format, "name")?);
            Box::new(move |r, t| Some(Body::IrqEntry { irq: irq.u32(r)?, name: name.name(r, t)? }))
        }
        ("irq", "irq_handler_exit") => {
            let (irq, handled) = (number("irq")?, number("ret")?);
            Box::new(move |r, _| Some(Body::IrqExit { irq: irq.u32(r)?, handled: handled.u64(r)? != 0 }))
        }
        ("irq", "softirq_raise") => softirq(format, |vector| Body::SoftirqRaise { vector })?,
        ("irq", "softirq_entry") => softirq(format, |vector| Body::SoftirqEntry { vector })?,
        ("irq", "softirq_exit") => softirq(format, |vector| Body::SoftirqExit { vector })?,
        ("irq_vectors", name) if number("vector").is_some() => {
            if let Some(kind) = name.strip_suffix("_entry") {
                let kind = names.intern(kind);
                Box::new(move |_, _| Some(Body::VectorEntry { kind }))
            } else {
                let kind = names.intern(name.strip_suffix("_exit")?);
                Box::new(move |_, _| Some(Body::VectorExit { kind }))
            }
        }
        ("ipi", name) => between_processors(format, name)?,
        _ => return None,
    })
}

/// An event that only has the softirq vector.
fn softirq(format: &Format, body: fn(u32) -> Body) -> Option<Reader> {
    let (vector, table) = (Number::of(format, "vec")?, softirqs(format));
    Some(Box::new(move |r, _| {
        let vector = vector.u32(r)?;
        Some(body(table.iter().find(|(kernels, _)| *kernels == vector).map_or(vector, |&(_, ours)| ours)))
    }))
}

/// An inter-processor interrupt, raised or handled.
fn between_processors(format: &Format, event: &str) -> Option<Reader> {
    let number = |name| Number::of(format, name);
    Some(match event {
        "ipi_raise" => {
            let (targets, reason) = (Bytes::of(format, "target_cpus")?, number("reason")?);
            Box::new(move |r, t| {
                Some(Body::IpiRaise {
                    target_cpu: only_bit(targets.get(r)?),
                    reason: t.address(reason.u64(r)?),
                })
            })
        }
        "ipi_send_cpu" => {
            let (cpu, reason) = (number("cpu")?, Callback::of(format)?);
            Box::new(move |r, t| {
                Some(Body::IpiRaise { target_cpu: Some(cpu.u32(r)?), reason: t.address(reason.address(r)?) })
            })
        }
        "ipi_send_cpumask" => {
            let (targets, reason) = (Bytes::of(format, "cpumask")?, Callback::of(format)?);
            Box::new(move |r, t| {
                Some(Body::IpiRaise {
                    target_cpu: only_bit(targets.get(r)?),
                    reason: t.address(reason.address(r)?),
                })
            })
        }
        "ipi_entry" => {
            let reason = number("reason")?;
            Box::new(move |r, t| Some(Body::IpiEntry { reason: t.address(reason.u64(r)?) }))
        }
        "ipi_exit" => {
            let reason = number("reason")?;
            Box::new(move |r, t| Some(Body::IpiExit { reason: t.address(reason.u64(r)?) }))
        }
        _ => return None,
    })
}

/// Pairs of the recording kernel's softirq number and ours, where they differ. The print format
/// maps the kernel's numbers to names. No kernel so far differs.
fn softirqs(format: &Format) -> Vec<(u32, u32)> {
    let symbols = format.symbols("vec").into_iter();
    let both = symbols.filter_map(|(kernels, name)| {
        let ours = SOFTIRQS.iter().position(|known| *known == name)?;
        Some((u32::try_from(kernels).ok()?, u32::try_from(ours).ok()?))
    });
    both.filter(|(kernels, ours)| kernels != ours).collect()
}

/// Why another processor is interrupted: the function to run there or, if unknown, the caller.
struct Callback {
    callback: Number,
    callsite: Number,
}

impl Callback {
    fn of(format: &Format) -> Option<Self> {
        Some(Self { callback: Number::of(format, "callback")?, callsite: Number::of(format, "callsite")? })
    }

    fn address(&self, record: &[u8]) -> Option<u64> {
        Some(match self.callback.u64(record)? {
            0 => self.callsite.u64(record)?,
            callback => callback,
        })
    }
}

/// The index of the only bit that is set.
fn only_bit(mask: &[u8]) -> Option<u32> {
    let mut set = mask.iter().enumerate().filter(|(_, byte)| **byte != 0);
    let (at, byte) = set.next()?;
    (set.next().is_none() && byte.is_power_of_two())
        .then(|| u32::try_from(at).ok().map(|at| at * 8 + byte.trailing_zeros()))?
}
