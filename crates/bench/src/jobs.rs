//! All jobs of worker processes, one line each. Must not know how a job is done.

use crate::baseline::BaselineJob;
use crate::inject::InjectorJob;
use crate::ipc::latency::LatencyJob;
use crate::ipc::throughput::ThroughputJob;
use crate::ipc::traits::TraitsJob;
use crate::ipc::workers::WorkerJob;
use crate::ipc::{ServerJob, ServiceManagerJob};
use crate::load::HogJob;
use crate::storage::{BackgroundJob, WriterJob};
use crate::worker::Registered;

/// The jobs of all tests.
pub const JOBS: &[Registered] = &[
    Registered::of::<BaselineJob>(),
    Registered::of::<HogJob>(),
    Registered::of::<InjectorJob>(),
    Registered::of::<BackgroundJob>(),
    Registered::of::<ServiceManagerJob>(),
    Registered::of::<ServerJob>(),
    Registered::of::<LatencyJob>(),
    Registered::of::<ThroughputJob>(),
    Registered::of::<TraitsJob>(),
    Registered::of::<WorkerJob>(),
    Registered::of::<WriterJob>(),
];
