//! What can be wrong with a plan, and the words for it. Must not know how a plan is checked.

use std::fmt;

/// A word that is none of those that mean something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// What it should be: "stack".
    pub what: &'static str,
    /// What was given.
    pub text: String,
    /// What there is instead.
    pub choices: Vec<&'static str>,
}

impl Unknown {
    pub(crate) fn new(what: &'static str, text: &str, choices: impl Into<Vec<&'static str>>) -> Self {
        Self { what, text: text.to_owned(), choices: choices.into() }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} '{}': choose from {}", self.what, self.text, self.choices.join(", "))
    }
}

impl std::error::Error for Unknown {}

/// Why the text of a load or a disturbance means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextFault {
    /// An unknown key, cause or policy.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A part without an equals sign.
    #[error("'{part}' is not KEY=VALUE")]
    NotKeyValue {
        /// The part.
        part: String,
    },
    /// A value that should be CPUs.
    #[error("'{value}' is not a CPU list such as 0-1+3")]
    NotCpus {
        /// The value.
        value: String,
    },
    /// A value that should be a time.
    #[error("'{value}' is not a time from 1us to 1h such as 5ms")]
    NotATime {
        /// The value.
        value: String,
    },
    /// Too many hogs, none, or what is no number.
    #[error("hogs must be 1 to {most}, not '{value}'")]
    HogsOutOfRange {
        /// The value.
        value: String,
        /// How many are possible.
        most: u32,
    },
    /// A load that does not say how large it is.
    #[error("give their number: hogs=N")]
    NoHogs,
    /// Disturbances that fill most of the time.
    #[error("for=TIME must be at most half of every=TIME")]
    LeavesTooLittle,
}

/// What a plan counts, where it has a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Bytes of a payload of the baseline.
    BaselineBytes,
    /// Bytes of a payload of the throughput test.
    PayloadBytes,
    /// Calls of one batch.
    BatchCalls,
    /// Calls for the comparison of the stacks.
    Calls,
    /// Rounds.
    Rounds,
    /// Repetitions of a batch.
    Repetitions,
}

impl Counted {
    /// That this many cannot be had.
    fn refuse(self, number: u64) -> String {
        match self {
            Self::BaselineBytes => format!("a size of {number} bytes cannot be measured"),
            Self::PayloadBytes => format!("a payload of {number} bytes cannot be sent"),
            Self::BatchCalls => format!("a batch of {number} calls cannot be run"),
            Self::Calls => format!("{number} calls cannot be timed"),
            Self::Rounds => format!("{number} rounds cannot be run"),
            Self::Repetitions => format!("{number} repetitions cannot be run"),
        }
    }
}

