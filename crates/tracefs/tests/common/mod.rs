//! Code that the tests share.

pub(crate) mod capture;
pub(crate) mod fixture;
pub(crate) mod text;
pub(crate) mod writer;

use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::{Error, Tracefs};

/// The kernel's tracefs; `None`, with the test skipped, if this process may not use it.
pub(crate) fn tracefs() -> Option<Tracefs> {
    match Tracefs::open() {
        Ok(tracefs) => Some(tracefs),
        Err(error @ Error::NotAvailable { .. }) => {
            skip(Need::Tracefs, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
