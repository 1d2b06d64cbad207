//! The files of a run, while it is measured and when it is complete.

pub mod place;
pub mod scratch;
