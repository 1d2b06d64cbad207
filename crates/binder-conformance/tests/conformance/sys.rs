#![allow(unsafe_code)]
//! System calls that cases need and no library wraps.
//!
//! Unsafe: `clone(2)` without `exec`, the raw `sched_setattr(2)` (musl's wrapper returns ENOSYS),
//! and descriptors by number.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::io::Error;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Mutex;

use rustix::process::{Pid, WaitOptions};

/// Calls `act` in a new process that shares this one's memory and descriptors. Returns its result
/// and the process's id. The process has ended by then, but its id is not reused yet, because each
/// call reaps only the process that started [`KEPT`] calls earlier.
pub(crate) fn in_another_process<T, F: FnOnce() -> T>(act: F) -> (T, i32) {
    struct Job<T, F> {
        act: Option<F>,
        result: Option<T>,
    }
    extern "C" fn run<T, F: FnOnce() -> T>(job: *mut c_void) -> c_int {
        // SAFETY: the pointer is to the caller's job, and the caller sleeps until this function has
        // returned.
        let job = unsafe { &mut *job.cast::<Job<T, F>>() };
        job.result = job.act.take().map(|act| act());
        0
    }
    let mut job = Job { act: Some(act), result: None };
    let mut stack = vec![0_u128; 16 << 10];
    // Without the files, the new process's end would close copies of every descriptor, which
    // interrupts binder threads.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: the stack grows down from the end of `stack`, which is aligned to 16 bytes and
    // outlives the process, as `job` does: CLONE_VFORK keeps the calling thread asleep until the
    // process has ended, so that the thread-local memory that they share is never used by both.
    let pid = unsafe {
        libc::clone(run::<T, F>, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut job).cast())
    };
    assert!(pid > 0, "clone: {}", Error::last_os_error());
    let mut ended = ENDED.lock().expect("no panic while it is held");
    ended.push_back(pid);
    if ended.len() > KEPT {
        let oldest = ended.pop_front().and_then(Pid::from_raw);
        rustix::process::waitpid(oldest, WaitOptions::empty()).expect("a child of this process");
    }
    (job.result.expect("the process panicked"), pid)
}

/// More processes than any case opens, and fewer than any system allows.
const KEPT: usize = 100;
static ENDED: Mutex<VecDeque<i32>> = Mutex::new(VecDeque::new());

/// Runs the calling thread under `SCHED_FIFO`.
pub(crate) fn become_fifo(priority: u32) -> Result<(), Error> {
    // `struct sched_attr`: size, policy, flags (64 bits), nice, priority, then three 64-bit words
    // for deadlines.
    let attr: [u32; 12] = [48, libc::SCHED_FIFO.cast_unsigned(), 0, 0, 0, priority, 0, 0, 0, 0, 0, 0];
    // SAFETY: the kernel reads the 48 bytes that the first word announces.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attr.as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Takes over a descriptor that the driver has put into this process's table, and has forgotten
/// with its buffer or its device.
pub(crate) fn owned(fd: c_int) -> OwnedFd {
    // SAFETY: the driver has opened it for its receiver, which is this process, and nothing else in
    // it knows the number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
