//! What can go wrong before a context can be used. All later errors are
//! [`roundtrip_binder_driver::Error`].

use std::io;

use roundtrip_binder_driver::raise_limit;

/// Why a context could not be created or joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The context could not be created.
    #[error(
        "cannot create an emulated binder context: cannot {operation}: {cause}{}",
        raise_limit(operation, cause)
    )]
    Create {
        /// The step: "start a thread".
        operation: &'static str,
        /// The system's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// The context could not be joined.
    #[error(
        "cannot join the emulated binder context {address}: cannot {operation}: {cause}{}",
        raise_limit(operation, cause)
    )]
    Join {
        /// The context's address.
        address: String,
        /// The step: "start a thread".
        operation: &'static str,
        /// The system's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// What any driver refuses, such as an impossible size of the receive area.
    #[error(transparent)]
    Driver(#[from] roundtrip_binder_driver::Error),
}
