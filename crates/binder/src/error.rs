//! What can go wrong: [`Error`] for those who call, [`Status`] for those who serve.
//!
//! It knows the numbers that travel (status codes, exception codes), not how they are laid out in a
//! parcel.

use std::time::Duration;

use binder_driver::{Errno, raise_limit};

/// Status codes that travel in a `TF_STATUS_CODE` reply: Android's `utils/Errors.h`, negative errno
/// values and a range of its own from `i32::MIN`.
pub mod status {
    /// Success.
    pub const OK: i32 = 0;
    /// The caller may not do that (`EPERM`).
    pub const PERMISSION_DENIED: i32 = -1;
    /// No such name (`ENOENT`).
    pub const NAME_NOT_FOUND: i32 = -2;
    /// An argument cannot be right (`EINVAL`); also a request that cannot be decoded.
    pub const BAD_VALUE: i32 = -22;
    /// The object is gone (`EPIPE`).
    pub const DEAD_OBJECT: i32 = -32;
    /// The service knows no method with that code (`EBADMSG`).
    pub const UNKNOWN_TRANSACTION: i32 = -74;
    /// An error without a better name.
    pub const UNKNOWN_ERROR: i32 = i32::MIN;
    /// The request is meant for another interface, or an object has another type.
    pub const BAD_TYPE: i32 = i32::MIN + 1;
    /// A call that the service made for its answer was refused.
    pub const FAILED_TRANSACTION: i32 = i32::MIN + 2;

    /// What the code says, in words; "error" for one that is not in this module.
    #[must_use]
    pub fn name(code: i32) -> &'static str {
        match code {
            OK => "no error",
            PERMISSION_DENIED => "permission denied",
            NAME_NOT_FOUND => "name not found",
            BAD_VALUE => "bad value",
            DEAD_OBJECT => "dead object",
            UNKNOWN_TRANSACTION => "unknown transaction",
            UNKNOWN_ERROR => "unknown error",
            BAD_TYPE => "a different interface or type was expected",
            FAILED_TRANSACTION => "failed transaction",
            _ => "error",
        }
    }
}

/// Exception codes that travel in a reply's status header: Android's `binder/Status.h`.
pub mod exception {
    /// No exception.
    pub const NONE: i32 = 0;
    /// The caller may not do that.
    pub const SECURITY: i32 = -1;
    /// An object in the call cannot be read.
    pub const BAD_PARCELABLE: i32 = -2;
    /// An argument cannot be right.
    pub const ILLEGAL_ARGUMENT: i32 = -3;
    /// An argument is null that may not be.
    pub const NULL_POINTER: i32 = -4;
    /// Not now.
    pub const ILLEGAL_STATE: i32 = -5;
    /// The service does not do that.
    pub const UNSUPPORTED_OPERATION: i32 = -7;
    /// An error of the service's own numbering; its number follows.
    pub const SERVICE_SPECIFIC: i32 = -8;
    /// An exception of Java's with an object, which follows.
    pub const PARCELABLE: i32 = -9;
}

/// Why a call, or something around it, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver did not do what it was asked for.
    #[error("cannot {operation}: {cause}")]
    Driver {
        /// What was being done.
        operation: &'static str,
        /// The driver's answer. Not the error's `source`, for the message already has it; so below.
        cause: binder_driver::Error,
    },
    /// The driver reported an errno among its returns (`BR_ERROR`).
    #[error("the driver reported errno {errno} while this thread waited for it")]
    Reported {
        /// The errno, negative as the driver sends it.
        errno: i32,
    },
    /// The service's process is gone (`BR_DEAD_REPLY`).
    #[error("the service behind handle {handle} is gone; start it again and ask the service manager for it")]
    DeadObject {
        /// Its handle in this process.
        handle: u32,
    },
    /// The driver refused the call, or the service could not answer it (`BR_FAILED_REPLY`).
    #[error("the driver refused call {code} to handle {handle}: {}", refusal(*errno))]
    Failed {
        /// The handle that was called.
        handle: u32,
        /// The method.
        code: u32,
        /// The errno, negative as the driver tells it (`BINDER_GET_EXTENDED_ERROR`); 0 when it does
        /// not.
        errno: i32,
    },
    /// The service's process is frozen (`BR_FROZEN_REPLY`).
    #[error("the process behind handle {handle} is frozen; unfreeze it first")]
    Frozen {
        /// The handle that was called.
        handle: u32,
    },
    /// The service answered with a status code instead of data.
    #[error("the service answered with status {code} ({})", status::name(*code))]
    Status {
        /// One of [`status`], or a service's own.
        code: i32,
    },
    /// The service answered with an exception.
    #[error("the service answered with exception {code}: {message}")]
    Exception {
        /// One of [`exception`].
        code: i32,
        /// The service's words.
        message: String,
    },
    /// The service answered with an error of its own numbering.
    #[error("the service answered with its own error {error}: {message}")]
    ServiceSpecific {
        /// The service's number.
        error: i32,
        /// The service's words.
        message: String,
    },
    /// The calling process has forked from the one that opened the driver.
    #[error(
        "this process is a fork of the one that opened the binder driver; open it anew, or start the program with exec"
    )]
    Forked,
    /// Received bytes are not what they should be.
    #[error("cannot read {what} at byte {at} of a parcel: {problem}")]
    Malformed {
        /// What was to be read.
        what: &'static str,
        /// Where, in bytes from the parcel's start.
        at: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// Something does not fit into a parcel.
    #[error("cannot write {what} to a parcel: {problem}")]
    Unsendable {
        /// What was to be written.
        what: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// A service's name is not acceptable.
    #[error("'{name}' cannot be a service's name: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Nobody has registered the name.
    #[error("no service is registered as '{name}'")]
    NotRegistered {
        /// The name.
        name: String,
    },
    /// Nobody registered the name in time.
    #[error("no service was registered as '{name}' within {} ms", waited.as_millis())]
    WaitedTooLong {
        /// The name.
        name: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A received file descriptor could not be duplicated.
    #[error(
        "cannot keep a received file descriptor: {cause}{}",
        raise_limit("keep a received file descriptor", cause)
    )]
    Descriptor {
        /// The system's answer.
        cause: std::io::Error,
    },
    /// A looper thread could not be started.
    #[error("cannot start a looper thread: {cause}{}", raise_limit("start a looper thread", cause))]
    Spawn {
        /// The system's answer.
        cause: std::io::Error,
    },
}

