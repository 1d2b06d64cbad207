//! What can go wrong, named by operation and place.

/// Why a recording cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A description of the recording's layout (`format`, `header_page`, `header_event`) that cannot be understood.
    #[error("{file}: {what}; is it a copy of the recording kernel's file of that name?")]
    Format {
        /// The file, as below `events` in the tracing file system.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// Pages of a machine whose words begin with their highest byte.
    #[error("pages of CPU {cpu}: recorded on a big-endian machine, which this program does not read")]
    BigEndian {
        /// Whose pages.
        cpu: u32,
    },
    /// One CPU's pages were given in two pieces.
    #[error("pages of CPU {cpu}: given twice; join the pieces in the order of their recording")]
    CpuTwice {
        /// Which CPU.
        cpu: u32,
    },
    /// More events without a decoded form than one trace can hold (4 GiB of their bytes).
    #[error(
        "more than 4 GiB of events other than scheduler, interrupt and system call ones; record for a shorter time"
    )]
    TooLarge,
}
