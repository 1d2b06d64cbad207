//! Files that others can reach: results written whole or not at all, never over something that is
//! there unless that is asked for, never through a symbolic link; and files of unknown origin, read
//! only if they are regular and of a sensible size. Must not know what is in a file, nor which
//! option asks for it.

#[cfg(feature = "write")]
mod link;
#[cfg(feature = "write")]
mod owned;
#[cfg(feature = "write")]
mod private;
mod read;
#[cfg(feature = "write")]
mod write;

#[cfg(feature = "write")]
pub use link::followed;
#[cfg(feature = "write")]
pub use owned::Owned;
#[cfg(feature = "write")]
pub use private::{private_directories, private_directory};
pub use read::{read, read_within};
#[cfg(feature = "write")]
pub use write::{Existing, NewFile, put, refuse_existing, write};
