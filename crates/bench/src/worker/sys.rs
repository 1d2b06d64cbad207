//! The one call that a worker needs and no safe wrapper offers: ignoring a signal. Must hold nothing else.
#![allow(unsafe_code)] // signal(2) is unsafe in every binding, because a handler could do anything.

/// Ignores a signal in this process, for good.
pub(super) fn ignore(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours, so nothing can be done wrongly in a handler; an invalid signal number is
    // refused by the kernel without effect.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
