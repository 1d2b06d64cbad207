//! The flags of Google Benchmark's programs, and the outputs for their rows. The formats are
//! elsewhere.

pub(crate) mod flags;
mod output;

pub(crate) use output::Output;

#[cfg(test)]
mod tests;
