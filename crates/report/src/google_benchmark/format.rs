//! What the formats share.

use std::io::{self, Write};

use super::{Context, Row};

/// A format. The caller calls `begin` once, `rows` for each benchmark, then `end`.
pub trait Format {
    /// Writes the context; the console format writes it to standard error.
    fn begin(&mut self, context: &Context, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()>;
    /// Writes the rows of one benchmark.
    fn rows(&mut self, rows: &[Row], out: &mut dyn Write) -> io::Result<()>;
    /// Ends the output.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.flush()
    }
}
