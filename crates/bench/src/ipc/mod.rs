//! What every IPC test needs around it: a driver that workers can open, a service manager, servers and connections.
//! Must not know what is measured over them.

mod device;
mod endpoint;
pub mod latency;
mod mode;
mod probe;
mod server;
pub mod throughput;
pub mod traits;
pub mod workers;

pub use endpoint::{DevicePath, DriverChoice, DriverPlan, Endpoint, Host, Stack};
pub use mode::Mode;
pub use probe::SchedulingProbe;
pub use server::{Server, ServerJob, ServerReport, ServiceManagerJob};
