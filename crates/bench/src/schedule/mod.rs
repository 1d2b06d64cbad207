//! Fits blocks of calls into a run's time: how many calls each makes, and how many rounds there
//! are. Must not know what a block does.

mod calls;
mod pace;
mod rounds;
pub(crate) mod shuffle;

pub(crate) use calls::Budget;
pub(crate) use pace::{Clock, Pace, Part, Rate};
pub(crate) use rounds::{Fit, extra_ns, fit};
