//! Writes through an io_uring of one entry, past the page cache: completed by interrupt, or polled for by the writer. Must not
//! know what they are measured for.
#![allow(unsafe_code)] // The rings are memory that is shared with the kernel, reached by offsets that it gives.

use std::fs::File;
use std::io::{Error as IoError, Result as IoResult};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

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

/// How long a write is waited for that the kernel has, when it refuses to be entered: longer than any disk takes.
const COMPLETED_WITHIN: Duration = Duration::from_secs(30);

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
    taken: *mut AtomicU32,
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
    enter: fn(&OwnedFd, u32) -> IoResult<u32>,
    memory: Vec<u8>,
    /// What of it is written.
    data: Range<usize>,
    /// Whether the kernel may still read the memory.
    in_flight: bool,
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
                rings.place(params.sq_off[0])?,
                rings.place(params.sq_off[1])?,
                rings.place(params.cq_off[0])?,
                rings.place(params.cq_off[1])?,
                entries.place(0)?,
                rings.place(params.cq_off[5])?,
                mask,
            ))
        };
        let Some((taken, submitted, completed_head, completed_tail, entry, completions, mask)) = places()
        else {
            return Err(IoError::other("io_uring's offsets lie outside its memory"));
        };
        Ok(Ring {
            taken,
            submitted,
            completed_head,
            completed_tail,
            entry,
            completions,
            mask,
            _rings: rings,
            _entries: entries,
            fd,
            enter,
            memory: Vec::new(),
            data: 0..0,
            in_flight: false,
        })
    }

    /// Memory of this many bytes to be written, at a multiple of `alignment`.
    ///
    /// # Errors
    /// When the kernel may still read the memory of an earlier write.
    pub(super) fn memory(&mut self, bytes: usize, alignment: usize) -> IoResult<&mut [u8]> {
        self.idle()?;
        self.memory = vec![0; bytes + alignment];
        self.data = self.memory.as_ptr().align_offset(alignment)..0;
        self.data.end = self.data.start + bytes;
        Ok(&mut self.memory[self.data.clone()])
    }

    /// Writes all of the [memory](Ring::memory) at `position`, and waits until that is done.
    ///
    /// # Errors
    /// The write's own. When the kernel refuses to be entered while a write is on its way, that write is waited for, and after
    /// [`COMPLETED_WITHIN`] the ring can no longer be used.
    pub(super) fn write(&mut self, file: &File, position: u64) -> IoResult<()> {
        self.idle()?;
        let data = &self.memory[self.data.clone()];
        let length = data.len();
        let entry = Entry {
            opcode: OP_WRITE,
            fd: file.as_raw_fd(),
            offset: position,
            address: data.as_ptr() as u64,
            length: u32::try_from(length).map_err(IoError::other)?,
            ..Entry::default()
        };
        // SAFETY: the pointers lie in mappings that live as long as this value; the kernel does not touch the entry before
        // the tail is moved, nor the tail ever. Until the write is known to be complete, `in_flight` keeps the memory: it is
        // neither changed nor freed, even when this value ends.
        unsafe {
            self.entry.write(entry);
            (*self.submitted).fetch_add(1, Ordering::Release);
        }
        self.in_flight = true;
        let mut to_submit = 1;
        let mut refused: Option<(IoError, Instant)> = None;
        loop {
            match (self.enter)(&self.fd, to_submit) {
                Ok(0) => {}
                Ok(_) => to_submit = 0,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if self.take_back() => return Err(error),
                // The kernel has the entry. Its completion may come without entering.
                Err(error) => {
                    let (error, since) = refused.get_or_insert((error, Instant::now()));
                    if since.elapsed() > COMPLETED_WITHIN {
                        return Err(IoError::new(error.kind(), error.to_string()));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                    to_submit = 0;
                }
            }
            let Some(result) = self.completed() else { continue };
            self.in_flight = false;
            return match usize::try_from(result) {
                Ok(written) if written == length => Ok(()),
                Ok(written) => Err(IoError::other(format!("only {written} of {length} bytes were written"))),
                Err(_) => Err(IoError::from_raw_os_error(-result)),
            };
        }
    }

    fn idle(&self) -> IoResult<()> {
        if self.in_flight {
            return Err(IoError::other("the kernel has not completed an earlier write"));
        }
        Ok(())
    }

    /// Takes the entry out of the ring again, unless the kernel has it already.
    fn take_back(&mut self) -> bool {
        // SAFETY: both lie in a mapping that lives as long as this value. The kernel moves its head only when it is entered,
        // by this thread, and there is no thread of its own (no IORING_SETUP_SQPOLL).
        unsafe {
            let submitted = (*self.submitted).load(Ordering::Relaxed);
            if (*self.taken).load(Ordering::Acquire) == submitted {
                return false;
            }
            (*self.submitted).store(submitted.wrapping_sub(1), Ordering::Release);
        }
        self.in_flight = false;
        true
    }

    /// The result of the write, once it is complete.
    fn completed(&mut self) -> Option<i32> {
        // SAFETY: the pointers lie in mappings that live as long as this value; the kernel writes a completion before it moves
        // the tail.
        unsafe {
            let head = (*self.completed_head).load(Ordering::Relaxed);
            if head == (*self.completed_tail).load(Ordering::Acquire) {
                return None;
            }
            let result = self.completions.add((head & self.mask) as usize).read().result;
            (*self.completed_head).store(head.wrapping_add(1), Ordering::Release);
            Some(result)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight {
            // The kernel may read it for as long as this process lives.
            std::mem::forget(std::mem::take(&mut self.memory));
        }
    }
}

/// Submits so many entries, waits for one completion, and tells how many were submitted.
fn enter(ring: &OwnedFd, to_submit: u32) -> IoResult<u32> {
    let null = std::ptr::null::<libc::sigset_t>();
    // SAFETY: no pointer is handed over but through the ring.
    let entered = unsafe {
        libc::syscall(libc::SYS_io_uring_enter, ring.as_raw_fd(), to_submit, 1, GET_EVENTS, null, 0)
    };
    u32::try_from(entered).map_err(|_| IoError::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring, and a file that it may write; `None`, with the test skipped, where there is no io_uring.
    fn ring(enter: fn(&OwnedFd, u32) -> IoResult<u32>) -> Option<(Ring, File)> {
        match Ring::new(false) {
            Ok(mut ring) => {
                ring.enter = enter;
                let file = rustix::fs::memfd_create("written", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
                Some((ring, file.into()))
            }
            Err(error) => {
                skips::skip(skips::Need::Machine, format!("no io_uring: {error}"));
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
    fn a_write_that_the_kernel_has_is_waited_for_when_it_cannot_be_entered() {
        // What a seccomp filter does that is installed by another thread meanwhile.
        let submits_and_fails = |ring: &OwnedFd, to_submit: u32| {
            if to_submit > 0 {
                enter(ring, to_submit).unwrap();
            }
            Err(IoError::from_raw_os_error(libc::EPERM))
        };
        let Some((mut ring, file)) = ring(submits_and_fails) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.write(&file, 0).unwrap();
        assert!(!ring.in_flight && written(&file) == [7; 4096]);
    }

    #[test]
    fn an_entry_that_the_kernel_has_not_taken_is_not_left_to_a_later_write() {
        let fails = |_: &OwnedFd, _: u32| Err(IoError::from_raw_os_error(libc::EPERM));
        let Some((mut ring, file)) = ring(fails) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        assert_eq!(ring.write(&file, 0).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(!ring.in_flight && written(&file).is_empty());
        ring.enter = enter;
        ring.memory(512, 512).unwrap().fill(9);
        ring.write(&file, 0).unwrap();
        assert_eq!(written(&file), [9; 512]);
    }

    #[test]
    fn a_write_is_not_begun_twice_when_a_signal_comes() {
        let interrupted = |ring: &OwnedFd, to_submit: u32| {
            if to_submit > 0 {
                return enter(ring, to_submit);
            }
            Err(IoError::from_raw_os_error(libc::EINTR))
        };
        let Some((mut ring, file)) = ring(interrupted) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.write(&file, 0).unwrap();
        assert_eq!(written(&file), [7; 4096]);
    }

    #[test]
    fn memory_that_the_kernel_may_read_is_neither_given_out_nor_freed() {
        let Some((mut ring, file)) = ring(enter) else { return };
        ring.memory(4096, 4096).unwrap().fill(7);
        ring.in_flight = true;
        ring.memory(4096, 4096).unwrap_err();
        ring.write(&file, 0).unwrap_err();
        let data = ring.memory[ring.data.clone()].as_ptr_range();
        drop(ring);
        let others: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 8192]).collect();
        assert!(others.iter().all(|other| !data.contains(&other.as_ptr())), "it was freed");
    }

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!((size_of::<Params>(), size_of::<Entry>(), size_of::<Completion>()), (120, 64, 16));
        assert_eq!(std::mem::offset_of!(Params, sq_off), 40);
        assert_eq!(std::mem::offset_of!(Params, cq_off), 80);
        assert_eq!(std::mem::offset_of!(Entry, user_data), 32);
    }
}
