//! What the IPC tests are to do and what came of it: one module for each test, beside the words
//! that they share.

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
