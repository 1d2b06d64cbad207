//! Synchronous writes with and without background load: the plan, the conditions, and the result.

mod condition;
mod plan;
mod result;

pub use condition::Condition;
pub use plan::{InterferencePlan, MAX_CALLS, MIN_CALLS, calls_in};
pub use result::{Beside, InterferenceResult, Measured, Pair};
