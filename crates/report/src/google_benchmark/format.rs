//! What the formats have in common.

use std::io::{self, Write};

use super::{Context, Row};

/// One of the formats, fed in the order begin, rows, rows, …, end.
pub trait Format {
    /// Writes what is said once; the console format says it on standard error.
    fn begin(&mut self, context: &Context, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()>;
    /// Writes the rows of one benchmark.
    fn rows(&mut self, rows: &[Row], out: &mut dyn Write) -> io::Result<()>;
    /// Ends the output.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.flush()
    }
}