/// How a served call failed; what the caller gets instead of a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// A status code, sent in a `TF_STATUS_CODE` reply: the call as such failed. One of [`status`].
    #[error("status {_0} ({})", status::name(*_0))]
    Code(i32),
    /// An exception, sent in the reply's status header: the method failed.
    #[error("exception {code}: {message}")]
    Exception {
        /// One of [`exception`].
        code: i32,
        /// What went wrong, for a person.
        message: String,
    },
    /// An error of the service's own numbering, sent in the reply's status header.
    #[error("service-specific error {error}: {message}")]
    ServiceSpecific {
        /// The service's number. Hwbinder's headers have no room for it.
        error: i32,
        /// What went wrong, for a person.
        message: String,
    },
}

impl Status {
    /// The service knows no method with this code.
    pub const UNKNOWN_TRANSACTION: Self = Self::Code(status::UNKNOWN_TRANSACTION);

    /// An exception with a message.
    #[must_use]
    pub fn exception(code: i32, message: impl Into<String>) -> Self {
        Self::Exception { code, message: message.into() }
    }

    /// An error of the service's own numbering, with a message.
    #[must_use]
    pub fn service_specific(error: i32, message: impl Into<String>) -> Self {
        Self::ServiceSpecific { error, message: message.into() }
    }
}

impl From<Error> for Status {
    /// What a service tells its caller when something that it used failed.
    fn from(error: Error) -> Self {
        match error {
            Error::Malformed { .. } | Error::Unsendable { .. } => Self::Code(status::BAD_VALUE),
            Error::DeadObject { .. } => Self::Code(status::DEAD_OBJECT),
            Error::Status { code } => Self::Code(code),
            Error::Exception { code, message } => Self::Exception { code, message },
            Error::ServiceSpecific { error, message } => Self::ServiceSpecific { error, message },
            Error::Name { .. } => Self::exception(exception::ILLEGAL_ARGUMENT, error.to_string()),
            Error::NotRegistered { .. } => Self::Code(status::NAME_NOT_FOUND),
            _ => Self::Code(status::FAILED_TRANSACTION),
        }
    }
}

/// Why a call was refused, as far as its errno tells. It comes from a driver, which may tell none,
/// or anything: only numbers that are errno values are taken for one.
fn refusal(errno: i32) -> &'static str {
    let told = std::io::Error::from_raw_os_error(errno.saturating_neg());
    match Errno::from_io_error(&told) {
        Some(Errno::NOSPC) => "the data does not fit into the receiver's area",
        Some(Errno::NOMEM) => {
            "the driver has no room for one more handle, object or transaction (the emulated one has 16,383 handles for a \
             process)"
        }
        Some(Errno::INVAL) => "the handle is unknown, or an object in the data is malformed",
        Some(Errno::PERM) => "the receiver takes no file descriptors",
        Some(Errno::MFILE) => {
            "a process has no room for one more file descriptor; raise its limit (ulimit -n)"
        }
        Some(_) => {
            "the handle is unknown, the data does not fit into the receiver's area, or an object in it is malformed"
        }
        None => {
            "no reason given (the handle is unknown, the data does not fit into the receiver's area, an \
             object in it is malformed, or the receiver is out of file descriptors)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_told_whatever_number_the_driver_gives_for_an_errno() {
        for errno in [0, 1, -1, -22, 22, -4095, -4096, 4096, i32::MIN, i32::MAX] {
            let text = Error::Failed { handle: 7, code: 1, errno }.to_string();
            assert!(text.starts_with("the driver refused call 1 to handle 7: "), "{text}");
        }
        let text = Error::Failed { handle: 7, code: 1, errno: 0 }.to_string();
        assert!(text.contains("no reason given"), "{text}");
        let text = Error::Failed { handle: 7, code: 1, errno: -28 }.to_string();
        assert!(text.ends_with("the data does not fit into the receiver's area"), "{text}");
    }
}
