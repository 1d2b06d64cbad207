//! Other programs' binder calls, system calls and synchronous writes, assembled from the kernel's
//! events as they arrive, live or recorded, in bounded memory. Must not know how events are
//! recorded, nor what a call or a write is used for.

pub mod calls;
mod lost;
pub mod system_calls;
mod unmatched;
pub mod writes;

/// A limit on the operations that a matcher tracks at the same time, which no machine reaches.
pub const MAX_IN_FLIGHT: usize = 100_000;
