//! What tests of drivers share. The conformance suite itself is this package's test. It is a package
//! of its own because it takes four times as long to compile when it is optimised, as the driver is.

pub mod signals;
