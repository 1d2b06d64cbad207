//! Explanations as JSON: one versioned object with all parts of all slow calls, and the number of
//! calls that were not kept. Pure: explanations in, text out.

use roundtrip_layers::reasons::Stop;
use roundtrip_layers::{
    Boundary, Cause, Explanation, Flag, Interrupt, Kind, Owner, Part, State, Thread, Waker,
};
use serde::Serialize;

mod reasons;

pub(crate) use reasons::{KindJson, RowJson};

use crate::Error;
use crate::explanation::sentence::answer;
use crate::explanation::words::{leg, softirq_name, system_call, unknown, what};
use crate::explanation::{off_letter, summary, without};
use crate::storage::{recorded_writes, slow_writes};
use roundtrip_analysis::Analysed;
use roundtrip_analysis::recorded_writes::RecordedWrites;
use roundtrip_analysis::slow_calls::{Explained, Kept};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    /// How many slow calls exceeded the limit on kept calls.
    over_limit: u64,
    /// How many slow calls came before there were others to compare them with.
    before_comparison: u64,
    /// What delayed all slow calls that a recording shows, the most time lost first.
    causes: Vec<RowJson>,
    /// What would be left without each of the main ones.
    without: Vec<without::Json>,
    slow_calls: Vec<SlowCall<'a>>,
    /// Present only for another tool's recording that shows writes, and for runs of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes: Option<Writes<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Writes<'a> {
    Recorded(recorded_writes::Json<'a>),
    Run(slow_writes::Json),
}

#[derive(Serialize)]
struct SlowCall<'a> {
    number: usize,
    what: &'a str,
    latency_ns: u64,
    deadline_ns: u64,
    usual_ns: Option<u64>,
    snapshot: Option<u32>,
    without_events: Option<&'a str>,
    explanation: ExplanationJson<'a>,
}

/// An [`Explanation`], with the answer in words.
#[derive(Serialize)]
struct ExplanationJson<'a> {
    start_ns: u64,
    request_ns: u64,
    request_by: Boundary,
    reply_ns: u64,
    reply_by: Boundary,
    end_ns: u64,
    client: &'a Thread,
    server: Option<&'a Thread>,
    parts: Vec<PartJson<'a>>,
    flags: &'a [Flag],
    delay_ns: u64,
    reasons: Vec<KindJson<'a>>,
    causes: Vec<CauseJson<'a>>,
    verdict: String,
}

impl<'a> From<&'a Explanation> for ExplanationJson<'a> {
    fn from(of: &'a Explanation) -> Self {
        Self {
            start_ns: of.start_ns,
            request_ns: of.request_ns,
            request_by: of.request_by,
            reply_ns: of.reply_ns,
            reply_by: of.reply_by,
            end_ns: of.end_ns,
            client: &of.client,
            server: of.server.as_ref(),
            parts: of.parts.iter().map(PartJson::from).collect(),
            flags: &of.flags,
            delay_ns: of.reasons.delay_ns(),
            reasons: of.reasons.kinds.iter().map(KindJson::from).collect(),
            causes: of.causes.iter().map(CauseJson::from).collect(),
            verdict: answer(of),
        }
    }
}

#[derive(Serialize)]
struct PartJson<'a> {
    begin_ns: u64,
    end_ns: u64,
    owner: Owner,
    thread: Option<&'a Thread>,
    cpu: Option<u32>,
    #[serde(flatten)]
    state: StateJson<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    because: Vec<Self>,
}

impl<'a> From<&'a Part> for PartJson<'a> {
    fn from(part: &'a Part) -> Self {
        Self {
            begin_ns: part.begin_ns,
            end_ns: part.end_ns,
            owner: part.owner,
            thread: part.thread.as_ref(),
            cpu: part.cpu,
            state: StateJson::from(&part.state),
            because: part.because.iter().map(PartJson::from).collect(),
        }
    }
}

/// A [`State`]. `other` is the other thread, because the part has its own thread.
#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum StateJson<'a> {
    User,
    Running,
    SystemCall {
        name: String,
    },
    Spinning,
    Stolen {
        #[serde(flatten)]
        interrupt: InterruptJson<'a>,
    },
    WakeUpPending,
    IdleExit,
    HandOver {
        other: &'a Thread,
    },
    Behind {
        other: &'a Thread,
    },
    Preempted {
        other: &'a Thread,
    },
    Blocked {
        letter: &'static str,
        system_call: Option<String>,
        function: Option<&'a str>,
        io_wait: bool,
        waker: WakerJson<'a>,
    },
    Stopped {
        how: Stop,
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a Thread>,
        waker: WakerJson<'a>,
    },
    RunnableOnIdle,
    Throttled,
    Gap,
    Leg {
        name: &'static str,
    },
    Unknown {
        reason: String,
    },
}

