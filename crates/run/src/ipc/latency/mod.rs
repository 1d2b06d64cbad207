//! Latency against a deadline: the plan, the result, and the slow calls that are kept for
//! explanation.

mod halted;
mod plan;
mod result;
mod slow_calls;

pub use halted::Halted;
pub use plan::{
    Amount, HaltTrace, Inheritance, LatencyPlan, MAX_PAIRS, MAX_PAYLOAD_BYTES, MAX_SERVER_THREADS,
};
pub use result::{CallerResult, LatencyResult, PairResult, Response, Series, ThreadReport, Verdict};
pub use roundtrip_vocabulary::CallCounters;
pub use slow_calls::{CALLS, CallsOf, ExplainPlan, Explained, Miss, RecordedCalls, ThreadId, Trigger};
