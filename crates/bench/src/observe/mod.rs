//! Other people's programs, as the kernel's events show them. Must not change anything of theirs,
//! nor know what delayed a call.

mod calls;
mod files;
mod flows;
mod processes;
mod slow;
mod watch;
mod writes;

pub use calls::run;
pub use writes::{Divide, Ended, run as run_writes};