impl<'a> From<&'a State> for StateJson<'a> {
    fn from(state: &'a State) -> Self {
        match state {
            State::User => Self::User,
            State::Running => Self::Running,
            State::SystemCall { call } => Self::SystemCall { name: system_call(*call) },
            State::Spinning => Self::Spinning,
            State::Stolen { interrupt } => Self::Stolen { interrupt: interrupt.into() },
            State::WakeUpPending => Self::WakeUpPending,
            State::IdleExit { .. } => Self::IdleExit,
            State::HandOver { thread } => Self::HandOver { other: thread },
            State::Behind { thread } => Self::Behind { other: thread },
            State::Preempted { thread } => Self::Preempted { other: thread },
            State::Blocked { off, system_call: call, function, waker, io_wait } => Self::Blocked {
                letter: off_letter(*off),
                system_call: call.map(system_call),
                function: function.as_deref(),
                io_wait: *io_wait,
                waker: waker.into(),
            },
            State::Stopped { how, by, waker } => {
                Self::Stopped { how: *how, by: by.as_ref(), waker: waker.into() }
            }
            State::RunnableOnIdle => Self::RunnableOnIdle,
            State::Throttled => Self::Throttled,
            State::Gap => Self::Gap,
            State::Leg { leg: of } => Self::Leg { name: leg(*of) },
            State::Unknown { reason } => Self::Unknown { reason: unknown(reason) },
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "interrupt", rename_all = "snake_case")]
enum InterruptJson<'a> {
    Timer,
    Device { irq: u32, name: &'a str },
    Softirq { name: String },
    Vector { name: &'a str },
    Unnamed,
}

impl<'a> From<&'a Interrupt> for InterruptJson<'a> {
    fn from(interrupt: &'a Interrupt) -> Self {
        match interrupt {
            Interrupt::Timer => Self::Timer,
            Interrupt::Device { irq, name } => Self::Device { irq: *irq, name },
            Interrupt::Softirq(softirq) => Self::Softirq { name: softirq_name(*softirq) },
            Interrupt::Vector { name } => Self::Vector { name },
            Interrupt::Unnamed => Self::Unnamed,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
enum WakerJson<'a> {
    Thread { thread: &'a Thread },
    Interrupt { interrupt: InterruptJson<'a>, completed_io: bool },
    OtherCpu,
    Unknown,
}

impl<'a> From<&'a Waker> for WakerJson<'a> {
    fn from(waker: &'a Waker) -> Self {
        match waker {
            Waker::Thread { thread } => Self::Thread { thread },
            Waker::Interrupt { interrupt, completed_io } => {
                Self::Interrupt { interrupt: interrupt.into(), completed_io: *completed_io }
            }
            Waker::OtherCpu => Self::OtherCpu,
            Waker::Unknown => Self::Unknown,
        }
    }
}

/// A [`Cause`], with its name.
#[derive(Serialize)]
struct CauseJson<'a> {
    kind: Kind,
    excess_ns: u64,
    owner: Owner,
    thread: Option<&'a Thread>,
    name: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    via: &'a [Thread],
    cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
}

impl<'a> From<&'a Cause> for CauseJson<'a> {
    fn from(cause: &'a Cause) -> Self {
        Self {
            kind: cause.kind,
            excess_ns: cause.excess_ns,
            owner: cause.owner,
            thread: cause.thread.as_ref(),
            name: cause.what.as_ref().map(what),
            via: &cause.via,
            cpu: cause.cpu,
            function: cause.function.as_deref(),
        }
    }
}

/// The JSON as one line. Contains all slow writes of a recording, or only the one with this number.
///
/// # Errors
/// If the explanations cannot be represented as JSON.
pub fn json(
    explained: &[Explained],
    kept: &Kept,
    writes: Option<(&RecordedWrites, Option<usize>)>,
) -> Result<String, Error> {
    let slow_calls = explained.iter().map(|one| SlowCall {
        number: one.call.number,
        what: &one.call.what,
        latency_ns: one.explanation.duration_ns(),
        deadline_ns: one.deadline_ns,
        usual_ns: one.call.trip.usual_ns,
        snapshot: one.call.snapshot,
        without_events: one.without_events.as_deref(),
        explanation: (&one.explanation).into(),
    });
    let document = Document {
        schema: "roundtrip.explanation",
        version: 1,
        over_limit: kept.over_limit,
        before_comparison: kept.before_comparison,
        causes: summary::across(explained, kept).rows().into_iter().map(RowJson::from).collect(),
        without: summary::left(explained, kept).iter().map(without::Json::from).collect(),
        slow_calls: slow_calls.collect(),
        writes: writes.map(|(writes, only)| Writes::Recorded(recorded_writes::Json::of(writes, only))),
    };
    Ok(roundtrip_stored::to_text(&document)? + "\n")
}

/// The slow writes of a run as JSON, or only the one with this number.
///
/// # Errors
/// As [`json`].
pub fn writes_json(
    analysed: &Analysed<'_>,
    all: &[slow_writes::SlowWrite<'_>],
    only: Option<usize>,
) -> Result<String, Error> {
    let document = Document {
        schema: "roundtrip.explanation",
        version: 1,
        over_limit: 0,
        before_comparison: 0,
        causes: Vec::new(),
        without: Vec::new(),
        slow_calls: Vec::new(),
        writes: Some(Writes::Run(slow_writes::Json::of(analysed, all, only))),
    };
    Ok(roundtrip_stored::to_text(&document)? + "\n")
}

#[cfg(test)]
mod tests;
