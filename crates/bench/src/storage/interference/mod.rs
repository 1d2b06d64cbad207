//! Synchronous writes with and without background load: the same writer alternates between both, so
//! that the effect of the load on the application and on the device can be distinguished from the
//! machine's drift. Must not know who requested it, how a call's time is divided, nor how the
//! result is shown.

mod background;
mod choose;
mod disk;
mod ended;
mod limit;
mod offered;
mod recipe;
mod run;
mod setting;

pub use background::BackgroundJob;
pub use run::run;

/// What a killed run leaves.
pub(crate) mod left_behind {
    pub(crate) use super::limit::{groups, remove_groups};
    pub(crate) use super::setting::{changed, restored};
}
