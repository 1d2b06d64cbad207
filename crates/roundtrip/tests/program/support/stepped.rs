#![allow(unsafe_code)]
//! Runs a command one system call at a time (ptrace(2)) and kills it before one of them, which has
//! the same effect as `kill -9` at that moment.
//!
//! Unsafe: rustix has no ptrace. The command asks to be traced by its parent before it is executed.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// The address argument of ptrace(2) requests that do not use it.
const NOTHING: *mut libc::c_void = std::ptr::null_mut();

/// A stopped command. Only the thread that started it may use it. Only the command's main thread is
/// stepped.
pub(crate) struct Stepped {
    child: Child,
}

/// The state of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Before a system call.
    Before(Call),
    /// Ended.
    Ended,
}

/// A system call that will be made next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    number: u64,
    arguments: [u64; 6],
}

impl Stepped {
    /// Starts it, and stops it before its first instruction.
    pub(crate) fn start(command: &mut Command) -> Self {
        let trace = || {
            // SAFETY: makes the parent this process's tracer; no memory is passed.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, NOTHING, NOTHING) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(trace) };
        let stepped = Self { child: command.spawn().expect("a traced command") };
        assert!(stepped.wait().is_some(), "a traced command stops when it is executed");
        let options = (libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL) as usize as *mut libc::c_void;
        // SAFETY: the command is traced by this thread and stopped; options are passed by value.
        let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, stepped.pid(), NOTHING, options) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        stepped
    }

    /// Runs until just before the next system call.
    pub(crate) fn next(&mut self) -> Stopped {
        loop {
            let mut signal = 0;
            loop {
                // SAFETY: as in `start`; a signal is passed by value.
                let going = unsafe {
                    libc::ptrace(
                        libc::PTRACE_SYSCALL,
                        self.pid(),
                        NOTHING,
                        signal as usize as *mut libc::c_void,
                    )
                };
                assert_eq!(going, 0, "{}", std::io::Error::last_os_error());
                match self.wait() {
                    None => return Stopped::Ended,
                    Some(stop) if stop == libc::SIGTRAP | 0x80 => break,
                    Some(other) => signal = other,
                }
            }
            if let Some(call) = self.about_to_call() {
                return Stopped::Before(call);
            }
        }
    }

    /// The system call that starts here; `None` if one ends.
    fn about_to_call(&self) -> Option<Call> {
        /// `struct ptrace_syscall_info` in the kernel's uapi/linux/ptrace.h (Linux 5.3): the first
        /// byte is the kind of stop. The number of a starting call and its arguments follow
        /// architecture, instruction and stack pointer.
        const WORDS: usize = 11;
        const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
        const ENTRY: u64 = 1;
        let mut info = [0_u64; WORDS];
        let size = size_of_val(&info) as *mut libc::c_void;
        // SAFETY: the kernel writes at most `size` bytes.
        let written = unsafe { libc::ptrace(GET_SYSCALL_INFO as _, self.pid(), size, info.as_mut_ptr()) };
        assert!(written > 0, "{}", std::io::Error::last_os_error());
        let [_, _, _, number, arguments @ .., _] = info;
        (info[0] & 0xff == ENTRY).then_some(Call { number, arguments })
    }

    /// Kills it before the system call, which is not carried out (`syscall_trace_enter` in the
    /// kernel checks for a fatal signal).
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child");
        let _ = self.child.wait();
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The signal that stopped it; `None` if it has ended.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let waited = unsafe { libc::waitpid(self.pid(), &raw mut status, libc::__WALL) };
        (waited == self.pid() && libc::WIFSTOPPED(status)).then(|| libc::WSTOPSIG(status))
    }
}

impl Call {
    /// Whether the call changes nothing that outlives the process, judging by its number and flags.
    pub(crate) fn changes_nothing(&self) -> bool {
        let number = self.number as libc::c_long;
        let makes = (libc::O_CREAT | libc::O_TRUNC) as u64;
        let opens = number == libc::SYS_openat && self.arguments[2] & makes == 0;
        opens || HARMLESS.contains(&number)
    }
}

const HARMLESS: [libc::c_long; 24] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_getdents64,
    libc::SYS_getrandom,
    libc::SYS_readlinkat,
    libc::SYS_clock_gettime,
    libc::SYS_futex,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_madvise,
    libc::SYS_prctl,
];
