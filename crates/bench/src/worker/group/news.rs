//! What workers report. Must not know how reports arrive.

use roundtrip_latency::Sample;
use roundtrip_stored::Json;

/// A worker of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub(super) usize);

/// An event of a worker.
#[derive(Debug)]
pub struct Event {
    /// The worker.
    pub worker: WorkerId,
    /// What happened.
    pub what: What,
}

/// What a worker reported.
#[derive(Debug)]
pub enum What {
    /// It is set up and waits for [`WorkerGroup::go`](super::WorkerGroup::go).
    Ready,
    /// A message of its job.
    Message(Json),
    /// Samples.
    Samples(Vec<Sample>),
    /// Its job is done.
    Done,
}
