//! [`Error`]: why a file cannot be read at all.

use roundtrip_files::Exceeded;

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is something else.
    #[error("it is {what}, not a recording that this program reads: {how}")]
    Unknown {
        /// What it is.
        what: &'static str,
        /// What to do instead.
        how: &'static str,
    },
    /// The header is damaged.
    #[error("{form}: {what}; copy the file again, or record it again")]
    Unreadable {
        /// The format that it seemed to have.
        form: &'static str,
        /// What is wrong, and where.
        what: String,
    },
    /// A known format that this crate does not read.
    #[error("{form}: {what}")]
    Unsupported {
        /// The format.
        form: &'static str,
        /// What cannot be read, and what to do instead.
        what: String,
    },
    /// The file exceeds a limit.
    #[error("it is too large: {what}")]
    TooLarge {
        /// The limit, and what to do.
        what: String,
    },
    /// An archive contains more than one recording.
    #[error("{form}: it contains several recordings: unpack it, and give one of {names}")]
    Several {
        /// The archive's format.
        form: &'static str,
        /// The recordings' names, the first few if there are many.
        names: String,
    },
}

impl Error {
    /// The file asks for more than its budget.
    pub(crate) fn exceeded(what: Exceeded) -> Self {
        let what = match what {
            Exceeded::Items(events) => format!("it has more than {events} events"),
            what => what.to_string(),
        };
        Self::TooLarge { what: format!("{what}: record for a shorter time, or fewer kinds of events") }
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
