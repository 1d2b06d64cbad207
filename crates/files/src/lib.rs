//! Safe access to files that other users can reach. A result is written completely or not at all,
//! replaces an existing file only on request, and is never written through a symbolic link. A file
//! of unknown origin is read only if it is a regular file below a size limit. Must not know a
//! file's contents, nor the command-line options.

mod budget;
#[cfg(feature = "write")]
mod link;
#[cfg(feature = "write")]
mod lock;
#[cfg(feature = "write")]
mod owned;
#[cfg(feature = "write")]
mod private;
mod read;
#[cfg(feature = "write")]
mod write;

pub use budget::{Budget, Exceeded};
#[cfg(feature = "write")]
pub use link::followed;
#[cfg(feature = "write")]
pub use lock::{is_in_place, lock_abandoned};
#[cfg(feature = "write")]
pub use owned::Owned;
#[cfg(feature = "write")]
pub use private::{private_directories, private_directory};
pub use read::{open, read, read_within};
#[cfg(feature = "write")]
pub use write::{Existing, NewFile, folder_of, put, refuse_existing, write};
