//! Reads files of unknown origin. Opening and reading never block, and use no more memory than a
//! given limit.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is not a regular file, [`ErrorKind::FileTooLarge`] if it is
/// longer, [`ErrorKind::OutOfMemory`] if memory runs out, and the errors of system calls.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    read_within(path, &mut { most })
}

/// Like [`read`], for one of several files that may have `budget` bytes in total. Subtracts the
/// file's size from the budget.
///
/// # Errors
/// As [`read`].
pub fn read_within(path: &Path, budget: &mut u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > *budget {
        return Err(too_long(length, *budget));
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?)
        .map_err(|_| ErrorKind::OutOfMemory)?;
    // If the file grows meanwhile, reads only the size that it had when it was opened.
    file.take(length).read_to_end(&mut bytes)?;
    *budget -= bytes.len() as u64;
    Ok(bytes)
}

/// Opens a regular file, to read it in parts.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is not a regular file, and the errors of system calls.
pub fn open(path: &Path) -> Result<File> {
    // Checked before opening, because merely opening some devices starts them.
    only_regular(&std::fs::metadata(path)?)?;
    // The file may have been replaced meanwhile. Opening a FIFO must not block.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    only_regular(&found)?;
    if found.len() == 0 && (&file).read(&mut [0])? > 0 {
        // Files in /proc have size 0 until they are read.
        let what = "it claims to be empty but is not: a file of the kernel, not a regular file";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(file)
}

fn too_long(length: u64, most: u64) -> Error {
    Error::new(
        ErrorKind::FileTooLarge,
        format!("it has {length} bytes; at most {most} bytes are read of such a file"),
    )
}

fn only_regular(found: &Metadata) -> Result<()> {
    let kind = found.file_type();
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}
