//! Other programs' binder transactions, from the driver's events in time order: which thread called
//! which, when the server received the request, and when the client received the reply.
//!
//! # Example
//!
//! The calls in a recording of a 6.1 kernel:
//!
//! ```
//! use std::path::Path;
//!
//! use roundtrip_observed::calls::{Matcher, Observed};
//!
//! let folder = Path::new("../../fixtures/runs/x86_64-6.1-binder/recording");
//! let trace = roundtrip_tracefs::Recording::open(folder)?.read(1)?;
//! let mut calls = Vec::new();
//! let mut matcher = Matcher::new(1000);
//! for event in &trace.events {
//!     matcher.add(event, &mut |observed| {
//!         if let Observed::Call(call) = observed {
//!             calls.push(call);
//!         }
//!     });
//! }
//! assert!(calls.len() > 10);
//! // The three legs follow each other.
//! for call in &calls {
//!     assert!(call.sent.start_ns <= call.received_ns && call.received_ns <= call.replied_ns);
//!     assert!(call.replied_ns <= call.end_ns);
//! }
//! # Ok::<(), roundtrip_tracefs::Error>(())
//! ```

mod matcher;
mod observed;

pub use matcher::{DEAD_REPLY, FAILURES, FROZEN_REPLY, Matcher, Unmatched};
pub use observed::{Call, Failed, Observed, Oneway, Sent, TF_ONE_WAY};
