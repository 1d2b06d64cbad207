//! A step that runs on another thread: waits until it ends or sleeps in the driver.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// A step that runs on a thread.
pub(crate) struct Begun<T> {
    /// Receives its result.
    pub(crate) result: Receiver<T>,
    /// The thread id.
    pub(crate) tid: i32,
}

impl<T> Begun<T> {
    /// Waits for its end.
    pub(crate) fn wait(&self) -> T {
        self.result.recv_timeout(Duration::from_secs(20)).expect("the step hangs, or its thread panicked")
    }

    /// Waits until the step ends, and returns its result, or until the thread sleeps in the driver.
    pub(crate) fn end_or_sleep(&self) -> Option<T> {
        let mut asleep = 0;
        for _ in 0..400_000 {
            match self.result.try_recv() {
                Ok(result) => return Some(result),
                Err(TryRecvError::Disconnected) => panic!("the thread panicked"),
                Err(TryRecvError::Empty) => {}
            }
            // Check twice: a short wait for a lock does not count as sleep.
            asleep = if self.sleeps() { asleep + 1 } else { 0 };
            if asleep == 2 {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the step hangs");
    }

    /// Returns true if the thread sleeps in a driver.
    fn sleeps(&self) -> bool {
        let read = |name| std::fs::read_to_string(format!("/proc/self/task/{}/{name}", self.tid));
        let syscall = read("syscall").expect("a kernel with /proc/PID/syscall");
        is_wait_in_driver(&syscall)
            && (is_in_seccomp(&syscall) || is_interruptible(&read("stat").expect("a /proc")))
    }

    /// How often the thread has slept so far.
    pub(crate) fn times_slept(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/self/task/{}/status", self.tid)).expect("a /proc");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("a number")
    }
}

/// Whether a thread sleeps in a system call that a driver waits in. `syscall` is its /proc text
/// (proc_pid_syscall(5)); it is "running" for a runnable thread. The kernel driver waits in its
/// ioctl, and a poll of it in ppoll(2). The emulated driver waits at a futex, in the system call
/// that seccomp suspends, and in a short sleep between two checks of a process that is to be
/// frozen.
fn is_wait_in_driver(syscall: &str) -> bool {
    let mut fields = syscall.split_ascii_whitespace();
    let number = fields.next().and_then(|number| number.parse().ok());
    let mut argument = || {
        let text = fields.next()?.strip_prefix("0x")?;
        u64::from_str_radix(text, 16).ok()
    };
    match number {
        Some(libc::SYS_futex) => match (argument(), argument(), argument(), argument()) {
            (Some(word), Some(operation), _, Some(until)) => is_wait_at_futex(word, operation, until),
            _ => false,
        },
        Some(number) => {
            [libc::SYS_ioctl, libc::SYS_getppid, libc::SYS_clock_nanosleep, libc::SYS_ppoll].contains(&number)
        }
        None => false,
    }
}

/// Whether seccomp has suspended a thread. Only a fatal signal may end that. `syscall` is its /proc
/// text.
fn is_in_seccomp(syscall: &str) -> bool {
    syscall.split(' ').next() == Some(&libc::SYS_getppid.to_string())
}

/// Whether a thread sleeps until an event or a signal, as both drivers' readers do. `stat` is its
/// /proc text (proc_pid_stat(5)). A thread that waits for one of the kernel's locks, which are
/// sleeping locks under PREEMPT_RT, or for memory, cannot be interrupted: it is not asleep, but in
/// the middle of its step.
fn is_interruptible(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
}

/// Whether a thread inside futex(2) waits there for work from the emulated driver. Other waits are
/// for a lock: a private lock, such as the allocator's or a channel's, or the context's lock, first
/// by FUTEX_WAIT with a timeout, then in the kernel's queue for its word. A thread that wakes
/// others may wait for the process's memory map. On a busy machine each of these waits can take
/// long.
fn is_wait_at_futex(word: u64, operation: u64, until: u64) -> bool {
    const LOCK_PI2: u64 = 13;
    /// The offset of a thread's reply lock in its 64 bytes (`Region::reply_lock`).
    const HOLD: u64 = 20;
    match operation {
        0 => until == 0,
        FUTEX_WAIT_BITSET => true,
        FUTEX_LOCK_PI | LOCK_PI2 => word % 64 == HOLD,
        _ => false,
    }
}

const FUTEX_LOCK_PI: u64 = libc::FUTEX_LOCK_PI as u64;
const FUTEX_WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;

/// Yields, because the thread may share the CPU with this one.
const PAUSE: Duration = Duration::from_micros(50);

mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use rustix::thread::futex::{self, Flags, Timespec};

    use super::*;

    /// Words of memory, aligned as the words of a context, which is mapped by pages.
    #[repr(align(64))]
    struct Words([AtomicU32; 16]);

    /// Starts `act` on a new thread.
    fn begin(act: impl FnOnce() + Send + 'static) -> Begun<()> {
        let (tid_sender, tid) = channel();
        let (done, result) = channel();
        std::thread::spawn(move || {
            let _ = tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get());
            act();
            let _ = done.send(());
        });
        Begun { result, tid: tid.recv().expect("a thread") }
    }

