//! What workers say, and who said it. Knows no worker.

use latency::Sample;
use serde_json::Value;

/// A worker of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub(super) usize);

/// A worker's news.
#[derive(Debug)]
pub struct Event {
    /// Whose.
    pub worker: WorkerId,
    /// What it was.
    pub what: What,
}

/// What a worker said.
#[derive(Debug)]
pub enum What {
    /// It has set itself up and waits for [`WorkerGroup::go`](super::WorkerGroup::go).
    Ready,
    /// A message of its job's.
    Message(Value),
    /// Samples.
    Samples(Vec<Sample>),
    /// Its job is done.
    Done,
}
