#![allow(unsafe_code)]
//! Victims: this test binary, started again with one ignored test, run instruction by instruction
//! (ptrace(2)), and killed.
//!
//! Unsafe: rustix has no ptrace. A victim asks to be traced by its parent, and stops where its
//! transaction begins and where it has ended.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command as Process, Stdio};

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_binder_emulator::{Emulated, InheritBy};

pub(crate) const ADDRESS: &str = "ROUNDTRIP_TEST_CONTEXT";
pub(crate) const SCENARIO: &str = "ROUNDTRIP_TEST_SCENARIO";

/// The address argument of ptrace(2) requests that do not use it.
const NOTHING: *mut libc::c_void = std::ptr::null_mut();

/// Starts this binary's ignored test `victim` in the context at `address`.
pub(crate) fn start(scenario: &str, address: &str) -> Process {
    let mut process = Process::new(std::env::current_exe().expect("this test's path"));
    process
        .args(["--exact", "victim", "--ignored", "--test-threads", "1"])
        .env(ADDRESS, address)
        .env(SCENARIO, scenario)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // SAFETY: one system call between fork and exec.
    unsafe {
        process.pre_exec(|| {
            // Instructions have the same addresses in every victim.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    process
}

/// In a victim: reports the thread to step to its parent, and stops until the parent continues it.
pub(crate) fn let_parent_step() {
    // SAFETY: makes the parent this thread's tracer; no memory is passed.
    let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, NOTHING, NOTHING) };
    assert_eq!(traced, 0, "a parent may trace its child");
    let thread = rustix::thread::gettid().as_raw_nonzero();
    // Not captured by the test harness, unlike `eprintln!`.
    std::io::stderr().write_all(format!("{thread}\n").as_bytes()).expect("the parent");
    stop();
}

/// Makes the calling thread real-time, where that is permitted, and makes its process boost servers
/// through a PI futex.
pub(crate) fn become_realtime_caller(driver: &Emulated) {
    let realtime = SchedAttr { policy: libc::SCHED_FIFO as u32, priority: 3, ..Default::default() };
    // Without permission it is an ordinary caller.
    let _ = sched_attr::set(0, realtime);
    driver.set_inherit_by(InheritBy::PiFutex);
}

/// In a victim: stops, for the parent to notice.
pub(crate) fn stop() {
    // SAFETY: sends a signal to the calling thread; no memory is passed.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Why a stepped thread has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// After one more instruction.
    Step,
    /// At [`stop`].
    Mark,
    /// It has ended.
    Gone,
}

/// A victim whose thread is stopped, from its first [`stop`] on. Only the thread that started it
/// may use it.
pub(crate) struct Stepped {
    child: Child,
    thread: i32,
}

impl Stepped {
    pub(crate) fn start(scenario: &str, address: &str) -> Self {
        let mut child =
            start(scenario, address).stderr(Stdio::piped()).spawn().expect("this test can be started again");
        let mut line = String::new();
        let read = BufReader::new(child.stderr.take().expect("a pipe")).read_line(&mut line);
        read.expect("the victim's thread");
        let thread = line.trim().parse().unwrap_or_else(|_| panic!("{scenario}: the victim wrote {line:?}"));
        let mut victim = Self { child, thread };
        assert_eq!(victim.wait(), Stopped::Mark, "the victim begins by stopping");
        victim
    }

    /// Lets it run without waiting.
    pub(crate) fn let_run(&mut self) {
        // SAFETY: as in `step`. One that has gone cannot run.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.thread, NOTHING, NOTHING) };
    }

    /// Runs until [`stop`].
    pub(crate) fn run(&mut self) -> Stopped {
        self.let_run();
        self.wait()
    }

    fn wait(&mut self) -> Stopped {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let waited = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL) };
        match libc::WIFSTOPPED(status) {
            true if waited == self.thread && libc::WSTOPSIG(status) == libc::SIGTRAP => Stopped::Step,
            true if waited == self.thread => Stopped::Mark,
            _ => Stopped::Gone,
        }
    }

    /// Kills it at its current instruction.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a child");
        // The tracer must wait for the thread's end before it can wait for the process. If it was
        // the only thread, both end together.
        while self.wait() != Stopped::Gone {}
        let _ = self.child.wait();
    }
}

/// What needs the registers of one architecture.
#[cfg(target_arch = "x86_64")]
impl Stepped {
    /// Runs one instruction.
    pub(crate) fn step(&mut self) -> Stopped {
        // SAFETY: the thread is traced by this one and stands still; no memory is passed, and no
        // signal.
        let going = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.thread, NOTHING, NOTHING) };
        if going == 0 { self.wait() } else { Stopped::Gone }
    }

    /// The id of the thread that is stepped.
    pub(crate) fn thread(&self) -> i32 {
        self.thread
    }

    /// The address of its current instruction.
    pub(crate) fn address(&self) -> u64 {
        self.registers().rip
    }

    fn registers(&self) -> libc::user_regs_struct {
        let mut registers = std::mem::MaybeUninit::zeroed();
        // SAFETY: the kernel writes all of the registers into memory of their size; zeroes are
        // registers too.
        unsafe {
            libc::ptrace(libc::PTRACE_GETREGS, self.thread, NOTHING, registers.as_mut_ptr());
            registers.assume_init()
        }
    }

    /// Runs until it is about to execute the instruction at `address` for the `times`th time.
    pub(crate) fn run_to(&mut self, address: u64, times: u64) -> Stopped {
        /// INT3.
        const BREAKPOINT: i64 = 0xcc;
        let at = address as *mut libc::c_void;
        // SAFETY: reads and writes the victim's code, not this process's memory.
        let code = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.thread, at, NOTHING) };
        let broken = (code & !0xff | BREAKPOINT) as *mut libc::c_void;
        for time in 1.. {
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_POKETEXT, self.thread, at, broken) };
            let stopped = self.run();
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_POKETEXT, self.thread, at, code as *mut libc::c_void) };
            let mut registers = self.registers();
            if stopped != Stopped::Step || registers.rip != address + 1 {
                return stopped;
            }
            registers.rip = address;
            // SAFETY: the kernel reads registers that this thread owns.
            unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.thread, NOTHING, &raw const registers) };
            if time == times {
                return Stopped::Step;
            }
            let stopped = self.step();
            if stopped != Stopped::Step {
                return stopped;
            }
        }
        Stopped::Step
    }
}