    /// Waits until the thread sleeps in futex(2). Returns its /proc text.
    fn syscall_at_futex(begun: &Begun<()>) -> String {
        let number = libc::SYS_futex.to_string();
        for _ in 0..20_000 {
            let syscall = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", begun.tid));
            let syscall = syscall.expect("a living thread");
            if syscall.split(' ').next() == Some(&number) {
                return syscall;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("it never waits");
    }

    #[test]
    fn a_thread_that_waits_for_work_sleeps() {
        let words = Arc::new(Words(Default::default()));
        let waits = Arc::clone(&words);
        let begun = begin(move || while futex::wait(&waits.0[0], Flags::empty(), 0, None).is_ok() {});
        assert!(begun.end_or_sleep().is_none(), "{}", syscall_at_futex(&begun));
        words.0[0].store(1, Relaxed);
        let _ = futex::wake(&words.0[0], Flags::empty(), 1);
        begun.wait();
    }

    #[test]
    fn a_thread_that_waits_for_a_process_lock_does_not_count_as_asleep() {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock().expect("a new lock");
        let waits = Arc::clone(&lock);
        let begun = begin(move || drop(waits.lock()));
        let syscall = syscall_at_futex(&begun);
        assert!(!is_wait_in_driver(&syscall), "{syscall}");
        drop(held);
        assert_eq!(begun.end_or_sleep(), Some(()));
    }

    #[test]
    fn a_thread_that_waits_for_the_context_lock_is_not_asleep_but_one_that_boosts_is() {
        let long = Timespec { tv_sec: i64::MAX >> 32, tv_nsec: 0 };
        let words = Arc::new(Words(Default::default()));
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        for (place, sleeps) in [(0, false), (5, true)] {
            words.0[place].store(own, Relaxed);
            let waits = Arc::clone(&words);
            let begun = begin(move || {
                let taken = futex::lock_pi(&waits.0[place], Flags::empty(), Some(&long));
                taken.expect("a free lock, after a while");
                futex::unlock_pi(&waits.0[place], Flags::empty()).expect("the thread's own lock");
            });
            let syscall = syscall_at_futex(&begun);
            assert_eq!(is_wait_in_driver(&syscall), sleeps, "{syscall}");
            futex::unlock_pi(&words.0[place], Flags::empty()).expect("this thread's own lock");
            begun.wait();
        }
        let waits = Arc::clone(&words);
        let begun = begin(move || {
            let _ = futex::wait(&waits.0[1], Flags::empty(), 0, Some(&long));
        });
        let syscall = syscall_at_futex(&begun);
        assert!(!is_wait_in_driver(&syscall), "{syscall}");
        let _ = futex::wake(&words.0[1], Flags::empty(), 1);
        begun.wait();
    }

    #[test]
    fn a_thread_that_waits_for_a_lock_of_the_kernel_is_not_asleep() {
        assert!(is_in_seccomp(&format!("{} 0x3 0x0 0x7f 0x0 0x0 0x0 0x7f 0x8\n", libc::SYS_getppid)));
        assert!(!is_in_seccomp("running\n") && !is_in_seccomp(&format!("{} 0x3\n", libc::SYS_ppoll)));
        assert!(is_interruptible("71 (worker) S) S 1 71 1 0 -1\n"));
        assert!(!is_interruptible("71 (worker S ) D 1 71 1 0 -1\n"));
    }

    #[test]
    fn a_thread_that_computes_or_wakes_others_is_not_asleep() {
        let futex = libc::SYS_futex;
        for syscall in
            ["running\n".to_owned(), "-1 0x7f 0x8\n".into(), format!("{futex} 0x1000 0x1 0x1 0x0 0x0 0x0\n")]
        {
            assert!(!is_wait_in_driver(&syscall), "{syscall}");
        }
        for number in [libc::SYS_ioctl, libc::SYS_getppid, libc::SYS_ppoll] {
            assert!(is_wait_in_driver(&format!("{number} 0x3 0x1 0x0 0x0 0x0 0x0 0x7f 0x8\n")));
        }
    }
}
