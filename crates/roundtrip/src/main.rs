//! The binary `roundtrip`. A package of its own, because the linker optimises all that a call runs
//! through at the level of the package it links: this one is optimised for speed, the many commands
//! behind it for size.

#[cfg(no_unwind_tables)]
mod no_unwinder;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
