//! Recording the kernel's global trace as Android's `atrace` does, under that name and in
//! `roundtrip trace start`. Must not know which of the two was called.

mod arguments;
mod categories;
mod recording;

pub(crate) use arguments::{CIRCULAR, OUTPUT, POSITIONALS, Typed, WHAT, WHEN, at_least, size};
pub(crate) use recording::{Front, find, record};
