//! [`Error`]: why a file cannot be read at all.

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
    pub(crate) fn too_many_events() -> Self {
        let millions = crate::MAX_EVENTS / 1_000_000;
        Self::TooLarge {
            what: format!(
                "it has more than {millions} million events: record for a shorter time, or fewer kinds of events"
            ),
        }
    }

    /// More threads, names or parts than any real recording of that many events has.
    pub(crate) fn too_much() -> Self {
        let what = "it has more threads, names or parts than this program reads: record for a shorter time";
        Self::TooLarge { what: what.to_owned() }
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
