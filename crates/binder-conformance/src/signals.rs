#![allow(unsafe_code)]
//! Signals to threads of this process, and how often they were handled.
//!
//! Unsafe: `sigaction(2)` and `tgkill(2)`, which rustix does not wrap.

use std::ffi::c_int;
use std::io::Error;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sends a thread of this process a signal whose handler was installed without `SA_RESTART`, so
/// that no system call is restarted.
pub fn signal(tid: i32) {
    static HANDLED: std::sync::Once = std::sync::Once::new();
    send(tid, libc::SIGUSR2, 0, &HANDLED);
}

/// The same with `SA_RESTART`.
pub fn restarting_signal(tid: i32) {
    static HANDLED: std::sync::Once = std::sync::Once::new();
    send(tid, libc::SIGUSR1, libc::SA_RESTART, &HANDLED);
}

/// How often these signals were handled.
pub static SIGNALS_HANDLED: AtomicU32 = AtomicU32::new(0);

fn send(tid: i32, signal: c_int, flags: c_int, handled: &std::sync::Once) {
    extern "C" fn handle(_: c_int) {
        SIGNALS_HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    handled.call_once(|| {
        // SAFETY: all-zero is a valid `sigaction`: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = flags;
        // SAFETY: the handler adds to an atomic word, and the kernel writes nothing back.
        let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0, "sigaction: {}", Error::last_os_error());
    });
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: tgkill(2) touches no memory.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
    assert_eq!(sent, 0, "tgkill: {}", Error::last_os_error());
}
