//! Errors: [`Error`] for callers, [`Status`] for services.
//!
//! This file knows the numbers on the wire (status and exception codes), not their layout in a
//! parcel.

use std::time::Duration;

use roundtrip_binder_driver::{Errno, raise_limit};

/// Status codes of a `TF_STATUS_CODE` reply, as in Android's `utils/Errors.h`: negative errno
/// values, and Android's own values from `i32::MIN` up.
pub mod status {
    /// Success.
    pub const OK: i32 = 0;
    /// The caller lacks the permission (`EPERM`).
    pub const PERMISSION_DENIED: i32 = -1;
    /// No such name (`ENOENT`).
    pub const NAME_NOT_FOUND: i32 = -2;
    /// An argument is invalid, or the request cannot be decoded (`EINVAL`).
    pub const BAD_VALUE: i32 = -22;
    /// The object is dead (`EPIPE`).
    pub const DEAD_OBJECT: i32 = -32;
    /// The service has no method with this code (`EBADMSG`).
    pub const UNKNOWN_TRANSACTION: i32 = -74;
    /// An unspecified error.
    pub const UNKNOWN_ERROR: i32 = i32::MIN;
    /// The request names another interface, or an object has another type.
    pub const BAD_TYPE: i32 = i32::MIN + 1;
    /// A nested call that the service needed was refused.
    pub const FAILED_TRANSACTION: i32 = i32::MIN + 2;

    /// Describes a code; "error" for a code that is not in this module.
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

/// Exception codes of a reply's status header, as in Android's `binder/Status.h`.
pub mod exception {
    /// No exception.
    pub const NONE: i32 = 0;
    /// The caller lacks the permission.
    pub const SECURITY: i32 = -1;
    /// A parcelable in the call cannot be read.
    pub const BAD_PARCELABLE: i32 = -2;
    /// An argument is invalid.
    pub const ILLEGAL_ARGUMENT: i32 = -3;
    /// An argument is null but must not be.
    pub const NULL_POINTER: i32 = -4;
    /// The service cannot do this in its current state.
    pub const ILLEGAL_STATE: i32 = -5;
    /// The service does not support the operation.
    pub const UNSUPPORTED_OPERATION: i32 = -7;
    /// An error that the service defines; its number follows.
    pub const SERVICE_SPECIFIC: i32 = -8;
    /// A Java exception with a parcelable, which follows.
    pub const PARCELABLE: i32 = -9;
}

/// Why a call or another operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A driver operation failed. The message contains `cause`, so it is not the error's `source`.
    /// The same holds for every `cause` below.
    #[error("cannot {operation}: {cause}")]
    Driver {
        /// The operation, phrased to follow "cannot".
        operation: &'static str,
        /// The driver's error.
        cause: roundtrip_binder_driver::Error,
    },
    /// The driver returned an errno (`BR_ERROR`).
    #[error("the driver reported errno {errno} while this thread waited for it")]
    Reported {
        /// The errno, negative as the driver sends it.
        errno: i32,
    },
    /// The service's process has died (`BR_DEAD_REPLY`).
    #[error("the service behind handle {handle} is gone; start it again and ask the service manager for it")]
    DeadObject {
        /// The service's handle in this process.
        handle: u32,
    },
    /// The driver refused the call, or the service could not answer it (`BR_FAILED_REPLY`).
    #[error("the driver refused call {code} to handle {handle}: {}", refusal(*errno))]
    Failed {
        /// The handle that was called.
        handle: u32,
        /// The method.
        code: u32,
        /// The negative errno from `BINDER_GET_EXTENDED_ERROR`; 0 if the driver reports none.
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
        /// One of [`status`], or a code that the service defines.
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
    /// The service answered with an error that it defines.
    #[error("the service answered with its own error {error}: {message}")]
    ServiceSpecific {
        /// The service's number.
        error: i32,
        /// The service's words.
        message: String,
    },
    /// The calling process is a fork of the one that opened the driver.
    #[error(
        "this process is a fork of the one that opened the binder driver; open it again, or start the program with exec"
    )]
    Forked,
    /// Received bytes are invalid.
    #[error("cannot read {what} at byte {at} of a parcel: {problem}")]
    Malformed {
        /// The item that was read.
        what: &'static str,
        /// Its offset in bytes from the parcel's start.
        at: usize,
        /// The reason.
        problem: &'static str,
    },
    /// An item cannot be written to a parcel.
    #[error("cannot write {what} to a parcel: {problem}")]
    Unsendable {
        /// The item.
        what: &'static str,
        /// The reason.
        problem: &'static str,
    },
    /// A service's name is invalid.
    #[error("'{name}' cannot be a service's name: {problem}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        problem: &'static str,
    },
    /// No service is registered under the name.
    #[error("no service is registered as '{name}'")]
    NotRegistered {
        /// The name.
        name: String,
    },
    /// No service was registered under the name in time.
    #[error("no service was registered as '{name}' within {} ms", waited.as_millis())]
    WaitedTooLong {
        /// The name.
        name: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A received file descriptor could not be duplicated.
    #[error(
        "cannot keep a received file descriptor: {cause}{}",
        raise_limit("keep a received file descriptor", cause)
    )]
    Descriptor {
        /// The system's error.
        cause: std::io::Error,
    },
    /// A looper thread could not be started.
    #[error("cannot start a looper thread: {cause}{}", raise_limit("start a looper thread", cause))]
    Spawn {
        /// The system's error.
        cause: std::io::Error,
    },
}

/// The failure of a call, as its service reports it. The caller gets this instead of a reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// A status code, sent in a `TF_STATUS_CODE` reply: the call itself failed. One of [`status`].
    #[error("status {_0} ({})", status::name(*_0))]
    Code(i32),
    /// An exception, sent in the reply's status header: the method failed.
    #[error("exception {code}: {message}")]
    Exception {
        /// One of [`exception`].
        code: i32,
        /// A description for people.
        message: String,
    },
    /// An error that the service defines, sent in the reply's status header.
    #[error("service-specific error {error}: {message}")]
    ServiceSpecific {
        /// The service's number. Hwbinder's headers have no field for it.
        error: i32,
        /// A description for people.
        message: String,
    },
}

impl Status {
    /// The service has no method with this code.
    pub const UNKNOWN_TRANSACTION: Self = Self::Code(status::UNKNOWN_TRANSACTION);

    /// Makes an exception with a message.
    #[must_use]
    pub fn exception(code: i32, message: impl Into<String>) -> Self {
        Self::Exception { code, message: message.into() }
    }

    /// Makes an error that the service defines, with a message.
    #[must_use]
    pub fn service_specific(error: i32, message: impl Into<String>) -> Self {
        Self::ServiceSpecific { error, message: message.into() }
    }
}

impl From<Error> for Status {
    /// Converts an error of an operation that a service needed to the status that the service
    /// returns.
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

/// Describes why a call was refused. The driver may report 0 or any other number. A number that is
/// not an errno value counts as no errno.
fn refusal(errno: i32) -> &'static str {
    let error = std::io::Error::from_raw_os_error(errno.saturating_neg());
    match Errno::from_io_error(&error) {
        Some(Errno::NOSPC) => "the data does not fit into the receiver's area",
        Some(Errno::NOMEM) => {
            "the driver has no room for one more handle, object or transaction (the emulated one has 16,383 handles for a \
             process)"
        }
        Some(Errno::INVAL) => "the handle is unknown, or an object in the data is malformed",
        Some(Errno::PERM) => "the receiver does not accept file descriptors",
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
    fn a_refused_call_has_a_message_for_every_errno_that_a_driver_reports() {
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
