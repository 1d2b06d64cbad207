//! Observes other programs through the kernel's trace events. Must not change anything about them,
//! nor know what delayed a call.

mod calls;
mod files;
mod flows;
mod following;
mod low_priority;
mod pools;
mod processes;
mod slow;
mod system_calls;
mod together;
mod watch;
mod writes;

pub use calls::{Classify, Round, run};
pub use system_calls::run as run_system_calls;
pub use writes::{Divide, Ended, run as run_writes};
