//! Each IPC test in its own tables and files.

pub mod baseline;
pub mod latency;
pub mod latency_android;
pub mod latency_csv;
pub mod observed_calls;
pub mod throughput;
pub mod throughput_google;
pub mod traits;
pub mod workers;
