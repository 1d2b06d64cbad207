//! Where a command writes: two streams that are passed in, so that every output can be tested, and
//! whether colour is wanted on them. Knows nothing of what is written.

use std::io::{self, IsTerminal as _, Write};

use report::look::Look;

/// A command's output streams and the name that it was called by.
pub(crate) struct Terminal<'a> {
    /// Standard output: the result and nothing else.
    pub(crate) out: &'a mut dyn Write,
    /// Standard error: progress, warnings, diagnostics.
    pub(crate) err: &'a mut dyn Write,
    /// What standard output shows.
    pub(crate) look: Look,
    /// `argv[0]`, as it was typed.
    pub(crate) executable: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// It did what it was asked.
    pub(crate) const OK: Self = Self(0);
    /// It could not, or what it measured was asked to count as a failure.
    pub(crate) const FAILED: Self = Self(1);
    /// The command line made no sense.
    pub(crate) const USAGE: Self = Self(2);

    /// A signal with this name has ended the measuring.
    pub(crate) fn signalled(name: &str) -> Self {
        // Only these two leave a result.
        Self(if name == "SIGINT" { 130 } else { 143 })
    }
}

/// Whether colour is wanted on a stream: it is a terminal that can, and `NO_COLOR`
/// (<https://no-color.org>) is not set to anything.
pub(crate) fn wants_colour(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// How wide lines may be: as `COLUMNS` says where it is a number above 0, else as wide as the
/// terminal. What is no terminal takes lines of any length.
pub(crate) fn width(terminal: Option<usize>, variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let asked = variable("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|&columns| columns > 0);
    asked.or(terminal)
}

/// What the real standard output shows.
pub(crate) fn look() -> Look {
    let variable = |name: &str| std::env::var(name).ok();
    let stdout = io::stdout();
    let columns = terminal_size::terminal_size_of(&stdout).map(|(columns, _)| usize::from(columns.0));
    Look {
        colour: wants_colour(stdout.is_terminal(), variable),
        // Some terminals, serial ones among them, tell 0.
        width: width(columns.filter(|&columns| columns > 0), variable),
    }
}

/// Standard output that remembers whether its reader went away, which is no error of ours (`|
/// head`).
pub(crate) struct Stdout {
    stream: io::Stdout,
    /// Whether a write found nobody to read it.
    pub(crate) reader_gone: bool,
}

impl Stdout {
    /// The process's standard output, buffered by lines.
    pub(crate) fn new() -> Self {
        Self { stream: io::stdout(), reader_gone: false }
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                error
            }
            // Tried again by those who write.
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
        })
    }
}

/// Whether an error is that of writing to somebody who does not read any more.
pub(crate) fn nobody_reads(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        kind.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.stream.write(bytes);
        self.noting(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.stream.flush();
        self.noting(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_what_columns_says_or_the_terminals() {
        let with = |columns: Option<&str>| {
            let columns = columns.map(str::to_owned);
            move |name: &str| columns.clone().filter(|_| name == "COLUMNS")
        };
        assert_eq!(width(Some(120), with(None)), Some(120));
        assert_eq!(width(Some(120), with(Some("80"))), Some(80));
        assert_eq!(width(None, with(Some("80"))), Some(80));
        for nonsense in ["", "0", "-1", "wide"] {
            assert_eq!(width(Some(120), with(Some(nonsense))), Some(120), "{nonsense}");
        }
        assert_eq!(width(None, with(None)), None);
    }

    #[test]
    fn colour_needs_a_terminal_that_can_and_nobody_who_objects() {
        let with = |no_color: Option<&str>, term: Option<&str>| {
            let (no_color, term) = (no_color.map(str::to_owned), term.map(str::to_owned));
            wants_colour(true, move |name| if name == "NO_COLOR" { no_color.clone() } else { term.clone() })
        };
        assert!(with(None, Some("xterm")) && with(Some(""), Some("xterm")));
        assert!(!with(Some("1"), Some("xterm")) && !with(None, Some("dumb")) && !with(None, None));
        assert!(!wants_colour(false, |_| Some("xterm".into())));
    }
}
