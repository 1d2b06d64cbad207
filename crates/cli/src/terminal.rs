//! A command's output streams, and whether they show colour. The streams are passed in, so that
//! tests can check all output. Must not know what is written.

use std::io::{self, IsTerminal as _, Write};

use roundtrip_report::text::look::Look;

/// A command's output streams, and the name by which it was called.
pub(crate) struct Terminal<'a> {
    /// Standard output, only for the result.
    pub(crate) out: &'a mut dyn Write,
    /// Standard error, for progress, warnings and diagnostics.
    pub(crate) err: &'a mut dyn Write,
    /// The colours and width of standard output.
    pub(crate) look: Look,
    /// `argv[0]`.
    pub(crate) executable: String,
}

/// A command's exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// The command succeeded.
    pub(crate) const OK: Self = Self(0);
    /// The command failed.
    pub(crate) const FAILED: Self = Self(1);
    /// Invalid usage.
    pub(crate) const USAGE: Self = Self(2);
    /// The command succeeded, but its result violates a gate or a requirement.
    pub(crate) const VIOLATED: Self = Self(3);

    /// A signal with this name ended the measurement.
    pub(crate) fn signalled(name: &str) -> Self {
        // Only these signals leave a result.
        Self(match name {
            "SIGHUP" => 129,
            "SIGINT" => 130,
            _ => 143,
        })
    }
}

/// Whether a stream shows colour: it must be a terminal with colour support, and `NO_COLOR`
/// (<https://no-color.org>) must not be set.
pub(crate) fn wants_colour(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// The maximum line width in columns: `COLUMNS` if that is a positive number, else the terminal's
/// width. `None` means no limit, if the output is not a terminal.
pub(crate) fn width(terminal: Option<usize>, variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let asked = variable("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|&columns| columns > 0);
    asked.or(terminal)
}

/// The colours and width of the real standard output.
pub(crate) fn look() -> Look {
    let variable = |name: &str| std::env::var(name).ok();
    let stdout = io::stdout();
    let columns = terminal_size::terminal_size_of(&stdout).map(|(columns, _)| usize::from(columns.0));
    Look {
        colour: wants_colour(stdout.is_terminal(), variable),
        is_terminal: stdout.is_terminal(),
        // Some terminals, such as serial ones, report 0.
        width: width(columns.filter(|&columns| columns > 0), variable),
    }
}

/// Standard output that remembers whether its reader is gone, which is not an error (`| head`).
pub(crate) struct Stdout {
    stream: io::Stdout,
    /// Whether a write failed because there was no reader.
    pub(crate) reader_gone: bool,
    /// Whether the process was started without standard output. Writes fail then.
    closed: bool,
}

impl Stdout {
    /// The process's standard output, line-buffered.
    pub(crate) fn new(closed: bool) -> Self {
        Self { stream: io::stdout(), reader_gone: false, closed }
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                error
            }
            // The caller retries.
            io::ErrorKind::Interrupted => error,
            kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
        })
    }
}

/// Whether an error came from writing to an output whose reader is gone.
pub(crate) fn nobody_reads(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        kind.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = match self.closed {
            true => Err(rustix::io::Errno::BADF.into()),
            false => self.stream.write(bytes),
        };
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
    fn a_closed_output_is_an_error() {
        let error = Stdout::new(true).write(b"figures").unwrap_err();
        assert!(
            error.to_string().starts_with("cannot write to standard output: Bad file descriptor"),
            "{error}"
        );
    }

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
