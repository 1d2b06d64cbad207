//! Why a file cannot be read at all.

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is of no known form.
    #[error(
        "neither a Perfetto trace, nor trace-cmd's trace.dat, nor the kernel's text of a trace: name one of these, or a \
         run directory"
    )]
    Unknown,
    /// Its beginning makes no sense.
    #[error("{form}: {what}; copy the file again, or record it again")]
    Unreadable {
        /// What it seemed to be.
        form: &'static str,
        /// What is wrong, and where.
        what: String,
    },
    /// A form that exists, and that nobody reads here.
    #[error("{form}: {what}")]
    Unsupported {
        /// What it is.
        form: &'static str,
        /// What is not read, and what to do.
        what: String,
    },
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
