//! `watch`, `ab` and `ipc observe` when something outside ends them or turns against them: a kill,
//! too little memory, a full disk, a disk that fails, a clock that is set, too few descriptors. A
//! command that fails says why in one line, and none leaves anything behind.
//!
//! These tests run one after the other in a guest with a mapped disk (`cargo xtask ends`), beside
//! the static binary: a guest has the driver, and its disk and its clock may be spoilt.

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::time::{ClockId, clock_gettime, clock_settime};

use support::{
    Calls, Failing, LittleMemory, Running, empty, half_written, instances, processes, soon_nothing,
};

/// The commands, without the option that stores their runs. Each takes a second or two.
const COMMANDS: [&str; 3] = [
    "watch --stack binder --callers other --interval 200ms --duration 1s",
    "ab --pairs 2 -- ipc latency --stack binder --callers other --duration 400ms",
    OBSERVE,
];
const OBSERVE: &str = "ipc observe --duration 1s";

/// When they are disturbed: while they measure.
const MEANWHILE: Duration = Duration::from_millis(500);

/// What control groups allow, in MiB: too little for anything, nearly enough, and enough.
const MEMORY_MIB: [u64; 3] = [1, 4, 16];

const ENOUGH: u64 = 1 << 30;

/// To what share of the memory in use a group is limited during a run. The kernel then kills the
/// largest process, until the others fit.
const MEMORY_LEFT: [f64; 2] = [0.9, 0.3];

/// The sizes of small disks, in KiB.
const DISKS_KIB: [u64; 3] = [4, 40, 100];

/// Numbers of files that are too few for `ipc observe` at each of its steps, and enough. Those of
/// the other commands are among the program's tests.
const FILES: [u64; 5] = [8, 14, 18, 22, 30];

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_killed_command_leaves_nothing_that_runs_and_its_files_are_removed_later() {
    let _calls = Calls::start();
    for args in COMMANDS {
        let run = empty("/tmp/run");
        let running = Running::start(args, &run);
        sleep(MEANWHILE);
        kill_process(Pid::from_child(&running.child), Signal::KILL).expect("a child");
        let end = running.end();
        assert_eq!(end.status.signal(), Some(Signal::KILL.as_raw()), "{}", end.finding("it was not killed"));
        let left = soon_nothing(|| [processes(), instances()].concat());
        assert_eq!(left, [] as [String; 0], "{}", end.finding("it left something"));
        // `ab` refuses a directory that is not empty, so it gets another one.
        let run = if args.starts_with("ab ") { empty("/tmp/again") } else { run };
        let again = Running::start(args, &run).end();
        assert!(again.status.success(), "{}", again.finding("the next one fails"));
        again.is_sound();
        assert_eq!(half_written(&run), [] as [PathBuf; 0], "{}", again.finding("half a run is left"));
    }
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_command_without_enough_memory_says_so_and_leaves_nothing() {
    let _calls = Calls::start();
    let (mut killed, mut passed) = (0, 0);
    let mut judge = |memory: &LittleMemory, running: Running| {
        let end = running.end();
        // The guard may need more than was left.
        memory.allow(ENOUGH);
        end.is_sound();
        match end.status.code() {
            Some(0) => passed += 1,
            Some(_) => {
                let says = end.err.contains("memory ran out") || end.err.contains("cannot allocate");
                assert!(says, "{}", end.finding("it does not say why"));
            }
            None => killed += memory.killed(),
        }
    };
    for args in COMMANDS {
        for mib in MEMORY_MIB {
            let memory = LittleMemory::new(mib << 20);
            let running = memory.around(|| Running::start(args, &empty("/tmp/run")));
            judge(&memory, running);
        }
        for share in MEMORY_LEFT {
            let memory = LittleMemory::new(ENOUGH);
            let running = memory.around(|| Running::start(args, &empty("/tmp/run")));
            sleep(MEANWHILE);
            memory.allow((memory.used() as f64 * share) as u64);
            judge(&memory, running);
        }
    }
    assert!(killed > 0 && passed >= COMMANDS.len(), "{killed} killed, {passed} passed");
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_command_on_a_full_disk_says_so_and_stores_nothing_half() {
    let _calls = Calls::start();
    let small = Path::new("/small");
    for args in COMMANDS {
        let mut refused = 0;
        for kib in DISKS_KIB {
            fs::create_dir_all(small).expect("a mount point");
            let size = std::ffi::CString::new(format!("size={kib}k")).expect("no zero byte");
            mount("small", small, "tmpfs", MountFlags::empty(), Some(size.as_c_str())).expect("a small disk");
            let end = Running::start(args, &small.join("run")).end();
            end.is_sound();
            if !end.status.success() {
                refused += 1;
                let lines = end.err.lines().filter(|line| line.contains("No space left")).count();
                assert!(lines > 0, "{}", end.finding("it does not say why"));
                let half = half_written(&small.join("run"));
                assert_eq!(half, [] as [PathBuf; 0], "{}", end.finding("something is half-written"));
            }
            unmount(small, UnmountFlags::empty()).expect("nothing in use");
        }
        assert!(refused > 0, "{args}: never refused");
    }
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_command_whose_disk_fails_says_so_and_prints_what_it_measured() {
    let _calls = Calls::start();
    for args in COMMANDS {
        let running = Running::start(args, &empty("/disk/run"));
        sleep(MEANWHILE);
        let failing = Failing::now();
        let end = running.end();
        end.is_sound();
        drop(failing);
        assert_eq!(end.status.code(), Some(1), "{}", end.finding("it did not notice"));
        assert!(end.err.contains("(dmesg)"), "{}", end.finding("it does not say why"));
        assert!(!Path::new("/disk/run/run.json").exists(), "{}", end.finding("a run is there"));
    }
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_clock_that_is_set_meanwhile_changes_no_figure() {
    let _calls = Calls::start();
    let now = clock_gettime(ClockId::Realtime);
    let at = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
    for args in COMMANDS {
        // 1970 and 2200. The kernel refuses a time that is less than its uptime.
        for time in [at(1000), at(7_258_118_400)] {
            let run = empty("/tmp/run");
            let running = Running::start(args, &run);
            sleep(MEANWHILE);
            clock_settime(ClockId::Realtime, time).expect("a clock that root may set");
            let end = running.end();
            assert!(end.status.success(), "{}", end.finding("it failed"));
            end.is_sound();
        }
    }
    clock_settime(ClockId::Realtime, now).expect("a clock that root may set");
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask ends"]
fn a_command_without_free_descriptors_names_the_limit() {
    let _calls = Calls::start();
    let usual = getrlimit(Resource::Nofile);
    let mut refused = 0;
    for files in FILES {
        let run = empty("/tmp/run");
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..usual }).expect("a lower limit");
        let running = Running::start(OBSERVE, &run);
        setrlimit(Resource::Nofile, usual).expect("the usual limit");
        let end = running.end();
        end.is_sound();
        if !end.status.success() {
            refused += 1;
            let is_clear = end.err.contains("(ulimit -n)") && end.err.lines().count() == 1;
            assert!(is_clear, "{}", end.finding("its refusal is unclear"));
        }
    }
    assert!(0 < refused && refused < FILES.len(), "{refused} refused");
}
