//! The binder driver's protocol, in bytes, and the drivers that speak it.
//!
//! [`Driver`] is an opened binder device. Commands go in ([`Commands`]), returns come out ([`Returns`]), and received
//! data is copied out of the process's mapped area ([`Received`]). The [`kernel`] backend is the kernel's driver, the [`emulated`] backend does
//! between ordinary processes what that one does; both stacks, all tests and all tools run over either.
//!
//! This crate knows no parcels, proxies or services: those are the `binder` crate's.

mod call;
mod command;
pub mod copy;
mod driver;
pub mod emulated;
pub mod kernel;
mod memory;
mod received;
mod returns;
mod sched;
pub mod sched_attr;
pub mod uapi;

pub use call::{Answer, call};
pub use command::{Command, Commands};
pub use driver::{Backend, Driver, Error, NodeInfo, Profile, raise_limit};
pub use received::{Content, Received};
pub use returns::{Return, Returns};
pub use rustix::io::Errno;
