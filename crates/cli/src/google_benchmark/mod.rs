//! What Google Benchmark's programs have beside their formats: flags, and where rows go.

pub(crate) mod flags;
mod output;

pub(crate) use output::Output;

#[cfg(test)]
mod tests;
