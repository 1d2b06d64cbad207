//! Boots a kernel in QEMU, runs one static program on its binder driver, and brings back what it
//! wrote and how it ended: in seconds, without root, without KVM (with it where it works).
//!
//! [`Kernel`] is what is booted: a distribution's, or any bzImage, Image or vmlinux. [`Disk`] is a
//! scratch disk that it may have. [`Job`] is what runs there. [`run`] does it.
//! `guest-init` is the guest's first process, and [`wire`] what both sides agree on. Nothing here
//! knows what the program does.

mod apt;
mod arch;
pub mod archive;
mod disk;
mod folder;
mod job;
mod kernel;
mod machine;
pub mod mapped;
mod modules;
mod packaged;
mod qemu;
mod sys;
mod ubuntu;
mod unpack;
pub mod wire;

pub use arch::Arch;
pub use disk::Disk;
pub use job::{End, Job, outputs};
pub use kernel::{Kernel, Source};
pub use machine::run;
pub use packaged::Packaged;
pub use qemu::Clock;