/// What is wrong with a plan that no machine can carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFault {
    /// A number beyond its range, which begins at 1.
    #[error("{}: choose from 1 to {most}", what.refuse(*number))]
    OutOfRange {
        /// What is counted.
        what: Counted,
        /// How many there are to be.
        number: u64,
        /// How many are possible.
        most: u64,
    },
    /// A transport that there is not.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A baseline of nothing.
    #[error("the baseline needs at least one size and one placement")]
    EmptyBaseline,
    /// A survey for which the time is too short.
    #[error("a survey takes at least {least_s}s")]
    ShortSurvey {
        /// What it takes, in seconds.
        least_s: u64,
    },
    /// Throughput of nothing.
    #[error("throughput needs at least one size and one stack")]
    EmptyThroughput,
    /// Calls within one process over a stack that has none.
    #[error("only the hwbinder stack has a passthrough mode")]
    PassthroughOverBinder,

    /// A worker that calls every other, of which there is none.
    #[error("a single worker has no other to call: choose 2 or more")]
    LonelyWorker,
    /// Too few workers for a pair.
    #[error("{workers} workers cannot form pairs: choose 2 or more")]
    Unpaired {
        /// How many.
        workers: u32,
    },
    /// Workers without a service.
    #[error("there is no service to call: choose 1 or more")]
    NoService,
    /// Services without a worker.
    #[error("there is nobody to call: choose 1 worker or more")]
    NoWorker,
    /// Too many workers and services.
    #[error("{processes} processes are too many: choose at most {most} workers and services together")]
    TooManyProcesses {
        /// How many there are to be.
        processes: u64,
        /// How many are possible.
        most: u32,
    },
    /// Workers that do not call.
    #[error("0 calls cannot be measured: choose 1 or more")]
    NoWorkerCalls,
    /// Empty replies where there are none.
    #[error("only the binder stack over a driver has calls with an empty reply")]
    EmptyReply,
    /// A payload of the workers that is too long.
    #[error("a payload of {bytes} bytes does not fit into a receive area: choose at most {most}")]
    PayloadTooLong {
        /// How long it is to be.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },

    /// A latency test of nothing.
    #[error("a stack, an inheritance setting and a caller are needed")]
    EmptyLatency,
    /// Too many pairs, or none.
    #[error("1 to {most} pairs are possible, not {pairs}")]
    Pairs {
        /// How many there are to be.
        pairs: u32,
        /// How many are possible.
        most: u32,
    },
    /// Too many threads of a server, or none.
    #[error("1 to {most} server threads are possible, not {threads}")]
    ServerThreads {
        /// How many there are to be.
        threads: u32,
        /// How many are possible.
        most: u32,
    },
    /// A payload that no call of the latency test has.
    #[error("a payload of {bytes} bytes is not possible: choose at most {most}")]
    PayloadNotPossible {
        /// How long it is to be.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// A payload that a server cannot hold as often as it may be there.
    #[error(
        "a payload of {bytes} bytes does not fit into a server's receive area for {callers} callers and \
         {server_threads} server threads at once: choose at most {most}"
    )]
    PayloadTooOften {
        /// How long it is to be.
        bytes: usize,
        /// How many callers a server has.
        callers: usize,
        /// How many threads it has.
        server_threads: u32,
        /// How long it may be.
        most: usize,
    },
    /// A latency test without calls.
    #[error("at least one iteration is needed")]
    NoIterations,
    /// A rate of callers that begin a thread for each call.
    #[error("--rate needs callers that keep their threads: leave out --fresh-threads")]
    RateOfFreshThreads,
    /// Disturbances of a server that is not there.
    #[error("disturbances need a server process, which passthrough mode does not have")]
    DisturbancesWithoutServer,
    /// Both ways to treat a missed deadline.
    #[error("--trace ends the run at the first miss, --explain continues: choose one")]
    HaltAndExplain,
    /// An explanation of no call.
    #[error("at least the slowest call is needed")]
    NoSlowestCall,
    /// More samples than can be kept.
    #[error("at most {most} samples can be kept: use fewer iterations or pairs")]
    TooManySamples {
        /// How many can.
        most: u64,
    },

    /// A storage test of nothing.
    #[error("there is nothing to measure: no size, writer or durability is given")]
    EmptyStorage,
    /// A write that is too long, or empty.
    #[error("a write of {bytes} bytes is not possible: 1 to {most}")]
    Write {
        /// How long it is to be.
        bytes: u64,
        /// How long it may be.
        most: u64,
    },
    /// A write that is longer than the file that it is to be written over.
    #[error(
        "a write of {bytes} bytes does not fit into a file of {file_bytes} bytes: use a larger \
         --file-size"
    )]
    WriteBeyondFile {
        /// How long it is to be.
        bytes: u64,
        /// How long the file is.
        file_bytes: u64,
    },
    /// Too many calls, or too few for the rounds.
    #[error(
        "{calls} calls cannot be divided among {rounds} rounds: use 1 to {most} calls, and no more rounds \
         than calls"
    )]
    CallsPerRound {
        /// How many calls there are to be.
        calls: u32,
        /// In how many rounds.
        rounds: u32,
        /// How many calls are possible.
        most: u32,
    },
    /// A comparison of writes with nothing.
    #[error("there is nothing to compare with: name a condition")]
    NoCondition,
    /// Too many rounds of a comparison of writes, or none.
    #[error("a comparison takes 1 to {most} rounds")]
    ComparisonRounds {
        /// How many are possible.
        most: u32,
    },
    /// A share of memory that leaves nothing, or is none.
    #[error("the share of memory must be 1% to {most}%: with more, the kernel kills processes")]
    MemoryShare {
        /// The largest, in percent.
        most: u32,
    },
    /// A limit that lets no write through.
    #[error("the limit must be at least {least} bytes a second: with less, no write completes")]
    IoLimit {
        /// The lowest, in bytes a second.
        least: u64,
    },
}
