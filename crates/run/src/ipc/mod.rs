//! Plans and results of the IPC tests: one module for each test, and their common vocabulary.

mod driver;
pub mod latency;
mod mode;
pub mod observe;
mod stack;
pub mod throughput;
pub mod traits;
pub mod workers;

pub use driver::{AREA_BYTES, DevicePath, DriverChoice, DriverPlan};
pub use mode::Mode;
pub use roundtrip_vocabulary::{Backend, Features, InheritBy, Language, Profile, Stack};
pub use stack::stack;
