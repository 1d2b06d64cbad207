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
            "i386" | "i686" => row.3 == Some(number),
            "arm" | "armv7l" | "armv8l" => row.4 == Some(number),
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

/// Name, number on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`), number on arm64 and the other
/// machines that use `include/uapi/asm-generic/unistd.h`, number on 32-bit x86
/// (`syscall_32.tbl`), and number on 32-bit ARM (`arch/arm/tools/syscall.tbl`).
type Row = (&'static str, Option<i64>, Option<i64>, Option<i64>, Option<i64>);

/// Calls in which a thread waits for time to pass.
const SLEEPS: &[Row] = &[
    ("clock_nanosleep", Some(230), Some(115), Some(267), Some(265)),
    ("nanosleep", Some(35), Some(101), Some(162), Some(162)),
];

/// All others.
const CALLS: &[Row] = &[
    ("accept", Some(43), Some(202), None, Some(285)),
    ("accept4", Some(288), Some(242), Some(364), Some(366)),
    ("brk", Some(12), Some(214), Some(45), Some(45)),
    ("clock_gettime", Some(228), Some(113), Some(265), Some(263)),
    ("clone", Some(56), Some(220), Some(120), Some(120)),
    ("clone3", Some(435), Some(435), Some(435), Some(435)),
    ("close", Some(3), Some(57), Some(6), Some(6)),
    ("connect", Some(42), Some(203), Some(362), Some(283)),
    ("copy_file_range", Some(326), Some(285), Some(377), Some(391)),
    ("epoll_pwait", Some(281), Some(22), Some(319), Some(346)),
    ("epoll_pwait2", Some(441), Some(441), Some(441), Some(441)),
    ("epoll_wait", Some(232), None, Some(256), Some(252)),
    ("execve", Some(59), Some(221), Some(11), Some(11)),
    ("execveat", Some(322), Some(281), Some(358), Some(387)),
    ("exit", Some(60), Some(93), Some(1), Some(1)),
    ("exit_group", Some(231), Some(94), Some(252), Some(248)),
    ("fallocate", Some(285), Some(47), Some(324), Some(352)),
    ("fcntl", Some(72), Some(25), Some(221), Some(221)),
    ("fdatasync", Some(75), Some(83), Some(148), Some(148)),
    ("flock", Some(73), Some(32), Some(143), Some(143)),
    ("fork", Some(57), None, Some(2), Some(2)),
    ("fsync", Some(74), Some(82), Some(118), Some(118)),
    ("ftruncate", Some(77), Some(46), Some(194), Some(194)),
    ("futex", Some(202), Some(98), Some(240), Some(240)),
    ("futex_waitv", Some(449), Some(449), Some(449), Some(449)),
    ("getcpu", Some(309), Some(168), Some(318), Some(345)),
    ("getpid", Some(39), Some(172), Some(20), Some(20)),
    ("getpriority", Some(140), Some(141), Some(96), Some(96)),
    ("getrusage", Some(98), Some(165), Some(77), Some(77)),
    ("gettid", Some(186), Some(178), Some(224), Some(224)),
    ("gettimeofday", Some(96), Some(169), Some(78), Some(78)),
    ("io_getevents", Some(208), Some(4), Some(247), Some(245)),
    ("io_submit", Some(209), Some(2), Some(248), Some(246)),
    ("io_uring_enter", Some(426), Some(426), Some(426), Some(426)),
    ("ioctl", Some(16), Some(29), Some(54), Some(54)),
    ("kill", Some(62), Some(129), Some(37), Some(37)),
    ("madvise", Some(28), Some(233), Some(219), Some(220)),
    ("membarrier", Some(324), Some(283), Some(375), Some(389)),
    ("mkdirat", Some(258), Some(34), Some(296), Some(323)),
    ("mlock", Some(149), Some(228), Some(150), Some(150)),
    ("mlock2", Some(325), Some(284), Some(376), Some(390)),
    ("mlockall", Some(151), Some(230), Some(152), Some(152)),
    ("mmap", Some(9), Some(222), Some(192), Some(192)),
    ("mprotect", Some(10), Some(226), Some(125), Some(125)),
    ("mq_timedreceive", Some(243), Some(183), Some(280), Some(277)),
    ("mq_timedsend", Some(242), Some(182), Some(279), Some(276)),
    ("mremap", Some(25), Some(216), Some(163), Some(163)),
    ("msgrcv", Some(70), Some(188), Some(401), Some(302)),
    ("msgsnd", Some(69), Some(189), Some(400), Some(301)),
    ("msync", Some(26), Some(227), Some(144), Some(144)),
    ("munmap", Some(11), Some(215), Some(91), Some(91)),
    ("open", Some(2), None, Some(5), Some(5)),
    ("openat", Some(257), Some(56), Some(295), Some(322)),
    ("pause", Some(34), None, Some(29), Some(29)),
    ("pidfd_send_signal", Some(424), Some(424), Some(424), Some(424)),
    ("poll", Some(7), None, Some(168), Some(168)),
    ("ppoll", Some(271), Some(73), Some(309), Some(336)),
    ("pread64", Some(17), Some(67), Some(180), Some(180)),
    ("preadv", Some(295), Some(69), Some(333), Some(361)),
    ("process_vm_readv", Some(310), Some(270), Some(347), Some(376)),
    ("process_vm_writev", Some(311), Some(271), Some(348), Some(377)),
    ("pselect6", Some(270), Some(72), Some(308), Some(335)),
    ("pwrite64", Some(18), Some(68), Some(181), Some(181)),
    ("pwritev", Some(296), Some(70), Some(334), Some(362)),
    ("read", Some(0), Some(63), Some(3), Some(3)),
    ("readv", Some(19), Some(65), Some(145), Some(145)),
    ("recvfrom", Some(45), Some(207), Some(371), Some(292)),
    ("recvmmsg", Some(299), Some(243), Some(337), Some(365)),
    ("recvmsg", Some(47), Some(212), Some(372), Some(297)),
    ("renameat", Some(264), Some(38), Some(302), Some(329)),
    ("renameat2", Some(316), Some(276), Some(353), Some(382)),
    ("restart_syscall", Some(219), Some(128), Some(0), Some(0)),
    ("rt_sigreturn", Some(15), Some(139), Some(173), Some(173)),
    ("rt_sigsuspend", Some(130), Some(133), Some(179), Some(179)),
    ("rt_sigtimedwait", Some(128), Some(137), Some(177), Some(177)),
    ("sched_getaffinity", Some(204), Some(123), Some(242), Some(242)),
    ("sched_getattr", Some(315), Some(275), Some(352), Some(381)),
    ("sched_setaffinity", Some(203), Some(122), Some(241), Some(241)),
    ("sched_setattr", Some(314), Some(274), Some(351), Some(380)),
    ("sched_setscheduler", Some(144), Some(119), Some(156), Some(156)),
    ("sched_yield", Some(24), Some(124), Some(158), Some(158)),
    ("seccomp", Some(317), Some(277), Some(354), Some(383)),
    ("select", Some(23), None, Some(142), Some(142)),
    ("semop", Some(65), Some(193), None, Some(298)),
    ("semtimedop", Some(220), Some(192), None, Some(312)),
    ("sendfile", Some(40), Some(71), Some(239), Some(239)),
    ("sendmmsg", Some(307), Some(269), Some(345), Some(374)),
    ("sendmsg", Some(46), Some(211), Some(370), Some(296)),
    ("sendto", Some(44), Some(206), Some(369), Some(290)),
    ("setpriority", Some(141), Some(140), Some(97), Some(97)),
    ("splice", Some(275), Some(76), Some(313), Some(340)),
    ("sync", Some(162), Some(81), Some(36), Some(36)),
    ("sync_file_range", Some(277), Some(84), Some(314), Some(341)),
    ("syncfs", Some(306), Some(267), Some(344), Some(373)),
    ("tgkill", Some(234), Some(131), Some(270), Some(268)),
    ("unlinkat", Some(263), Some(35), Some(301), Some(328)),
    ("vfork", Some(58), None, Some(190), Some(190)),
    ("wait4", Some(61), Some(260), Some(114), Some(114)),
    ("waitid", Some(247), Some(95), Some(284), Some(280)),
    ("write", Some(1), Some(64), Some(4), Some(4)),
    ("writev", Some(20), Some(66), Some(146), Some(146)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_resolved_by_machine_and_unknown_ones_have_no_name() {
        let name = |machine, number| SystemCall::of(machine, number).name;
        assert_eq!(name("x86_64", 202), Some("futex"));
        assert_eq!(name("aarch64", 98), Some("futex"));
        assert_eq!((name("armv7l", 118), name("i686", 118)), (Some("fsync"), Some("fsync")));
        assert_eq!((name("arm", 341), name("i386", 341)), (Some("sync_file_range"), None));
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
