//! Android's two IPC stacks, binder and hwbinder, over a
//! [`Driver`](roundtrip_binder_driver::Driver).
//!
//! Binder serialises arguments into one [`Parcel`], which the driver copies. Hwbinder lists the
//! memory that contains the arguments ([`HwParcel`]), and the driver copies it from there. The rest
//! is shared: a [`Process`] publishes objects ([`Stub`], [`HwStub`]), holds a [`Proxy`] for each
//! remote object, and runs looper threads. A thread that waits for a reply serves nested calls.
//!
//! An echo service and its client, over either driver:
//!
//! ```
//! use std::sync::Arc;
//! use roundtrip_binder::{Call, Parcel, ParcelReader, Process, Service, Status, Stub};
//! use roundtrip_binder_driver::{Driver, Profile};
//! use roundtrip_binder_emulator::{Context, Emulated};
//!
//! struct Echo;
//! impl Stub for Echo {
//!     fn descriptor(&self) -> &str {
//!         "example.IEcho"
//!     }
//!     fn on_transact(&self, call: &Call, data: &mut ParcelReader<'_>, reply: &mut Parcel) -> Result<(), Status> {
//!         data.check_interface("example.IEcho")?;
//!         if call.code != 1 {
//!             return Err(Status::UNKNOWN_TRANSACTION);
//!         }
//!         reply.write_no_exception();
//!         Ok(reply.write_string16(&data.read_string16()?)?)
//!     }
//! }
//!
//! fn serve(driver: Arc<dyn Driver>) -> Result<Arc<Process>, roundtrip_binder::Error> {
//!     let server = Process::new(driver);
//!     server.become_context_manager(Service::binder(Echo))?;
//!     server.start_looper()?;
//!     Ok(server)
//! }
//!
//! fn ask(driver: Arc<dyn Driver>, text: &str) -> Result<String, roundtrip_binder::Error> {
//!     let client = Process::new(driver);
//!     let echo = client.context_manager();
//!     let reply = echo.call(1, |parcel| {
//!         parcel.write_interface_token("example.IEcho")?;
//!         parcel.write_string16(text)
//!     })?;
//!     let mut reader = reply.reader()?;
//!     reader.read_exception()?;
//!     Ok(reader.read_string16()?)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::create(Profile::Ack)?;
//! let server = serve(Arc::new(Emulated::join(context.address(), 1 << 20)?))?;
//! assert_eq!(ask(Arc::new(Emulated::join(context.address(), 1 << 20)?), "hello")?, "hello");
//! server.stop();
//! # Ok(())
//! # }
//! ```
//!
//! Over the kernel driver only the argument changes:
//! `serve(Arc::new(Kernel::open("/dev/binder", 1 << 20)?))` in one process, and `ask` in another.
//! The kernel driver does not let a process call itself by handle 0.
//!
//! This crate reads no clock and prints nothing. The caller chooses the driver.
#![forbid(unsafe_code)]

mod background;
mod calls;
mod connection;
mod control;
mod copies;
mod death;
mod descriptors;
mod dialect;
mod error;
mod frozen;
mod handles;
mod hwbinder;
mod looper;
pub mod manager;
mod nodes;
mod notices;
mod objects;
mod options;
mod outgoing;
mod parcel;
mod polling;
mod pool;
mod process;
mod proxy;
mod publish;
mod received;
mod references;
mod requests;
mod sched;
mod serve;
mod service;
mod thread;
mod weak;
mod work_source;

pub use calls::Reply;
pub use dialect::{Dialect, Stability};
pub use error::{Error, Status, exception, status};
pub use hwbinder::{BufferIndex, HwParcel, HwReader, NativeHandle};
pub use notices::{DeathLink, FrozenLink};
pub use objects::Binder;
pub use options::{LeastPolicy, NodeOptions};
pub use parcel::{InterfaceToken, Parcel, ParcelReader};
pub use process::{Local, Process, Proxy};
pub use proxy::CallFlags;
pub use roundtrip_binder_driver::RawBytes;
pub use roundtrip_vocabulary::Stack;
pub use service::{Call, HwStub, Service, Stub};
pub use weak::WeakProxy;
pub use work_source::WorkSource;
