//! The errors in plans, and their messages. Must not know how a plan is checked.

use std::fmt;

/// A word that is not among the valid ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// What the word should name: "stack".
    pub what: &'static str,
    /// The given word.
    pub text: String,
    /// The valid words.
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

/// Why the text of a load or a disturbance is invalid.
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
    /// A value that is not a CPU list.
    #[error("'{value}' is not a CPU list such as 0-1+3")]
    NotCpus {
        /// The value.
        value: String,
    },
    /// A value that is not a time.
    #[error("'{value}' is not a time from 1us to 1h such as 5ms")]
    NotATime {
        /// The value.
        value: String,
    },
    /// Too many hogs, none, or not a number.
    #[error("hogs must be 1 to {most}, not '{value}'")]
    HogsOutOfRange {
        /// The value.
        value: String,
        /// The largest possible number.
        most: u32,
    },
    /// A load without a number of hogs.
    #[error("give the number of hogs: hogs=N")]
    NoHogs,
    /// Disturbances that last longer than half of their interval.
    #[error("for=TIME must be at most half of every=TIME")]
    LeavesTooLittle,
}

/// Numbers in a plan that have a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Payload bytes in the baseline.
    BaselineBytes,
    /// Payload bytes in the throughput test.
    PayloadBytes,
    /// Calls in one batch.
    BatchCalls,
    /// Calls in the comparison of the stacks.
    Calls,
    /// Rounds.
    Rounds,
    /// Repetitions of a batch.
    Repetitions,
}

impl Counted {
    /// A message that this number is not possible.
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

/// The reason why no machine can carry out a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFault {
    /// A number that is outside its range. The range starts at 1.
    #[error("{}: choose from 1 to {most}", what.refuse(*number))]
    OutOfRange {
        /// What the number counts.
        what: Counted,
        /// The requested number.
        number: u64,
        /// The largest possible number.
        most: u64,
    },
    /// An unknown transport.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A baseline without sizes or placements.
    #[error("the baseline needs at least one size and one placement")]
    EmptyBaseline,
    /// A survey with too little time.
    #[error("a survey takes at least {least_s}s")]
    ShortSurvey {
        /// The minimum time, in seconds.
        least_s: u64,
    },
    /// Throughput without sizes or stacks.
    #[error("throughput needs at least one size and one stack")]
    EmptyThroughput,
    /// Passthrough mode with a stack that has none.
    #[error("only the hwbinder stack has a passthrough mode")]
    PassthroughOverBinder,

    /// A single worker, which has no other worker to call.
    #[error("a single worker has no other worker to call: choose 2 or more")]
    LonelyWorker,
    /// Too few workers for a pair.
    #[error("{workers} workers cannot form pairs: choose 2 or more")]
    Unpaired {
        /// The number of workers.
        workers: u32,
    },
    /// Workers without a service.
    #[error("there is no service to call: choose 1 service or more")]
    NoService,
    /// Services without a worker.
    #[error("there is no worker to make calls: choose 1 worker or more")]
    NoWorker,
    /// Too many workers and services.
    #[error("{processes} processes are too many: choose at most {most} workers and services together")]
    TooManyProcesses {
        /// The requested number.
        processes: u64,
        /// The largest possible number.
        most: u32,
    },
    /// Workers that make no calls.
    #[error("0 calls cannot be measured: choose 1 or more")]
    NoWorkerCalls,
    /// Empty replies where they are not supported.
    #[error("only the binder stack over a driver has calls with an empty reply")]
    EmptyReply,
    /// A payload that is too long for the workers test.
    #[error("a payload of {bytes} bytes does not fit into a receive area: choose at most {most}")]
    PayloadTooLong {
        /// The requested length.
        bytes: usize,
        /// The longest possible.
        most: usize,
    },

    /// A latency test without stack, inheritance setting or caller.
    #[error("a stack, an inheritance setting and a caller are needed")]
    EmptyLatency,
    /// Too many pairs, or none.
    #[error("1 to {most} pairs are possible, not {pairs}")]
    Pairs {
        /// The requested number.
        pairs: u32,
        /// The largest possible number.
        most: u32,
    },
    /// Too many server threads, or none.
    #[error("1 to {most} server threads are possible, not {threads}")]
    ServerThreads {
        /// The requested number.
        threads: u32,
        /// The largest possible number.
        most: u32,
    },
    /// A payload that is too long for the latency test.
    #[error("a payload of {bytes} bytes is not possible: choose at most {most}")]
    PayloadNotPossible {
        /// The requested length.
        bytes: usize,
        /// The longest possible.
        most: usize,
    },
    /// A payload that does not fit into a receive area as often as needed.
    #[error(
        "a payload of {bytes} bytes does not fit into a server's receive area for {callers} callers and \
         {server_threads} server threads at once: choose at most {most}"
    )]
    PayloadTooOften {
        /// The requested length.
        bytes: usize,
        /// The number of callers of one server.
        callers: usize,
        /// The number of its threads.
        server_threads: u32,
        /// The longest possible.
        most: usize,
    },
    /// A latency test without calls.
    #[error("at least one iteration is needed")]
    NoIterations,
    /// A rate for callers with a new thread for each call.
    #[error("--rate needs callers that keep their threads: leave out --fresh-threads")]
    RateOfFreshThreads,
    /// Disturbances of a server, without a server.
    #[error("disturbances need a server process, which passthrough mode does not have")]
    DisturbancesWithoutServer,
    /// Two conflicting ways to handle a missed deadline.
    #[error("--trace ends the run at the first miss, --explain continues: choose one")]
    HaltAndExplain,
    /// Explanations of zero calls.
    #[error("at least the slowest call is needed")]
    NoSlowestCall,
    /// More samples than can be kept.
    #[error("at most {most} samples can be kept: use fewer iterations or pairs")]
    TooManySamples {
        /// The largest possible number.
        most: u64,
    },

    /// A storage test without a size, writer or durability.
    #[error("there is nothing to measure: no size, writer or durability is given")]
    EmptyStorage,
    /// A write that is empty or too long.
    #[error("a write of {bytes} bytes is not possible: 1 to {most}")]
    Write {
        /// The requested length.
        bytes: u64,
        /// The longest possible.
        most: u64,
    },
    /// A write longer than the file to overwrite.
    #[error(
        "a write of {bytes} bytes does not fit into a file of {file_bytes} bytes: use a larger \
         --file-size"
    )]
    WriteBeyondFile {
        /// The requested length.
        bytes: u64,
        /// The length of the file.
        file_bytes: u64,
    },
    /// Too many calls, or fewer calls than rounds.
    #[error(
        "{calls} calls cannot be divided among {rounds} rounds: use 1 to {most} calls, and no more rounds \
         than calls"
    )]
    CallsPerRound {
        /// The requested number of calls.
        calls: u32,
        /// The number of rounds.
        rounds: u32,
        /// The largest possible number of calls.
        most: u32,
    },
    /// A comparison of writes without a condition.
    #[error("there is nothing to compare with: name a condition")]
    NoCondition,
    /// Too many rounds of a comparison of writes, or none.
    #[error("a comparison takes 1 to {most} rounds")]
    ComparisonRounds {
        /// The largest possible number.
        most: u32,
    },
    /// A share of memory that is zero or too large.
    #[error("the share of memory must be 1% to {most}%: with more, the kernel kills processes")]
    MemoryShare {
        /// The largest possible share, in percent.
        most: u32,
    },
    /// A limit too low for any write to finish.
    #[error("the limit must be at least {least} bytes a second: with less, no write completes")]
    IoLimit {
        /// The lowest possible limit, in bytes per second.
        least: u64,
    },
}
