//! Fits blocks of calls into a run's time: how many calls each makes, and how many rounds there
//! are. Must not know what a block does.

mod calls;
mod rounds;

pub(crate) use calls::Budget;
pub(crate) use rounds::{Fit, extra_ns, fit};
