//! What every IPC test needs: a driver that workers can open, a service manager, servers and
//! connections. Must not know what is measured over them.

mod device;
mod endpoint;
mod host;
pub mod latency;
mod probe;
mod server;
pub mod throughput;
pub mod traits;
pub mod workers;

pub use endpoint::Endpoint;
pub use host::Host;
pub use probe::SchedulingProbe;
pub use server::{Server, ServerJob, ServerReport, ServiceManagerJob};
