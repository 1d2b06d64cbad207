//! System call names by machine: those in which threads wait, or which a server's handler may make.
//! The others only have a number. Must not know who made them.

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SystemCall {
    /// Its number on the recorded machine.
    pub number: i64,
    /// The kernel's name for it; `None` if this crate does not know it.
    pub name: Option<&'static str>,
    sleeps: bool,
}

impl SystemCall {
    /// The system call with a number on a machine, given as in `uname`.
    pub(crate) fn of(machine: &str, number: i64) -> Self {
        let is = |row: &&Row| match machine {
            "x86_64" => row.1 == Some(number),
            "aarch64" | "riscv64" | "loongarch64" => row.2 == Some(number),
            _ => false,
        };
        let sleep = SLEEPS.iter().find(is);
        let row = sleep.or_else(|| CALLS.iter().find(is));
        Self { number, name: row.map(|row| row.0), sleeps: sleep.is_some() }
    }

    /// Whether a thread in this call waits for time to pass.
    #[must_use]
    pub fn is_sleep(self) -> bool {
        self.sleeps
    }
}

/// Name, number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`), and number on arm64 and the
/// other machines that use `include/uapi/asm-generic/unistd.h`.
type Row = (&'static str, Option<i64>, Option<i64>);

/// Calls in which a thread waits for time to pass.
const SLEEPS: &[Row] = &[("clock_nanosleep", Some(230), Some(115)), ("nanosleep", Some(35), Some(101))];

/// All others.
const CALLS: &[Row] = &[
    ("accept", Some(43), Some(202)),
    ("accept4", Some(288), Some(242)),
    ("brk", Some(12), Some(214)),
    ("clock_gettime", Some(228), Some(113)),
    ("clone", Some(56), Some(220)),
    ("clone3", Some(435), Some(435)),
    ("close", Some(3), Some(57)),
    ("connect", Some(42), Some(203)),
    ("copy_file_range", Some(326), Some(285)),
    ("epoll_pwait", Some(281), Some(22)),
    ("epoll_pwait2", Some(441), Some(441)),
    ("epoll_wait", Some(232), None),
    ("execve", Some(59), Some(221)),
    ("execveat", Some(322), Some(281)),
    ("exit", Some(60), Some(93)),
    ("exit_group", Some(231), Some(94)),
    ("fallocate", Some(285), Some(47)),
    ("fcntl", Some(72), Some(25)),
    ("fdatasync", Some(75), Some(83)),
    ("flock", Some(73), Some(32)),
    ("fork", Some(57), None),
    ("fsync", Some(74), Some(82)),
    ("ftruncate", Some(77), Some(46)),
    ("futex", Some(202), Some(98)),
    ("futex_waitv", Some(449), Some(449)),
    ("getcpu", Some(309), Some(168)),
    ("getpid", Some(39), Some(172)),
    ("getpriority", Some(140), Some(141)),
    ("getrusage", Some(98), Some(165)),
    ("gettid", Some(186), Some(178)),
    ("gettimeofday", Some(96), Some(169)),
    ("io_getevents", Some(208), Some(4)),
    ("io_submit", Some(209), Some(2)),
    ("io_uring_enter", Some(426), Some(426)),
    ("ioctl", Some(16), Some(29)),
    ("kill", Some(62), Some(129)),
    ("madvise", Some(28), Some(233)),
    ("membarrier", Some(324), Some(283)),
    ("mkdirat", Some(258), Some(34)),
    ("mlock", Some(149), Some(228)),
    ("mlock2", Some(325), Some(284)),
    ("mlockall", Some(151), Some(230)),
    ("mmap", Some(9), Some(222)),
    ("mprotect", Some(10), Some(226)),
    ("mq_timedreceive", Some(243), Some(183)),
    ("mq_timedsend", Some(242), Some(182)),
    ("mremap", Some(25), Some(216)),
    ("msgrcv", Some(70), Some(188)),
    ("msgsnd", Some(69), Some(189)),
    ("msync", Some(26), Some(227)),
    ("munmap", Some(11), Some(215)),
    ("open", Some(2), None),
    ("openat", Some(257), Some(56)),
    ("pause", Some(34), None),
    ("pidfd_send_signal", Some(424), Some(424)),
    ("poll", Some(7), None),
    ("ppoll", Some(271), Some(73)),
    ("pread64", Some(17), Some(67)),
    ("preadv", Some(295), Some(69)),
    ("process_vm_readv", Some(310), Some(270)),
    ("process_vm_writev", Some(311), Some(271)),
    ("pselect6", Some(270), Some(72)),
    ("pwrite64", Some(18), Some(68)),
    ("pwritev", Some(296), Some(70)),
    ("read", Some(0), Some(63)),
    ("readv", Some(19), Some(65)),
    ("recvfrom", Some(45), Some(207)),
    ("recvmmsg", Some(299), Some(243)),
    ("recvmsg", Some(47), Some(212)),
    ("renameat", Some(264), Some(38)),
    ("renameat2", Some(316), Some(276)),
    ("restart_syscall", Some(219), Some(128)),
    ("rt_sigreturn", Some(15), Some(139)),
    ("rt_sigsuspend", Some(130), Some(133)),
    ("rt_sigtimedwait", Some(128), Some(137)),
    ("sched_getaffinity", Some(204), Some(123)),
    ("sched_getattr", Some(315), Some(275)),
    ("sched_setaffinity", Some(203), Some(122)),
    ("sched_setattr", Some(314), Some(274)),
    ("sched_setscheduler", Some(144), Some(119)),
    ("sched_yield", Some(24), Some(124)),
    ("seccomp", Some(317), Some(277)),
    ("select", Some(23), None),
    ("semop", Some(65), Some(193)),
    ("semtimedop", Some(220), Some(192)),
    ("sendfile", Some(40), Some(71)),
    ("sendmmsg", Some(307), Some(269)),
    ("sendmsg", Some(46), Some(211)),
    ("sendto", Some(44), Some(206)),
    ("setpriority", Some(141), Some(140)),
    ("splice", Some(275), Some(76)),
    ("sync", Some(162), Some(81)),
    ("sync_file_range", Some(277), Some(84)),
    ("syncfs", Some(306), Some(267)),
    ("tgkill", Some(234), Some(131)),
    ("unlinkat", Some(263), Some(35)),
    ("vfork", Some(58), None),
    ("wait4", Some(61), Some(260)),
    ("waitid", Some(247), Some(95)),
    ("write", Some(1), Some(64)),
    ("writev", Some(20), Some(66)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_resolved_by_machine_and_unknown_ones_have_no_name() {
        let name = |machine, number| SystemCall::of(machine, number).name;
        assert_eq!(name("x86_64", 202), Some("futex"));
        assert_eq!(name("aarch64", 98), Some("futex"));
        assert_eq!(name("x86_64", 9999), None);
        assert_eq!(name("mips", 202), None);
    }

    #[test]
    fn only_sleeping_calls_wait_for_time_to_pass() {
        let sleeps = |machine, number| SystemCall::of(machine, number).is_sleep();
        assert!(sleeps("x86_64", 35) && sleeps("x86_64", 230) && sleeps("aarch64", 101));
        assert!(!sleeps("x86_64", 202) && !sleeps("aarch64", 35) && !sleeps("mips", 35));
    }
}
