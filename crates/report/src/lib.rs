//! A run and its analysis by [`analysis`] as text, JSON and CSV, and in the formats of Perfetto,
//! the kernel's trace, Google Benchmark and Android's programs. There is one file for each format.
//! The crate converts plain data to text. It measures nothing and opens no file.
//!
//! [`run::text`] shows a whole run, [`run::first_page`] its short form. Each test has a module with
//! its own tables and CSV ([`latency`], [`throughput`], [`storage`], ...). [`inert`] makes foreign
//! text safe for a terminal.
//!
//! ```
//! use std::path::Path;
//!
//! use analysis::slow_calls::{Kept, explain};
//! use report::look::Look;
//! use report::run::Divided;
//! use report::{explanation, inert};
//!
//! let directory = Path::new("../../fixtures/runs/x86_64-6.1-binder");
//! let run = inert::run(&::run::Run::read(directory)?)?;
//!
//! // The machine, then a summary of what was measured.
//! assert!(report::run::first_page(&run, Divided::default(), Look::PLAIN).contains("Linux 6.1"));
//!
//! // What delayed the slow calls, in words.
//! let kept = Kept::of(&run).expect("it kept slow calls");
//! let explained = explain(&kept, directory, |_| true, Some(&inert::name))?;
//! print!("{}", explanation::text(&explained, &kept));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod baseline;
mod beside;
pub mod comparison;
pub mod csv;
pub mod doctor;
pub mod environment;
mod error;
pub mod explanation;
pub mod explanation_json;
pub mod explanation_rows;
mod explanation_summary;
pub mod explanation_tracks;
mod explanation_words;
pub mod figures;
pub mod ftrace_text;
pub mod gate;
pub mod google_benchmark;
pub mod histogram;
pub mod html;
pub mod inert;
pub mod interference;
pub mod latency;
pub mod latency_android;
pub mod latency_csv;
pub mod live;
pub mod live_calls;
pub mod live_view;
pub mod look;
mod markdown;
pub mod observed_calls;
pub mod observed_writes;
pub mod observed_writes_csv;
pub mod perfetto;
pub mod quantity;
pub mod recorded_writes;
pub mod run;
pub mod storage;
pub mod storage_files;
#[cfg(test)]
mod storage_fixture;
mod storage_rows;
mod storage_strace;
mod storage_study;
mod storage_words;
mod style;
pub mod summary;
pub mod table;
pub mod terms;
pub mod throughput;
pub mod throughput_google;
pub mod trace_status;
pub mod traits;
pub mod workers;

pub use error::Error;
