//! The context in which an event was recorded: the thread itself, or an interrupt on top of it.

use serde::{Deserialize, Serialize};

/// The context in which an event was recorded, from its `common_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EventContext {
    /// The recording does not contain it.
    #[default]
    Unknown,
    /// The current thread itself.
    Thread,
    /// A softirq on top of it.
    Softirq,
    /// A hard interrupt on top of it.
    Interrupt,
}

impl EventContext {
    /// The kernel's bits for a hard interrupt and one that cannot be masked, and for a softirq
    /// (`TRACE_FLAG_*` in its `trace_events.h`).
    const INTERRUPT: u32 = 0x48;
    const SOFTIRQ: u32 = 0x10;

    /// The context in an event's `common_flags`.
    #[must_use]
    pub fn of_flags(flags: u32) -> Self {
        match flags {
            _ if flags & Self::INTERRUPT != 0 => Self::Interrupt,
            _ if flags & Self::SOFTIRQ != 0 => Self::Softirq,
            _ => Self::Thread,
        }
    }
}
