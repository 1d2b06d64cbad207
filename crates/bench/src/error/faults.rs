//! Faults between this program's own processes, disturbances of a measurement, faults of the Java
//! program, and their messages.

/// What to do about a failed write, as the end of a sentence; empty if nothing is known. `reason`
/// is the text of the kernel's error, which Java passes on. C libraries have different texts.
pub(super) fn remedy_of_write(reason: &str) -> &'static str {
    let is = |text| reason.contains(text);
    if is("No space left") || is("uota exceeded") {
        "; free some space, use smaller --sizes or fewer calls, or choose another file system with --file"
    } else if is("File too large") {
        "; the file reached the limit of its file system or of this process (ulimit -f): raise it, or use smaller \
         --sizes or fewer calls"
    } else if is("Input/output error") || is("I/O error") {
        "; the device or its file system failed: the kernel's log (dmesg) says how"
    } else if is("Read-only file system") {
        "; the file system became read-only, as after an error: the kernel's log (dmesg) says why"
    } else {
        ""
    }
}

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
    /// A process may no longer use the CPUs on which the plan placed it.
    #[error(
        "{role} may use {} instead of {before}: another program moved it, or a CPU has gone offline",
        if now.is_empty() { "no online CPU".to_owned() } else { format!("CPUs {now}") }
    )]
    Moved {
        /// The worker's role.
        role: String,
        /// The CPUs it was placed on: "0-1".
        before: String,
        /// The online CPUs it may use now; empty if there are none.
        now: String,
    },
    /// No caller was scheduled as planned during any turn.
    #[error("another program changed how the callers are scheduled, so no calls were made as planned")]
    Rescheduled,
    /// Another program disturbed a recorder whose cost was measured.
    #[error("{what}")]
    Recorder {
        /// What it did, and when.
        what: String,
    },
    /// A calling thread panicked.
    #[error("the calling thread panicked")]
    CallerPanicked,
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
    /// A signal ended it.
    #[error("the Java program was killed by {signal}")]
    Killed {
        /// "SIGKILL".
        signal: String,
    },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_failed_write_follows_the_kernels_error() {
        let of = |errno| remedy_of_write(&std::io::Error::from_raw_os_error(errno).to_string());
        assert!(of(libc::ENOSPC).starts_with("; free some space"));
        assert!(of(libc::EDQUOT).starts_with("; free some space"));
        assert!(of(libc::EFBIG).contains("ulimit -f"));
        assert!(of(libc::EIO).contains("dmesg") && of(libc::EROFS).contains("read-only"));
        assert_eq!(of(libc::EINVAL), "");
        assert_eq!(remedy_of_write("I/O error"), of(libc::EIO), "the text of musl");
        assert_eq!(remedy_of_write("Quota exceeded"), of(libc::EDQUOT), "the text of musl");
    }
}
