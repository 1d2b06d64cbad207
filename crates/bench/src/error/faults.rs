//! Faults between this program's own processes, disturbances of a measurement, faults of the Java
//! program, and their messages.

/// What a worker did not get from its parent, or why the parent could not send it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobFault {
    /// A message cannot be represented as JSON.
    #[error("cannot be sent to a worker: {reason}")]
    Unsendable {
        /// The JSON writer's error.
        reason: String,
    },
    /// A message is longer than a frame.
    #[error("a message of {bytes} bytes is too long for a worker")]
    TooLong {
        /// The message's length, in bytes.
        bytes: usize,
    },
    /// A transport got the wrong number of descriptors.
    #[error("a {transport} transport needs {needed}")]
    Descriptors {
        /// "pipe".
        transport: &'static str,
        /// "four descriptors".
        needed: &'static str,
    },
    /// A transport over the driver got no context to join.
    #[error("a transport over the driver needs a context")]
    NoContext,
    /// This version does not know the transport.
    #[error("unknown transport '{name}'")]
    UnknownTransport {
        /// Its name.
        name: String,
    },
    /// A writer was given no file.
    #[error("the writer was given no file")]
    NoFile,
    /// The service to call is in the caller's own process.
    #[error("service {name} runs in the calling process itself")]
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
    #[error("strace shows no system call of the writer; it printed: {said}")]
    StraceSawNothing {
        /// Its last line.
        said: String,
    },
    /// The machine was suspended.
    #[error("the machine was suspended during a block, so its times are invalid")]
    Suspended,
    /// The hog that was to delay a lock's holder ended.
    #[error("the CPU hog that preempts the lock holder ended")]
    HogEnded,
    /// No thread of a service accepts transactions.
    #[error("there is no looper thread")]
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
    #[error("Java is not installed: '{program}' was not found; install it, or name one with --java")]
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
    #[error("Java cannot read the clock: {said}")]
    NoClock {
        /// Its message.
        said: String,
    },
    /// `System.nanoTime` is not CLOCK_MONOTONIC.
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
        /// The first line that it wrote to standard error.
        complaint: String,
    },
}
