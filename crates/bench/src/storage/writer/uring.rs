//! Direct I/O through an io_uring with one entry: completed by interrupt, or polled by the writer.
//! Must not know what the writes are measured for.
#![allow(unsafe_code)] // The kernel reads a write's memory until the write is complete, whatever this process does in the meantime.

use std::fs::File;
use std::io::{Error as IoError, Result as IoResult};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};

/// How long to wait for a submitted write if `io_uring_enter` fails: longer than any disk takes.
const COMPLETED_WITHIN: Duration = Duration::from_secs(30);

/// A ring with one entry.
pub(super) struct Ring {
    ring: IoUring,
    polled: bool,
    /// Submits what is in the ring, and waits for one completion.
    enter: fn(&IoUring) -> IoResult<usize>,
    memory: Vec<u8>,
    /// The part of `memory` that is written.
    data: Range<usize>,
    /// Whether the kernel may still read the memory.
    in_flight: bool,
}

impl Ring {
    /// Creates a ring. If `polled`, completions are polled.
    ///
    /// # Errors
    /// If this kernel has no io_uring, or this process may not use it.
    pub(super) fn new(polled: bool) -> IoResult<Self> {
        let enter = |ring: &IoUring| ring.submit_and_wait(1);
        Ok(Self { ring: open(polled)?, polled, enter, memory: Vec::new(), data: 0..0, in_flight: false })
    }

    /// A buffer for the bytes to write, aligned to `alignment`.
    ///
    /// # Errors
    /// If the kernel may still read the buffer of an earlier write.
    pub(super) fn memory(&mut self, bytes: usize, alignment: usize) -> IoResult<&mut [u8]> {
        self.idle()?;
        self.memory = vec![0; bytes + alignment];
        self.data = self.memory.as_ptr().align_offset(alignment)..0;
        self.data.end = self.data.start + bytes;
        Ok(&mut self.memory[self.data.clone()])
    }

    /// Writes all of the [buffer](Ring::memory) at `position`, and waits until that is done.
    ///
    /// # Errors
    /// The errors of the write. If `io_uring_enter` fails after submission, this waits for the
    /// write; after [`COMPLETED_WITHIN`] the ring can no longer be used.
    pub(super) fn write(&mut self, file: &File, position: u64) -> IoResult<()> {
        self.idle()?;
        let data = &self.memory[self.data.clone()];
        let length = u32::try_from(data.len()).map_err(IoError::other)?;
        let entry =
            opcode::Write::new(types::Fd(file.as_raw_fd()), data.as_ptr(), length).offset(position).build();
        // SAFETY: the file stays open until this returns, or until the kernel has its own reference
        // to it. Until the write is known to be complete, `in_flight` protects the memory: it is
        // neither changed nor freed, even when this value is dropped.
        unsafe { self.ring.submission().push(&entry) }.map_err(IoError::other)?;
        self.in_flight = true;
        let mut refused: Option<(IoError, Instant)> = None;
        loop {
            match (self.enter)(&self.ring) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if !self.ring.submission().is_empty() => {
                    // The kernel has not consumed the entry, and a new ring will not contain it
                    // either.
                    self.in_flight = false;
                    self.ring = open(self.polled)?;
                    return Err(error);
                }
                // The kernel has consumed the entry. It may complete without another
                // `io_uring_enter`.
                Err(error) => {
                    let (error, since) = refused.get_or_insert((error, Instant::now()));
                    if since.elapsed() > COMPLETED_WITHIN {
                        return Err(IoError::new(error.kind(), error.to_string()));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let Some(completed) = self.ring.completion().next() else { continue };
            self.in_flight = false;
            return match u32::try_from(completed.result()) {
                Ok(written) if written == length => Ok(()),
                Ok(written) => Err(IoError::other(format!("only {written} of {length} bytes were written"))),
                Err(_) => Err(IoError::from_raw_os_error(-completed.result())),
            };
        }
    }

    fn idle(&self) -> IoResult<()> {
        if self.in_flight {
            return Err(IoError::other("the kernel has not completed an earlier write"));
        }
        Ok(())
    }
}

fn open(polled: bool) -> IoResult<IoUring> {
    let mut builder = IoUring::builder();
    if polled {
        builder.setup_iopoll();
    }
    builder.build(1)
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight {
            // Leaks the memory, because the kernel may read it for as long as this process lives.
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring, and a file to write; `None`, with the test skipped, if there is no io_uring.
    fn ring(enter: fn(&IoUring) -> IoResult<usize>) -> Option<(Ring, File)> {
        match Ring::new(false) {
            Ok(mut ring) => {
                ring.enter = enter;
                let file = rustix::fs::memfd_create("written", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
                Some((ring, file.into()))
            }
            Err(error) => {
                roundtrip_skips::skip(roundtrip_skips::Need::Machine, format!("no io_uring: {error}"));
                None
            }
        }
    }

    fn written(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn a_submitted_write_is_waited_for_even_if_io_uring_enter_fails() {
        // As if another thread had installed a seccomp filter.
        let submits_and_fails = |ring: &IoUring| {
            ring.submit().unwrap();
            Err(IoError::from_raw_os_error(libc::EPERM))
        };
        let Some((mut ring, file)) = ring(submits_and_fails) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.write(&file, 0).unwrap();
        assert!(!ring.in_flight && written(&file) == [7; 4096]);
    }

    #[test]
    fn an_entry_that_the_kernel_has_not_consumed_is_not_part_of_a_later_write() {
        let fails = |_: &IoUring| Err(IoError::from_raw_os_error(libc::EPERM));
        let Some((mut ring, file)) = ring(fails) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        assert_eq!(ring.write(&file, 0).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(!ring.in_flight && written(&file).is_empty());
        ring.enter = |ring| ring.submit_and_wait(1);
        ring.memory(512, 512).unwrap().fill(9);
        ring.write(&file, 0).unwrap();
        assert_eq!(written(&file), [9; 512]);
    }

    #[test]
    fn a_signal_does_not_submit_a_write_twice() {
        let interrupted = |ring: &IoUring| {
            ring.submit().unwrap();
            Err(IoError::from_raw_os_error(libc::EINTR))
        };
        let Some((mut ring, file)) = ring(interrupted) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.write(&file, 0).unwrap();
        assert_eq!(written(&file), [7; 4096]);
    }

    #[test]
    fn memory_that_the_kernel_may_read_is_neither_handed_out_nor_freed() {
        let Some((mut ring, file)) = ring(|ring| ring.submit_and_wait(1)) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.in_flight = true;
        ring.memory(4096, 4096).unwrap_err();
        ring.write(&file, 0).unwrap_err();
        let data = ring.memory[ring.data.clone()].as_ptr_range();
        drop(ring);
        let others: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 8192]).collect();
        assert!(others.iter().all(|other| !data.contains(&other.as_ptr())), "it was freed");
    }
}
