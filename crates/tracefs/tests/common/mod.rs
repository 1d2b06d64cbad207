//! What the tests share.
#![allow(clippy::print_stderr)] // How a test says that it was not run.

pub(crate) mod capture;
pub(crate) mod fixture;
pub(crate) mod text;
pub(crate) mod writer;

use tracefs::{Error, Tracefs};

/// The kernel's trace; `None`, and a word about it, where this process may not use it.
pub(crate) fn tracefs() -> Option<Tracefs> {
    match Tracefs::open() {
        Ok(tracefs) => Some(tracefs),
        Err(error @ Error::NotAvailable { .. }) => {
            eprintln!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
