//! The binary `roundtrip`.
fn main() {}
