#![allow(unsafe_code)]
//! The kernel mechanism that can wake a thread on the waker's CPU: seccomp's user notification
//! (seccomp_unotify(2)).
//!
//! A thread that wants to sleep makes a system call that the process's filter suspends ([`sleep`]);
//! a thread that has the filter's listener receives the notification ([`receive`]) and answers it
//! ([`answer`]), which ends the sleep. Since Linux 6.6 a listener can be set to wake on the
//! answering CPU (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`).
//!
//! Unsafe: raw system calls, which no library wraps. This file does not know which threads
//! sleep or must be woken.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// First argument of the suspended system call, which marks it: getppid(2) takes none, so no
/// other caller passes it.
const MARK: u64 = u64::from_le_bytes(*b"rtrptrap");
/// What an answered call returns; no process id is as large.
const ANSWERED: i64 = 1 << 40;

// linux/seccomp.h.
const GET_NOTIF_SIZES: u32 = 3;
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const SET_FLAGS: u64 = 0x4008_2104;
/// Words of `struct seccomp_notif`, and of it: id; pid and flags; call and architecture;
/// instruction; six arguments.
pub(crate) const NOTIFICATION_WORDS: usize = 10;
/// The word in it with the suspended call's second argument; the third one follows.
pub(crate) const ARGUMENTS: usize = 5;

/// Installs the filter in all threads of this process; they and their children keep it until they
/// end. With `no_new_privs`, the process gives up gaining privileges by `execve` if it must
/// (prctl(2), `PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// Why it is not possible, as the end of a sentence.
pub(crate) fn install(no_new_privs: bool) -> Result<OwnedFd, String> {
    if cfg!(target_pointer_width = "32") {
        return Err("its marks need the 64-bit arguments of a 64-bit program's system calls".into());
    }
    let mut sizes = [0_u16; 3];
    // SAFETY: the kernel writes three 16-bit numbers.
    check(unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, sizes.as_mut_ptr()) })
        .map_err(|errno| format!("this kernel has no seccomp user notification ({errno})"))?;
    if usize::from(sizes[0]) != NOTIFICATION_WORDS * 8 || sizes[1] != 24 {
        return Err("this kernel's seccomp notifications have another layout".into());
    }
    let listener = match filter() {
        Err(Errno::ACCESS) if no_new_privs => {
            rustix::thread::set_no_new_privs(true).map_err(|errno| format!("no_new_privs: {errno}"))?;
            filter()
        }
        other => other,
    }
    .map_err(|errno| match errno {
        Errno::ACCESS => "it needs CAP_SYS_ADMIN or no_new_privs".into(),
        Errno::BUSY => "this process runs under another seccomp listener, its own or an ancestor's".into(),
        Errno::SRCH => "a thread of this process has its own seccomp filter".into(),
        errno => format!("seccomp: {errno}"),
    })?;
    set_flags(listener.as_fd(), true).map_err(|_| "it needs Linux 6.6".to_owned())?;
    Ok(listener)
}

fn filter() -> Result<OwnedFd, Errno> {
    let load = |at| sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: at };
    // To the program's last instruction when it differs.
    let equal =
        |value, to_end| sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: to_end, k: value };
    let end = |action| sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action };
    // struct seccomp_data: the call's number at byte 0, its first argument at byte 16.
    let (low, high) = if cfg!(target_endian = "little") { (16, 20) } else { (20, 16) };
    let mut program = [
        load(0),
        equal(libc::SYS_getppid as u32, 5),
        load(low),
        equal(MARK as u32, 3),
        load(high),
        equal((MARK >> 32) as u32, 1),
        end(libc::SECCOMP_RET_USER_NOTIF),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
        | libc::SECCOMP_FILTER_FLAG_TSYNC
        | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH
        // It is no sandbox: the process needs no protection from speculation on its account.
        | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel reads the program, which lives until the call returns.
    let listener = check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })?;
    // SAFETY: a new descriptor that has no other owner. The kernel makes it close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// Whether a descriptor that another process handed over is a listener. No other may be used as
/// one.
pub(crate) fn is_listener(descriptor: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    rustix::fs::readlink(path, Vec::new())
        .is_ok_and(|target| target.as_bytes() == b"anon_inode:seccomp notify")
}

/// How a [`sleep`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It was answered.
    Answered,
    /// A signal was handled.
    Interrupted,
    /// It was not suspended: a filter with precedence decides on this process's system calls.
    NotHeld,
}

/// Sleeps until the notification is answered. It carries `index` and `tag`.
#[inline]
pub(crate) fn sleep(index: u64, tag: u64) -> Ended {
    // SAFETY: getppid(2) takes no arguments and touches no memory; the filter looks at these.
    let result = unsafe { libc::syscall(libc::SYS_getppid, MARK, index, tag) };
    match check(result) {
        Ok(ANSWERED) => Ended::Answered,
        Err(Errno::INTR) => Ended::Interrupted,
        _ => Ended::NotHeld,
    }
}

/// Returns true if a notification is pending, after at most `wait_ns`.
pub(crate) fn is_pending(listener: BorrowedFd<'_>, wait_ns: i64) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(listener, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: wait_ns };
    poll(&mut watched, Some(&wait)).is_ok_and(|ready| ready != 0)
        && watched[0].revents().contains(PollFlags::IN)
}

