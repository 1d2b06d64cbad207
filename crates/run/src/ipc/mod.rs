//! Plans and results of the IPC tests: one module for each test, and their common vocabulary.

mod backend;
mod driver;
pub mod latency;
mod mode;
pub mod observe;
mod stack;
pub mod throughput;
pub mod traits;
pub mod workers;

pub use backend::{Backend, Features, InheritBy, Language, Profile};
pub use driver::{AREA_BYTES, DevicePath, DriverChoice, DriverPlan};
pub use mode::Mode;
pub use stack::{Stack, stack};
