//! What tests of drivers share. The conformance suite itself is this package's test. Cargo
//! optimises all of a package or nothing, and the suite compiles four times faster unoptimised, so
//! it is not in the package of the emulated driver.

pub mod signals;
