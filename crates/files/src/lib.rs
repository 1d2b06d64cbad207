//! Files that others can reach: results written whole or not at all, never over something that is there unless that is asked
//! for, never through a symbolic link; and files of unknown origin, read only if they are regular and of a sensible size. Must
//! not know what is in a file, nor which option asks for it.

mod link;
mod owned;
mod private;
mod read;
mod write;

pub use link::followed;
pub use owned::Owned;
pub use private::{private_directories, private_directory};
pub use read::{read, read_within};
pub use write::{Existing, NewFile, put, refuse_existing, write};
