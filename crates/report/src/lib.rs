//! A run and its analysis by [`roundtrip_analysis`] as text, JSON and CSV, and in the formats of
//! Perfetto, the kernel's trace, Google Benchmark and Android's programs. The crate converts plain
//! data to text. It measures nothing and opens no file.
//!
//! [`run::text`] shows a whole run, [`run::first_page`] its short form. Each test has a module with
//! its own tables, in [`ipc`] or [`storage`]; CSV and Markdown have one form for all ([`figures`]).
//! [`explanation`] shows what delayed slow calls, [`live`] a running measurement, [`html`] a page,
//! [`perfetto`] a trace. All of them are built from [`text`]; [`text::inert`] makes foreign text
//! safe for a terminal.
//!
//! ```
//! use std::path::Path;
//!
//! use roundtrip_analysis::Analysed;
//! use roundtrip_analysis::slow_calls::{Kept, explain};
//! use roundtrip_report::explanation::{self, Shown};
//! use roundtrip_report::text::inert;
//! use roundtrip_report::text::look::Look;
//!
//! let directory = Path::new("../../fixtures/runs/x86_64-6.1-binder");
//! let run = roundtrip_run::Run::read_shown(directory, inert::line)?;
//!
//! // The machine, then a summary of what was measured.
//! assert!(roundtrip_report::run::first_page(&Analysed::bare(&run), Look::PLAIN).contains("Linux 6.1"));
//!
//! // What delayed the slow calls, in words.
//! let kept = Kept::of(&run).expect("it kept slow calls");
//! let explained = explain(&kept, directory, |_| true, Some(&inert::name))?;
//! print!("{}", explanation::text(&explained, &kept, Shown::default()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod comparison;
pub mod doctor;
pub mod environment;
mod error;
pub mod explanation;
pub mod figures;
pub mod ftrace_text;
pub mod gate;
pub mod google_benchmark;
pub mod histogram;
pub mod html;
pub mod ipc;
mod kinds;
pub mod live;
pub mod perfetto;
pub mod run;
pub mod storage;
mod summary;
pub mod terms;
pub mod text;
pub mod trace_status;

pub use error::Error;
