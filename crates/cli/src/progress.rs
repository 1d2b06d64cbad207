//! Progress on standard error, as one line that is written over: only where a person watches, and
//! gone when the run is over. Knows nothing of what is done.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use bench::Progress;

/// Often enough to be seen moving, seldom enough not to disturb what is measured.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a command takes before it says how long it will take: before, the estimate is worth
/// nothing.
const ESTIMATED_AFTER: Duration = Duration::from_secs(2);

/// The line.
pub(crate) struct ProgressLine<'a> {
    err: &'a mut dyn Write,
    began: Instant,
    /// `None` where nobody watches.
    next: Option<Instant>,
    hidden: bool,
}

impl<'a> ProgressLine<'a> {
    /// A line on `err` if the process's standard error is a terminal that can go back in a line;
    /// else nothing.
    pub(crate) fn new(err: &'a mut dyn Write) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let watched = std::io::stderr().is_terminal() && !dumb;
        let began = Instant::now();
        Self { err, began, next: watched.then_some(began), hidden: false }
    }

    /// A line that says nothing.
    pub(crate) fn hidden(err: &'a mut dyn Write) -> Self {
        Self { err, began: Instant::now(), next: None, hidden: true }
    }

    /// Says what is going on, once, where nobody watches a line that moves.
    pub(crate) fn note(&mut self, what: &str) {
        if self.next.is_none() && !self.hidden {
            let _ = writeln!(self.err, "{what}");
        }
    }

    /// Says a line, which stays.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn say(&mut self, line: &str) -> std::io::Result<()> {
        let erase = if self.next.is_some() { "\r\x1b[K" } else { "" };
        writeln!(self.err, "{erase}{line}")
    }

    /// Shows a step, unless the last one was shown just now. A write error is nobody's concern.
    pub(crate) fn show(&mut self, Progress { what, done, total }: Progress<'_>) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            self.next = Some(now + INTERVAL);
            let percent = 100 * done / total.max(1);
            let left = left(now - self.began, done, total).map(|left| format!(", {left} left"));
            let _ = write!(self.err, "\r{what}: {percent}%{}\x1b[K", left.unwrap_or_default());
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

/// How long the rest takes if it goes on as before; `None` while nobody can tell.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<String> {
    if elapsed < ESTIMATED_AFTER || done == 0 || total == 0 {
        return None;
    }
    let rest = total.saturating_sub(done) as f64 / done as f64;
    let seconds = (elapsed.as_secs_f64() * rest).ceil() as u64;
    Some(if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_once_it_can_be_estimated() {
        let after = Duration::from_secs;
        assert_eq!(left(after(1), 5, 10), None);
        assert_eq!(left(after(10), 0, 10), None);
        assert_eq!(left(after(10), 4, 10).as_deref(), Some("15 s"));
        assert_eq!(left(after(10), 10, 10).as_deref(), Some("0 s"));
        assert_eq!(left(after(100), 1, 10).as_deref(), Some("15 min"));
    }
}
