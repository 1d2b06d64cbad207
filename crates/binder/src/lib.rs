//! Android's two IPC stacks, binder and hwbinder, over a [`Driver`](binder_driver::Driver).
//!
//! Binder serialises arguments into one [`Parcel`], which the driver copies; hwbinder names the memory that they lie in
//! ([`HwParcel`]), and the driver copies from there. Everything else they share: a [`Process`] publishes objects
//! ([`Stub`], [`HwStub`]), holds [`Proxy`]s for those of others, and runs looper threads; a calling thread serves the calls
//! that come back to it.
//!
//! This crate has no clock and prints nothing. Which driver it runs over is its user's choice.

mod background;
pub mod echo;
mod error;
mod hwbinder;
mod looper;
pub mod manager;
mod node;
mod parcel;
mod process;
mod proxy;
mod requests;
mod sched;
mod serve;
mod thread;

use std::fmt;

pub use error::{Error, Status, exception, status};
pub use hwbinder::{BufferIndex, HwParcel, HwReader};
pub use node::{Call, HwStub, LeastPolicy, Local, NodeOptions, Service, Stub};
pub use parcel::{Parcel, ParcelReader};
pub use process::Process;
pub use proxy::{Binder, Proxy};
pub use thread::Reply;

/// One of the two stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// General IPC: arguments are serialised into one parcel.
    Binder,
    /// IPC with hardware services: arguments are sent from where they lie.
    Hwbinder,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binder => "binder",
            Self::Hwbinder => "hwbinder",
        })
    }
}