/// Receives the oldest notification into `to`, which must be zero. Call it only when [`is_pending`]
/// returns true and no other thread can receive meanwhile. Then it does not wait, even if the
/// notification has ended (ENOENT).
///
/// The kernel either stores the notification or leaves it pending: a process that is killed here
/// loses none.
pub(crate) fn receive(listener: BorrowedFd<'_>, to: &[AtomicU64; NOTIFICATION_WORDS]) -> Result<(), Errno> {
    // SAFETY: the kernel writes as many bytes as the ioctl's number says: those of `to`, which are
    // atomics.
    check(unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), RECEIVE, to.as_ptr()) }).map(drop)
}

/// Ends the sleep of notification `id`, on this CPU if the listener has that flag.
///
/// # Errors
/// ENOENT if a signal or its death has ended the thread's sleep; EINPROGRESS if it was answered
/// already.
#[inline]
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64) -> Result<(), Errno> {
    // struct seccomp_notif_resp: id, value, error and flags.
    let response = [id, ANSWERED as u64, 0];
    // SAFETY: the kernel reads 24 bytes, as the ioctl's number says.
    check(unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), SEND, response.as_ptr()) }).map(drop)
}

/// Whether answers wake on the answering CPU (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`).
pub(crate) fn set_flags(listener: BorrowedFd<'_>, on_this_cpu: bool) -> Result<(), Errno> {
    let flags = u64::from(on_this_cpu);
    // SAFETY: the argument is the value itself; nothing is read or written through it.
    check(unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), SET_FLAGS, flags) }).map(drop)
}

#[allow(clippy::useless_conversion, reason = "c_long has 32 bits on some machines")]
fn check(result: libc::c_long) -> Result<i64, Errno> {
    if result >= 0 {
        return Ok(result.into());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::thread::CapabilitySet;

    use super::*;
    use crate::alone::alone;

    #[test]
    fn a_notification_is_pending_only_if_it_can_be_read() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        assert!(!is_pending(reader.as_fd(), 0));
        writer.write_all(b"x").expect("room");
        assert!(is_pending(reader.as_fd(), 0));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(writer);
        assert!(!is_pending(reader.as_fd(), 0), "its other end is closed");
        let begin = std::time::Instant::now();
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        assert!(!is_pending(reader.as_fd(), 10_000_000));
        assert!(begin.elapsed() >= std::time::Duration::from_millis(10));
        assert!(!is_listener(reader.as_fd()));
        assert_eq!(receive(reader.as_fd(), &Default::default()), Err(Errno::NOTTY));
        assert_eq!(answer(reader.as_fd(), 1), Err(Errno::NOTTY));
        assert_eq!(set_flags(reader.as_fd(), true), Err(Errno::NOTTY));
    }

    #[test]
    fn without_rights_the_filter_costs_no_new_privileges_and_only_if_it_may() {
        alone(
            concat!(module_path!(), "::without_rights_the_filter_costs_no_new_privileges_and_only_if_it_may"),
            || {
                let mut own = rustix::thread::capabilities(None).expect("this thread's own");
                own.effective.remove(CapabilitySet::SYS_ADMIN);
                rustix::thread::set_capabilities(None, own).expect("fewer than before");
                let gave_up = || rustix::thread::no_new_privs().expect("an answer");
                if gave_up() {
                    return roundtrip_skips::skip(
                        roundtrip_skips::Need::Machine,
                        "the test runs with no_new_privs",
                    );
                }
                let refused = install(false).expect_err("it has no permission");
                if refused != "it needs CAP_SYS_ADMIN or no_new_privs" {
                    return crate::alone::refused(&refused);
                }
                assert!(!gave_up());
                let listener = match install(true) {
                    Ok(listener) => listener,
                    Err(why) => return crate::alone::refused(&why),
                };
                assert!(gave_up() && is_listener(listener.as_fd()));
                let second = install(true).expect_err("a process has one");
                assert!(second.contains("another seccomp listener"), "{second}");
            },
        );
    }

    #[test]
    fn with_rights_the_filter_costs_nothing() {
        alone(concat!(module_path!(), "::with_rights_the_filter_costs_nothing"), || {
            let own = rustix::thread::capabilities(None).expect("this thread's own");
            if !own.effective.contains(CapabilitySet::SYS_ADMIN) {
                return roundtrip_skips::skip(roundtrip_skips::Need::Root, "it takes CAP_SYS_ADMIN");
            }
            let before = rustix::thread::no_new_privs().expect("an answer");
            // A thread that was there before the filter.
            let (go, may_go) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || may_go.recv().map(|()| sleep(1, 2)));
            let listener = match install(true) {
                Ok(listener) => listener,
                Err(why) => return crate::alone::refused(&why),
            };
            assert!(is_listener(listener.as_fd()));
            assert_eq!(rustix::thread::no_new_privs(), Ok(before));
            go.send(()).expect("a thread that waits");
            while !is_pending(listener.as_fd(), 999_999_999) {
                assert!(!thread.is_finished(), "it is not held");
            }
            let received: [AtomicU64; NOTIFICATION_WORDS] = Default::default();
            receive(listener.as_fd(), &received).expect("it is pending");
            let word = |at: usize| received[at].load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!([word(ARGUMENTS), word(ARGUMENTS + 1)], [1, 2]);
            answer(listener.as_fd(), word(0)).expect("it waits for that");
            assert_eq!(thread.join().expect("no panic"), Ok(Ended::Answered));
            // All its system calls work as before, except for the marked one.
            let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
            assert_eq!(parent, std::os::unix::process::parent_id().try_into().ok());
        });
    }
}
