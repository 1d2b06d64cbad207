//! The words that plans, results, the drivers and explanations share: a fact has the same type and
//! the same name in a stored run, in the driver that it is about, and in an explanation. Must not
//! know how a call is made, measured or explained.

mod backend;
mod counters;
mod features;
mod inherit_by;
mod stack;

pub use backend::{Backend, Profile};
pub use counters::CallCounters;
pub use features::{Features, Language};
pub use inherit_by::InheritBy;
pub use stack::Stack;

/// The name of everything that has no row of its own in a table.
pub const OTHERS: &str = "others";
