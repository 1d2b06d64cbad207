//! How blocks of calls are fitted into the time that a run may take: how many calls each makes, and
//! how many rounds of them there are. Must not know what a block does.

mod calls;
mod rounds;

pub(crate) use calls::Budget;
pub(crate) use rounds::{Fit, extra_ns, fit};
