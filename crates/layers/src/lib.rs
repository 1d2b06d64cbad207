//! Who had the time: cuts a slow round trip into parts that each have one owner and one state, and names what was behind
//! each. Works on recorded events, never live. Must not know how they were recorded, nor how a part is shown.

mod blame;
mod boundaries;
mod evidence;
mod explain;
mod explanation;
mod kernel_names;
mod partition;
mod round_trip;
pub mod storage;
mod system_calls;
mod timeline;
mod without;

pub use explain::explain;
pub use explanation::{
    Boundary, Cause, Explanation, Flag, Interrupt, Kind, Leg, Owner, Part, Softirq, State, Thread, Unknown,
    Waker, What,
};
pub use round_trip::{Counters, RoundTrip, Side};
pub use system_calls::SystemCall;
pub use timeline::Timeline;
pub use without::explain_without_events;
