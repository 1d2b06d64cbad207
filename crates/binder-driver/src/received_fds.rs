//! [`ReceivedFds`]: the file descriptors that a driver opened for its process.
//!
//! The data of a transaction contains only their numbers. A reader looks the number up here, so a
//! number that the driver did not write yields no descriptor.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

/// The received descriptors that were not taken yet.
///
/// The receiver may take descriptors that were sent singly (`BINDER_TYPE_FD`). The driver closes
/// the descriptors of an array (`BINDER_TYPE_FDA`) when it frees the buffer that contains their
/// numbers.
///
/// Dropping this value closes no descriptor: as with the kernel driver, a process's descriptors
/// outlive its device.
#[derive(Debug, Default)]
pub struct ReceivedFds {
    all: Mutex<All>,
    /// The number of buffers with arrays. If it is 0, as usual, freeing a buffer costs only one
    /// load.
    arrays: AtomicUsize,
}

#[derive(Debug, Default)]
struct All {
    single: HashMap<RawFd, OwnedFd>,
    /// The descriptors in arrays, by the address of their buffer.
    arrays: HashMap<u64, Vec<OwnedFd>>,
}

impl ReceivedFds {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a descriptor that is not in an array.
    pub fn add(&self, fd: OwnedFd) {
        let stale = self.all().single.insert(fd.as_raw_fd(), fd);
        // An earlier entry with this number is stale: its descriptor was closed elsewhere, so it
        // must not be closed again.
        forget(stale);
    }

    /// Adds descriptors that the driver closes with `buffer`.
    pub fn add_array(&self, buffer: u64, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            let mut all = self.all();
            // An entry can exist already only if shared memory is corrupt.
            all.arrays.entry(buffer).or_default().extend(fds);
            self.arrays.store(all.arrays.len(), Ordering::Relaxed);
        }
    }

    /// Returns true if any buffer has an array.
    #[must_use]
    #[inline]
    pub fn has_arrays(&self) -> bool {
        self.arrays.load(Ordering::Relaxed) != 0
    }

    /// Takes the descriptors of `buffer`, which is being freed.
    #[must_use]
    pub fn take_array(&self, buffer: u64) -> Vec<OwnedFd> {
        if !self.has_arrays() {
            return Vec::new();
        }
        let mut all = self.all();
        let ended = all.arrays.remove(&buffer).unwrap_or_default();
        self.arrays.store(all.arrays.len(), Ordering::Relaxed);
        ended
    }

    /// See [`Driver::take_fd`](crate::Driver::take_fd).
    #[must_use]
    pub fn take(&self, number: u32) -> Option<OwnedFd> {
        self.all().single.remove(&RawFd::try_from(number).ok()?)
    }

    /// See [`Driver::duplicate_fd`](crate::Driver::duplicate_fd).
    ///
    /// # Errors
    /// EBADF for an unknown number; EMFILE at the limit of open files.
    pub fn duplicate(&self, number: u32) -> Result<OwnedFd, Errno> {
        let all = self.all();
        let number = RawFd::try_from(number).map_err(|_| Errno::BADF)?;
        let in_array = || all.arrays.values().flatten().find(|fd| fd.as_raw_fd() == number);
        let found = all.single.get(&number).or_else(in_array).ok_or(Errno::BADF)?;
        rustix::io::fcntl_dupfd_cloexec(found, 0)
    }
}

impl Drop for ReceivedFds {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.all());
        forget(all.single.into_values());
        forget(all.arrays.into_values().flatten());
    }
}

/// Drops ownership of descriptors without closing them.
pub(crate) fn forget(fds: impl IntoIterator<Item = OwnedFd>) {
    for fd in fds {
        let _ = fd.into_raw_fd();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{PipeReader, PipeWriter, Read as _, Write as _};

    use super::*;

    fn pipe() -> (PipeReader, OwnedFd, u32) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let number = writer.as_raw_fd().unsigned_abs();
        (reader, writer.into(), number)
    }

    #[test]
    fn only_added_descriptors_can_be_taken_and_only_once() {
        let received = ReceivedFds::default();
        let ((mut reader, fd, number), (_own_reader, _own, own)) = (pipe(), pipe());
        received.add(fd);
        for foreign in [own, u32::MAX, 1 << 31] {
            assert_eq!(received.duplicate(foreign).err(), Some(Errno::BADF), "{foreign}");
            assert!(received.take(foreign).is_none(), "{foreign}");
        }
        let copy = received.duplicate(number).expect("a copy");
        assert_eq!(rustix::io::fcntl_getfd(&copy), Ok(rustix::io::FdFlags::CLOEXEC));
        PipeWriter::from(copy).write_all(b"copied").expect("an open pipe");
        drop(received.take(number).expect("it is the caller's"));
        assert!(received.take(number).is_none() && received.duplicate(number).is_err());
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("its end: both were closed");
        assert_eq!(text, "copied");
    }

    #[test]
    fn an_array_is_removed_with_its_buffer_and_cannot_be_taken_before() {
        let received = ReceivedFds::default();
        let ((_, first, number), (_, second, other)) = (pipe(), pipe());
        assert!(!received.has_arrays());
        received.add_array(8, vec![first]);
        received.add_array(16, vec![second]);
        received.add_array(24, Vec::new());
        assert!(received.take(number).is_none(), "the driver closes it");
        drop(received.duplicate(number).expect("a copy"));
        let ended = received.take_array(8);
        assert_eq!(ended.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect::<Vec<_>>(), [number]);
        assert!(received.duplicate(number).is_err() && received.duplicate(other).is_ok());
        assert!(received.take_array(8).is_empty() && received.has_arrays());
        assert_eq!(received.take_array(16).len(), 1);
        assert!(!received.has_arrays());
    }

    #[test]
    fn dropping_the_table_closes_no_descriptor() {
        let received = ReceivedFds::default();
        let ((reader, single, _), (other, in_array, _)) = (pipe(), pipe());
        received.add(single);
        received.add_array(8, vec![in_array]);
        drop(received);
        for reader in [reader, other] {
            let mut watched = [rustix::event::PollFd::new(&reader, rustix::event::PollFlags::IN)];
            let at_once = rustix::event::Timespec::default();
            assert_eq!(rustix::event::poll(&mut watched, Some(&at_once)), Ok(0), "its writer is open");
            drop(File::from(OwnedFd::from(reader)));
        }
    }
}
