//! Latency against a deadline: the plan, the result, and the slow calls that are kept for
//! explanation.

mod plan;
mod result;
mod slow_calls;

pub use plan::{
    Amount, HaltTrace, Inheritance, LatencyPlan, MAX_PAIRS, MAX_PAYLOAD_BYTES, MAX_SERVER_THREADS,
};
pub use result::{CallerResult, LatencyResult, PairResult, Response, Series, ThreadReport, Verdict};
pub use slow_calls::{
    CALLS, CallCounters, CallsOf, ExplainPlan, Explained, Miss, RecordedCalls, ThreadId, Trigger,
};
