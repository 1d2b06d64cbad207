//! What can go wrong between this program's own processes, in the world around a run, and with
//! Java; and the words for it.

/// What a worker lacks that its parent should have given it, or why it cannot be given it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobFault {
    /// A message that JSON cannot hold.
    #[error("cannot be sent to a worker: {reason}")]
    Unsendable {
        /// What the writer of JSON said.
        reason: String,
    },
    /// A message beyond what a frame holds.
    #[error("a message of {bytes} bytes is too long for a worker")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Another number of descriptors than a transport needs.
    #[error("a {transport} transport needs {needed}")]
    Descriptors {
        /// "pipe".
        transport: &'static str,
        /// "four descriptors".
        needed: &'static str,
    },
    /// A transport over the driver without a context to join.
    #[error("a transport over the driver needs a context")]
    NoContext,
    /// A transport that this version does not have.
    #[error("unknown transport '{name}'")]
    UnknownTransport {
        /// Its name.
        name: String,
    },
    /// A writer without a file.
    #[error("the writer was given no file")]
    NoFile,
    /// A service that is to be called and is in the caller's own process.
    #[error("service {name} belongs to this process")]
    OwnService {
        /// Its name.
        name: String,
    },
}

/// What happened meanwhile that makes figures useless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disturbance {
    /// strace saw nothing.
    #[error("strace shows no system call of the writer; it printed: {said}")]
    StraceSawNothing {
        /// Its last line.
        said: String,
    },
    /// The machine was suspended.
    #[error("the machine was suspended during a block, so its times are invalid")]
    Suspended,
    /// A hog that was to delay a lock's holder.
    #[error("the hog beside the lock holder ended")]
    HogEnded,
    /// No thread of a service takes transactions.
    #[error("there is no looper thread")]
    NoLooper,
    /// A thread that made calls.
    #[error("the calling thread panicked")]
    CallerPanicked,
    /// The trace that the plan asks for ended.
    #[error("the kernel trace was stopped")]
    TraceStopped,
}

/// Why the Java application of a storage test cannot be started, or does not do as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JavaFault {
    /// There is none.
    #[error("Java is not installed: '{program}' was not found; install it, or name one with --java")]
    Missing {
        /// What was to be started.
        program: String,
    },
    /// It tells a thread id that is none.
    #[error("Java's thread id is '{tid}'")]
    NoThreadId {
        /// What it told.
        tid: String,
    },
    /// It tells the id of a thread that is not there.
    #[error("Java's thread id is '{tid}', and there is no such thread")]
    NoSuchThread {
        /// What it told.
        tid: String,
    },
    /// Its clock cannot be read.
    #[error("Java cannot read the clock: {said}")]
    NoClock {
        /// What it said.
        said: String,
    },
    /// Its clock is not the kernel's.
    #[error("this Java's System.nanoTime is not CLOCK_MONOTONIC, so its times are invalid")]
    OtherClock,
    /// It ended.
    #[error(
        "the Java program ended ({how}): {complaint}; this needs a JDK from release 11 on, or a class path \
         with SyncWriter in it"
    )]
    Ended {
        /// "exit status: 1".
        how: String,
        /// Its first line on standard error.
        complaint: String,
    },
}
