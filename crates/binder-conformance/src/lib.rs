//! What tests of drivers share. The conformance suite itself is this package's test. It is a
//! package of its own because it would take four times as long to compile if it were optimised, as
//! the driver is.

pub mod signals;
