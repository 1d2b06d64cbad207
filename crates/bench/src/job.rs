//! Everything that a worker process can be asked to do: one line for each kind. Must not know how a job is done.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::floor::FloorJob;
use crate::inject::InjectorJob;
use crate::ipc::latency::LatencyJob;
use crate::ipc::throughput::ThroughputJob;
use crate::ipc::traits::TraitsJob;
use crate::ipc::workers::WorkerJob;
use crate::ipc::{ServerJob, ServiceManagerJob};
use crate::load::HogJob;
use crate::storage::{NeighbourJob, WriterJob};
use crate::worker::{Link, Work};

/// A worker's job, as it is sent to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// One side of a transport of the floor.
    Floor(FloorJob),
    /// A neighbour that uses a CPU.
    Hog(HogJob),
    /// What makes some calls slow on purpose.
    Injector(InjectorJob),
    /// A neighbour that raises interrupts, uses the file system or fills memory.
    Neighbour(NeighbourJob),
    /// The service manager of a context.
    ServiceManager(ServiceManagerJob),
    /// A server of the benchmark service.
    Server(ServerJob),
    /// The client of a pair in a latency measurement.
    Latency(LatencyJob),
    /// The client of a throughput measurement.
    Throughput(ThroughputJob),
    /// One side of the trials of the stacks.
    Traits(TraitsJob),
    /// One of many workers.
    Worker(WorkerJob),
    /// An application that writes synchronously.
    Writer(WriterJob),
}

impl Work for Job {
    fn run(self, link: &mut Link) -> Result<()> {
        match self {
            Job::Floor(job) => job.run(link),
            Job::Hog(job) => job.run(link),
            Job::Injector(job) => job.run(link),
            Job::Neighbour(job) => job.run(link),
            Job::ServiceManager(job) => job.run(link),
            Job::Server(job) => job.run(link),
            Job::Latency(job) => job.run(link),
            Job::Throughput(job) => job.run(link),
            Job::Traits(job) => job.run(link),
            Job::Worker(job) => job.run(link),
            Job::Writer(job) => job.run(link),
        }
    }
}
