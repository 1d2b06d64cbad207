//! The binder driver's protocol in bytes, and an interface to the kernel driver.
//!
//! [`Driver`] is an opened binder device. It consumes commands ([`Commands`]) and produces returns
//! ([`Returns`]). Received data is copied out of the process's mapped area ([`Received`],
//! [`RawBytes`]). [`kernel`] opens the kernel driver. The crate `binder-emulator` implements
//! another driver, which connects ordinary processes. Both stacks, all tests and all tools run over
//! either driver.
//!
//! This crate knows nothing about parcels, proxies or services. Those are in the crate `binder`.
//!
//! Commands are queued as the bytes that the driver reads, and can be decoded:
//!
//! ```
//! use roundtrip_binder_driver::uapi::TransactionData;
//! use roundtrip_binder_driver::{Command, Commands};
//!
//! let mut commands = Commands::default();
//! commands.push(Command::EnterLooper);
//! commands.push(Command::Transaction(TransactionData::new(1, b"ping")));
//!
//! let (first, length) = Command::parse(commands.pending()).expect("a whole command");
//! assert!(matches!(first, Command::EnterLooper));
//! let (second, _) = Command::parse(&commands.pending()[length..]).expect("a whole command");
//! assert!(matches!(second, Command::Transaction(data) if data.data_size == 4));
//! ```

mod call;
mod command;
pub mod copy;
mod driver;
mod error;
mod fork;
pub mod kernel;
mod memory;
mod raw_bytes;
mod received;
mod received_fds;
mod returns;
pub mod sched_attr;
pub mod uapi;

pub use call::{Answer, call};
pub use command::{Command, Commands};
pub use driver::{Driver, NodeInfo};
pub use error::{Error, raise_limit};
pub use fork::ForkGuard;
pub use memory::ReadableMemory;
pub use raw_bytes::RawBytes;
pub use received::Received;
pub use received_fds::ReceivedFds;
pub use returns::{Return, Returns};
pub use roundtrip_vocabulary::{Backend, Profile};
pub use rustix::io::Errno;
