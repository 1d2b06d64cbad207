//! The binary `roundtrip`. It is a separate package because the linker optimises code on the path
//! of a call at the level of the package that it links: this one is optimised for speed, the many
//! commands for size.

#[cfg(no_unwind_tables)]
mod no_unwinder;

use std::process::ExitCode;

fn main() -> ExitCode {
    roundtrip_cli::main()
}
