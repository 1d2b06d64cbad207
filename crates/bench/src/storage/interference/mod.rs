//! Synchronous writes beside neighbours: the same writer alone and disturbed, in turn, so that what
//! a neighbour does to the application and to the device can be told from the machine's drift. Must
//! not know who asked, how a call's time is divided, nor how the result is shown.

mod choose;
mod limit;
mod means;
mod neighbour;
mod run;
mod setting;

pub use neighbour::NeighbourJob;
pub use run::run;
