//! What can go wrong before a context can be used. Everything later is a driver's error ([`binder_driver::Error`]).

use std::io;

use binder_driver::raise_limit;

/// Why a context could not be created or joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The context could not be created.
    #[error(
        "cannot create an emulated binder context: {operation}: {source}{}",
        raise_limit(operation, source)
    )]
    Create {
        /// The step.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The context could not be joined.
    #[error(
        "cannot join the emulated binder context {address}: {operation}: {source}{}",
        raise_limit(operation, source)
    )]
    Join {
        /// The context's address.
        address: String,
        /// The step.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// What any driver refuses: an impossible size of the receive area.
    #[error(transparent)]
    Driver(#[from] binder_driver::Error),
}
