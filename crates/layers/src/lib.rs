//! What delayed a call or a write: divides a slow round trip into parts with one owner and one
//! state each, and names their causes. Works on recorded events, never live. The output is typed
//! and contains no text. Must not know how events were recorded, nor how a part is shown.
//!
//! [`explain`] takes the [`Timeline`] of a recording, and what the two programs know about the call
//! as a [`RoundTrip`]. Without a recording, [`explain_without_events`] returns what timestamps and
//! counters prove. [`storage`] does the same for synchronous writes.
//!
//! # Example
//!
//! A call of 41.7 ms, explained from a recording of a 6.1 kernel: the serving thread had slept.
//!
//! ```
//! use std::path::Path;
//!
//! use roundtrip_layers::{Kind, Owner, Part, RoundTrip, Side, Timeline, explain};
//!
//! let folder = Path::new("../../fixtures/runs/x86_64-6.1-binder/recording");
//! let trace = roundtrip_tracefs::Recording::open(folder)?.read(1)?;
//! let call = RoundTrip {
//!     start_ns: 6_088_747_477,
//!     received_ns: Some(6_089_352_795),
//!     replied_ns: Some(6_129_931_471),
//!     end_ns: 6_130_429_067,
//!     client: Side { pid: 96, tid: Some(102), ..Side::default() },
//!     server: Some(Side { pid: 94, tid: Some(97), ..Side::default() }),
//!     usual_ns: Some(742_911),
//!     ..RoundTrip::default()
//! };
//! let explanation = explain(&Timeline::new(&trace), &call);
//!
//! let cause = explanation.main().expect("there is always an answer");
//! assert_eq!((cause.kind, cause.owner, cause.excess_ns), (Kind::Sleep, Owner::Server, 40_121_511));
//! // The parts are contiguous and add up to the call.
//! let sum_ns: u64 = explanation.parts.iter().map(Part::duration_ns).sum();
//! assert_eq!(sum_ns, call.duration_ns());
//! # Ok::<(), roundtrip_tracefs::Error>(())
//! ```

mod begins;
mod blame;
mod boundaries;
mod evidence;
mod explain;
mod explanation;
mod frequency;
mod kernel_names;
mod moves;
mod partition;
mod parts;
mod pool;
pub mod reasons;
mod round_trip;
pub mod storage;
mod system_calls;
mod timeline;
mod why;
mod without;

pub use explain::explain;
pub use explanation::{
    Boundary, Cause, Explanation, Flag, Interrupt, Kind, Leg, Owner, Part, Softirq, State, Thread, Unknown,
    Waker, What,
};
pub use round_trip::{RoundTrip, Side};
pub use roundtrip_vocabulary::CallCounters;
pub use system_calls::SystemCall;
pub use timeline::{Basis, Timeline};
pub use without::explain_without_events;
