//! The tests that this crate carries out, from the outside. They are one program, because each
//! program would link the whole crate again.

mod baseline;
mod explain;
mod interference;
#[path = "../support/jobs.rs"]
mod jobs;
mod latency;
mod load;
mod storage;
mod throughput;
mod traits;
mod workers;
mod workers_test;
