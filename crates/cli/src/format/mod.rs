//! Output formats, one file each. A format turns plain data into text; it measures nothing and opens no file.

pub(crate) mod environment;
pub(crate) mod explanation;
pub(crate) mod explanation_json;
mod explanation_summary;
pub(crate) mod explanation_tracks;
pub(crate) mod floor;
pub(crate) mod ftrace_text;
pub(crate) mod google_benchmark;
pub(crate) mod interference;
pub(crate) mod latency;
pub(crate) mod latency_android;
pub(crate) mod latency_csv;
pub(crate) mod perfetto;
pub(crate) mod quantity;
pub(crate) mod run;
pub(crate) mod storage;
pub(crate) mod storage_files;
#[cfg(test)]
mod storage_fixture;
mod storage_rows;
mod storage_strace;
mod storage_study;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod throughput;
pub(crate) mod throughput_google;
pub(crate) mod trace_status;
pub(crate) mod traits;
pub(crate) mod workers;
