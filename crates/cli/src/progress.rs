//! Shows progress on standard error, as one line that is rewritten. The line is shown only on a
//! terminal, and removed at the end of the run. Must not know what is being done.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use roundtrip_bench::Progress;

/// The minimum time between two updates of the line: short enough to show that the program is
/// alive, long enough not to disturb the measurement.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a command runs before it shows an estimate of the remaining time. An earlier estimate
/// would be unreliable.
const ESTIMATED_AFTER: Duration = Duration::from_secs(2);

/// The progress line.
pub(crate) struct ProgressLine<'a> {
    err: &'a mut dyn Write,
    began: Instant,
    /// When the line may be updated next; `None` if there is no progress line.
    next: Option<Instant>,
    hidden: bool,
}

impl<'a> ProgressLine<'a> {
    /// A progress line if the process's standard error is a terminal that can rewrite a line; else
    /// nothing.
    pub(crate) fn new(err: &'a mut dyn Write) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let watched = std::io::stderr().is_terminal() && !dumb;
        let began = Instant::now();
        Self { err, began, next: watched.then_some(began), hidden: false }
    }

    /// A progress line that shows nothing.
    pub(crate) fn hidden(err: &'a mut dyn Write) -> Self {
        Self { err, began: Instant::now(), next: None, hidden: true }
    }

    /// Reports the current activity once if there is no progress line.
    pub(crate) fn note(&mut self, what: &str) {
        if self.next.is_none() && !self.hidden {
            let _ = writeln!(self.err, "{what}");
        }
    }

    /// Prints a line that stays.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn say(&mut self, line: &str) -> std::io::Result<()> {
        let erase = if self.next.is_some() { "\r\x1b[K" } else { "" };
        writeln!(self.err, "{erase}{line}")
    }

    /// Prints a line that is not overwritten, unless this line is hidden. Ignores write errors.
    pub(crate) fn tell(&mut self, line: &str) {
        if !self.hidden {
            let _ = self.say(line);
        }
    }

    /// Shows a step, unless another was shown a moment ago. Ignores write errors.
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

/// The estimated remaining time at the current rate; `None` if it is unknown.
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
