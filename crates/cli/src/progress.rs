//! Progress on standard error, as one line that is written over: only where a person watches, and gone when the run is
//! over. Knows nothing of what is done.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use bench::Progress;

/// Often enough to be seen moving, seldom enough not to disturb what is measured.
const INTERVAL: Duration = Duration::from_millis(250);

/// The line.
pub(crate) struct ProgressLine<'a> {
    err: &'a mut dyn Write,
    /// `None` where nobody watches.
    next: Option<Instant>,
}

impl<'a> ProgressLine<'a> {
    /// A line on `err` if the process's standard error is a terminal; else nothing.
    pub(crate) fn new(err: &'a mut dyn Write) -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { err, next: watched.then(Instant::now) }
    }

    /// Says what is going on, once, where nobody watches a line that moves.
    pub(crate) fn note(&mut self, what: &str) {
        if self.next.is_none() {
            let _ = writeln!(self.err, "{what}");
        }
    }

    /// Shows a step, unless the last one was shown just now. A write error is nobody's concern.
    pub(crate) fn show(&mut self, Progress { what, done, total }: Progress<'_>) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + INTERVAL);
            let percent = 100 * done / total.max(1);
            let _ = write!(self.err, "\r{what}: {percent}% ({done} of {total})\x1b[K");
            let _ = self.err.flush();
        }
    }
}

impl Drop for ProgressLine<'_> {
    fn drop(&mut self) {
        if self.next.is_some() {
            let _ = write!(self.err, "\r\x1b[K");
            let _ = self.err.flush();
        }
    }
}
