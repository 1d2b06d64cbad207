//! What Roundtrip measures and how: worker processes, scheduling, the environment, run directories,
//! and the tests themselves. A plan goes in, a result comes out, and a callback reports progress.
//! Nothing here prints or reads arguments.

pub mod baseline;
pub mod clock;
mod conditions;
pub mod directory;
pub mod environment;
pub mod error;
mod guard;
pub mod inject;
pub mod interleave;
pub mod ipc;
mod jobs;
pub mod kernel;
pub mod left_behind;
pub mod load;
pub mod observe;
mod progress;
mod record;
pub mod recorder;
pub mod sched;
mod schedule;
pub mod storage;
pub mod survey;
pub mod worker;

pub use error::{Error, FileFault, NotHere, Result};
pub use jobs::JOBS;
pub use progress::Progress;
pub use record::record;
