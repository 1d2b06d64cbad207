//! What another thread has begun: its end can be waited for, or its sleep in the driver.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// What a thread has begun.
pub(crate) struct Begun<T> {
    /// Where its result comes from.
    pub(crate) result: Receiver<T>,
    /// The thread's id in the system.
    pub(crate) tid: i32,
}

impl<T> Begun<T> {
    /// Waits for its end.
    pub(crate) fn wait(&self) -> T {
        self.result.recv_timeout(Duration::from_secs(20)).expect("the step hangs, or its thread panicked")
    }

    /// Waits until it has ended, and gives the result, or until the thread sleeps in the driver.
    pub(crate) fn end_or_sleep(&self) -> Option<T> {
        let mut asleep = 0;
        for _ in 0..400_000 {
            match self.result.try_recv() {
                Ok(result) => return Some(result),
                Err(TryRecvError::Disconnected) => panic!("the thread panicked"),
                Err(TryRecvError::Empty) => {}
            }
            // Seen twice: a lock that the thread meets for a moment is no sleep.
            asleep = if self.sleeps() { asleep + 1 } else { 0 };
            if asleep == 2 {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("the step hangs");
    }

    /// Whether the thread is off its processor inside a system call that the drivers wait in. "running" is said of one that only
    /// waits for a processor.
    fn sleeps(&self) -> bool {
        let told = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.tid));
        let told = told.expect("a kernel that says where threads sleep");
        let mut fields = told.split(' ');
        let number = fields.next().and_then(|number| number.parse::<i64>().ok());
        // FUTEX_WAIT until a time is a wait for the context's lock, whose owner may itself wait for a processor.
        let (operation, until) = (fields.nth(1), fields.nth(1));
        let for_lock = number == Some(libc::SYS_futex)
            && matches!(operation, Some("0x0" | "0x80"))
            && until != Some("0x0");
        !for_lock && WAITS.iter().any(|&call| number == Some(call))
    }

    /// How often the thread has slept so far.
    pub(crate) fn times_slept(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/self/task/{}/status", self.tid)).expect("a /proc");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("a number")
    }
}

/// Where threads wait: the kernel's driver in its ioctl; the emulated one at a futex, in the system
/// call that is trapped to wake a thread on its caller's CPU, and between two looks at a process
/// that is to be frozen; whoever polls the kernel's in ppoll(2).
const WAITS: [i64; 5] =
    [libc::SYS_ioctl, libc::SYS_futex, libc::SYS_getppid, libc::SYS_clock_nanosleep, libc::SYS_ppoll];

/// Lets the thread run, which may have to share the processor with this one.
const PAUSE: Duration = Duration::from_micros(50);
