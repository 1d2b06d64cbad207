//! [`Error`]: why a file cannot be read at all.

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The format is unknown.
    #[error(
        "neither a Perfetto trace, nor trace-cmd's trace.dat, nor the kernel's text of a trace: give one of these, or a \
         run directory"
    )]
    Unknown,
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
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
