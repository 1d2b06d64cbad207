//! Other people's programs, as the kernel's events show them. Must not change anything of theirs,
//! nor know what delayed a call.

mod calls;
mod flows;
mod processes;
mod slow;

pub use calls::run;
