//! What Google Benchmark's programs have besides formats: flags, and outputs for rows.

pub(crate) mod flags;
mod output;

pub(crate) use output::Output;

#[cfg(test)]
mod tests;
