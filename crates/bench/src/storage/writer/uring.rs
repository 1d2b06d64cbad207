//! Writes through an io_uring of one entry, past the page cache: completed by interrupt, or polled for by the writer. Must not
//! know what they are measured for.
#![allow(unsafe_code)] // The rings are memory that is shared with the kernel, reached by offsets that it gives.

use std::fs::File;
use std::io::{Error as IoError, Result as IoResult};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// `IORING_SETUP_IOPOLL` (include/uapi/linux/io_uring.h).
const IOPOLL: u32 = 1;
/// `IORING_FEAT_SINGLE_MMAP`: both rings are one mapping (Linux 5.4).
const SINGLE_MMAP: u32 = 1;
/// `IORING_OFF_SQ_RING`, `IORING_OFF_SQES`.
const RINGS_AT: i64 = 0;
const ENTRIES_AT: i64 = 0x1000_0000;
/// `IORING_ENTER_GETEVENTS`.
const GET_EVENTS: u32 = 1;
/// `IORING_OP_WRITE` (Linux 5.6).
const OP_WRITE: u8 = 23;

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, resv1.
    sq_off: [u32; 8],
    sq_user_addr: u64,
    /// head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv1.
    cq_off: [u32; 8],
    cq_user_addr: u64,
}

/// `struct io_uring_sqe`, as far as a write uses it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Entry {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    offset: u64,
    address: u64,
    length: u32,
    rw_flags: u32,
    user_data: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// Memory of the kernel's, mapped.
#[derive(Debug)]
struct Mapping {
    at: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(ring: &OwnedFd, offset: i64, bytes: usize) -> IoResult<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping of a descriptor that is open; nothing is mapped over.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, ring.as_raw_fd(), offset) };
        if at == libc::MAP_FAILED {
            Err(IoError::last_os_error())
        } else {
            Ok(Mapping { at: at.cast(), bytes })
        }
    }

    /// The `T` at an offset; `None` where none fits.
    fn place<T>(&self, offset: u32) -> Option<*mut T> {
        let end = (offset as usize).checked_add(size_of::<T>())?;
        // SAFETY: within the mapping, as has just been seen.
        let place = (end <= self.bytes).then(|| unsafe { self.at.add(offset as usize) }.cast::<T>())?;
        place.is_aligned().then_some(place)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap with this length, and nobody keeps a pointer into it beyond this value.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// A ring with one entry.
#[derive(Debug)]
pub(super) struct Ring {
    submitted: *mut AtomicU32,
    completed_head: *mut AtomicU32,
    completed_tail: *mut AtomicU32,
    entry: *mut Entry,
    completions: *mut Completion,
    mask: u32,
    // Behind the pointers into them.
    _rings: Mapping,
    _entries: Mapping,
    fd: OwnedFd,
}

impl Ring {
    /// Makes one; `polled`: completions are polled for.
    pub(super) fn new(polled: bool) -> IoResult<Ring> {
        let mut params = Params { flags: if polled { IOPOLL } else { 0 }, ..Params::default() };
        // SAFETY: `params` has the layout that the kernel reads and writes (checked by a test against its size).
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut params) };
        if fd < 0 {
            return Err(IoError::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        if params.features & SINGLE_MMAP == 0 {
            return Err(IoError::other("io_uring of this kernel is too old: it takes Linux 5.6"));
        }
        let submission = params.sq_off[6] as usize + params.sq_entries as usize * size_of::<u32>();
        let completion = params.cq_off[5] as usize + params.cq_entries as usize * size_of::<Completion>();
        let rings = Mapping::new(&fd, RINGS_AT, submission.max(completion))?;
        let entries = Mapping::new(&fd, ENTRIES_AT, params.sq_entries as usize * size_of::<Entry>())?;
        let places = || {
            let array: *mut u32 = rings.place(params.sq_off[6])?;
            let mask: *mut u32 = rings.place(params.cq_off[2])?;
            // SAFETY: both lie in the mapping; the kernel does not change them. The only entry is always the first.
            let mask = unsafe {
                array.write(0);
                mask.read()
            };
            // The last completion fits, too.
            rings.place::<Completion>(params.cq_off[5] + mask * size_of::<Completion>() as u32)?;
            Some((
                rings.place(params.sq_off[1])?,
                rings.place(params.cq_off[0])?,
                rings.place(params.cq_off[1])?,
                entries.place(0)?,
                rings.place(params.cq_off[5])?,
                mask,
            ))
        };
        let Some((submitted, completed_head, completed_tail, entry, completions, mask)) = places() else {
            return Err(IoError::other("io_uring's offsets lie outside its memory"));
        };
        Ok(Ring {
            submitted,
            completed_head,
            completed_tail,
            entry,
            completions,
            mask,
            _rings: rings,
            _entries: entries,
            fd,
        })
    }

    /// Writes all of `data` at `position`, and waits until that is done.
    pub(super) fn write(&mut self, file: &File, data: &[u8], position: u64) -> IoResult<()> {
        let entry = Entry {
            opcode: OP_WRITE,
            fd: file.as_raw_fd(),
            offset: position,
            address: data.as_ptr() as u64,
            length: u32::try_from(data.len()).map_err(IoError::other)?,
            ..Entry::default()
        };
        // SAFETY: the pointers lie in mappings that live as long as this value; the kernel does not touch the entry before
        // the tail is moved, nor the tail ever. `data` outlives the write, for this returns when that is complete.
        unsafe {
            self.entry.write(entry);
            (*self.submitted).fetch_add(1, Ordering::Release);
        }
        let mut to_submit = 1;
        loop {
            // SAFETY: no pointer is handed over but through the ring.
            let entered = unsafe {
                let null = std::ptr::null::<libc::sigset_t>();
                let fd = self.fd.as_raw_fd();
                libc::syscall(libc::SYS_io_uring_enter, fd, to_submit, 1, GET_EVENTS, null, 0)
            };
            if entered < 0 {
                let error = IoError::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error);
                }
            } else if entered > 0 {
                to_submit = 0;
            }
            // SAFETY: as above; the kernel writes a completion before it moves the tail.
            let result = unsafe {
                let head = (*self.completed_head).load(Ordering::Relaxed);
                if head == (*self.completed_tail).load(Ordering::Acquire) {
                    continue;
                }
                let result = self.completions.add((head & self.mask) as usize).read().result;
                (*self.completed_head).store(head.wrapping_add(1), Ordering::Release);
                result
            };
            return match usize::try_from(result) {
                Ok(written) if written == data.len() => Ok(()),
                Ok(written) => {
                    Err(IoError::other(format!("only {written} of {} bytes were written", data.len())))
                }
                Err(_) => Err(IoError::from_raw_os_error(-result)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!((size_of::<Params>(), size_of::<Entry>(), size_of::<Completion>()), (120, 64, 16));
        assert_eq!(std::mem::offset_of!(Params, sq_off), 40);
        assert_eq!(std::mem::offset_of!(Params, cq_off), 80);
        assert_eq!(std::mem::offset_of!(Entry, user_data), 32);
    }
}
