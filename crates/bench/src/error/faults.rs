//! What can go wrong between this program's own processes, in a run's environment, and with Java;
//! and the messages for it.

/// What a worker was not given by its parent, or why it could not be given it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobFault {
    /// A message that cannot be represented as JSON.
    #[error("cannot be sent to a worker: {reason}")]
    Unsendable {
        /// The JSON writer's error.
        reason: String,
    },
    /// A message longer than a frame.
    #[error("a message of {bytes} bytes is too long for a worker")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The wrong number of descriptors for a transport.
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
    /// A transport that this version does not know.
    #[error("unknown transport '{name}'")]
    UnknownTransport {
        /// Its name.
        name: String,
    },
    /// A writer that was given no file.
    #[error("the writer was given no file")]
    NoFile,
    /// A service that is to be called is in the caller's own process.
    #[error("service {name} is this process's own")]
    OwnService {
        /// Its name.
        name: String,
    },
}

/// Something during a measurement made its figures unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disturbance {
    /// strace reported no system call.
    #[error("strace shows no system call of the writer's; it said: {said}")]
    StraceSawNothing {
        /// Its last line.
        said: String,
    },
    /// The machine was suspended.
    #[error("the machine slept during a block: its times cannot be used")]
    Suspended,
    /// The hog that was to delay a lock's holder ended.
    #[error("the hog of the lock's holder ended")]
    HogEnded,
    /// No thread of a service accepts transactions.
    #[error("there is no looper")]
    NoLooper,
    /// A calling thread panicked.
    #[error("the calling thread panicked")]
    CallerPanicked,
    /// The trace that the plan requires ended.
    #[error("the kernel trace was stopped")]
    TraceStopped,
}

/// Why the Java program of a storage test cannot be started, or how it misbehaves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JavaFault {
    /// Java was not found.
    #[error("there is no Java here: '{program}' is not found; install one, or name one with --java")]
    Missing {
        /// The program that was to be started.
        program: String,
    },
    /// It reported a thread id that is not a number.
    #[error("Java's thread id is '{tid}'")]
    NoThreadId {
        /// The reported id.
        tid: String,
    },
    /// It reported the id of a thread that does not exist.
    #[error("Java's thread id is '{tid}', and there is no such thread")]
    NoSuchThread {
        /// The reported id.
        tid: String,
    },
    /// Its clock cannot be read.
    #[error("Java cannot tell the time: {said}")]
    NoClock {
        /// Its message.
        said: String,
    },
    /// `System.nanoTime` is not CLOCK_MONOTONIC.
    #[error("this Java's System.nanoTime is not CLOCK_MONOTONIC: its times cannot be used")]
    OtherClock,
    /// It ended.
    #[error(
        "the Java program ended ({how}): {complaint}; a Java with a compiler (a JDK) is needed, from release 11 on, or a \
         class path with SyncWriter in it"
    )]
    Ended {
        /// "exit status: 1".
        how: String,
        /// The first line that it wrote to standard error.
        complaint: String,
    },
}
