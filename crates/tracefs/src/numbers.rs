//! By which table the system calls of a thread are numbered. A 64-bit kernel also runs 32-bit
//! programs, whose calls have other numbers, and no event says which table a number is from. Must
//! not know the calls' names.

use std::collections::HashMap;

use crate::event::Body;
use crate::trace::Trace;

/// A kernel's two tables.
#[derive(Debug)]
struct Widths {
    /// The machine of 64-bit programs, and that of 32-bit ones.
    wide: &'static str,
    narrow: &'static str,
    /// Numbers of calls that only 64-bit programs make.
    only_wide: &'static [i64],
    /// Whether only 32-bit programs make a call of this number.
    is_only_narrow: fn(i64) -> bool,
}

const WIDTHS: [Widths; 2] = [
    Widths {
        wide: "aarch64",
        narrow: "armv7l",
        // Frequent calls whose numbers no 32-bit call has (`arch/arm/tools/syscall.tbl`):
        // `epoll_pwait`, `fcntl`, `flock`, `unlinkat`, `openat`, `pipe2`, `fsync`, `futex`,
        // `nanosleep`, `clock_gettime`, `mmap`.
        only_wide: &[22, 25, 32, 35, 56, 59, 82, 98, 101, 113, 222],
        // `include/uapi/asm-generic/unistd.h` has no 64-bit call there, or it is one of ARM's own.
        is_only_narrow: |number| matches!(number, 244..=259 | 295..=402 | 403..=423 | 0xf_0001..=0xf_0006),
    },
    Widths {
        wide: "x86_64",
        narrow: "i686",
        // Numbers that no 32-bit call has, or only one that no program makes since `lchown` has 32
        // bits (`arch/x86/entry/syscalls/syscall_32.tbl`): `ioctl`, `pread64`, `shmctl`, `dup`,
        // `nanosleep`, `sendto`, `socketpair`, `clone`, `vfork`, `getrusage`, `statfs`, `setxattr`,
        // `lsetxattr`, `timer_create`, `timer_settime`, `set_robust_list`, `fallocate`.
        only_wide: &[16, 17, 31, 32, 35, 44, 53, 56, 58, 98, 137, 188, 189, 222, 223, 273, 285],
        // `syscall_64.tbl` has no call there: `futex_time64`, `clock_gettime64`, the calls of
        // sockets, `statx`, `rseq` and others.
        is_only_narrow: |number| matches!(number, 337..=386 | 393..=423),
    },
];

/// An address from here on is that of a 64-bit program, and from [`KERNEL`] on, it is none.
const ABOVE_4_GIB: u64 = 1 << 32;
const KERNEL: u64 = 1 << 56;

/// By which tables the threads of a recording number their system calls.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    machine: String,
    /// The machine of each thread, if both 32-bit and 64-bit programs are known to run.
    by_thread: Option<HashMap<u32, &'static str>>,
}

impl Numbers {
    /// Those of a recording of this machine, as in `uname -m`. The numbers themselves show which
    /// processes are programs of the other width.
    #[must_use]
    pub fn of(trace: &Trace, machine: &str) -> Self {
        let named = !trace.machine.is_empty();
        let mixed = |of: &&Widths| machine == of.wide || machine == of.narrow && !named;
        let widths = WIDTHS.iter().find(mixed);
        let by_thread = widths.and_then(|widths| by_thread(trace, machine, widths));
        Self { machine: machine.to_owned(), by_thread }
    }

    /// The table of a machine that runs only 32-bit or only 64-bit programs.
    #[must_use]
    pub fn of_machine(machine: &str) -> Self {
        Self { machine: machine.to_owned(), by_thread: None }
    }

    /// How many threads made system calls of which it is not known by which table they are
    /// numbered.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        let threads = self.by_thread.iter().flat_map(HashMap::values);
        threads.filter(|machine| machine.is_empty()).count() as u64
    }

    /// The machine by whose table a thread's calls are numbered; empty if that is not known.
    #[must_use]
    pub fn machine(&self, tid: u32) -> &str {
        match &self.by_thread {
            None => &self.machine,
            Some(by_thread) => by_thread.get(&tid).copied().unwrap_or_default(),
        }
    }
}

/// `None` if no process is known to be of the other width.
fn by_thread(trace: &Trace, machine: &str, widths: &Widths) -> Option<HashMap<u32, &'static str>> {
    let process = |tid: u32| trace.processes.get(&tid).copied().unwrap_or(tid);
    let mut threads: HashMap<u32, ()> = HashMap::new();
    // By process: whether it made calls that only 64-bit and only 32-bit programs make.
    let mut made: HashMap<u32, (bool, bool)> = HashMap::new();
    for event in trace.all() {
        let Body::SysEnter { number, first, .. } = event.body else { continue };
        threads.insert(event.tid, ());
        let wide = widths.only_wide.contains(&number) || (ABOVE_4_GIB..KERNEL).contains(&first);
        let narrow = (widths.is_only_narrow)(number);
        if wide || narrow {
            let made = made.entry(process(event.tid)).or_default();
            *made = (made.0 | wide, made.1 | narrow);
        }
    }
    let other = |made: &(bool, bool)| if machine == widths.wide { made.1 } else { made.0 };
    if !made.values().any(other) {
        return None;
    }
    let machine = |tid: u32| match made.get(&process(tid)) {
        Some((true, false)) => widths.wide,
        Some((false, true)) => widths.narrow,
        // Nothing shows it, or the process ran programs of both.
        _ => "",
    };
    Some(threads.into_keys().map(|tid| (tid, machine(tid))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    fn trace(calls: &[(u32, i64)]) -> Trace {
        let enter = |&(tid, number): &(u32, i64)| Event {
            time_ns: 0,
            cpu: 0,
            tid,
            body: Body::SysEnter { number, first: 0, third: 0, sixth: 0 },
        };
        let events = calls.iter().map(enter).collect();
        Trace { events, processes: [(11, 10), (10, 10)].into(), ..Trace::default() }
    }

    #[test]
    fn a_process_that_makes_calls_of_32_bit_programs_numbers_all_of_them_so() {
        // openat and fsync of a 32-bit program, futex of a 64-bit one, and write, which may be
        // another call of the other: on ARM. On x86: rseq, fsync, ioctl, write.
        for (widths, [openat, fsync, wide, either]) in
            WIDTHS.iter().zip([[322, 118, 98, 64], [386, 118, 16, 1]])
        {
            let calls = [(10, openat), (11, fsync), (20, wide), (30, either), (40, wide), (40, openat)];
            for machine in [widths.wide, widths.narrow] {
                let numbers = Numbers::of(&trace(&calls), machine);
                let each = [10, 11, 20, 30, 40, 50].map(|tid| numbers.machine(tid).to_owned());
                assert_eq!(each, [widths.narrow, widths.narrow, widths.wide, "", "", ""]);
                assert_eq!(numbers.unknown(), 2);
            }
        }
    }

    #[test]
    fn an_address_above_4_gib_is_one_of_a_64_bit_program() {
        let mut trace = trace(&[(10, 386), (20, 202), (30, 202), (40, 202)]);
        for (event, address) in trace.events.iter_mut().zip([0, 0x7f12_3456_7890, 0x5612_3456, u64::MAX - 99])
        {
            event.body = match event.body {
                Body::SysEnter { number, third, sixth, .. } => {
                    Body::SysEnter { number, first: address, third, sixth }
                }
                other => other,
            };
        }
        let numbers = Numbers::of(&trace, "x86_64");
        assert_eq!([10, 20, 30, 40].map(|tid| numbers.machine(tid)), ["i686", "x86_64", "", ""]);
    }

    #[test]
    fn without_a_sign_of_the_other_width_all_are_of_the_machine() {
        for (widths, [wide, narrow, either]) in WIDTHS.iter().zip([[82, 322, 64], [17, 359, 1]]) {
            let of = |calls: &[(u32, i64)], machine: &str, named: &str| {
                let trace = Trace { machine: named.to_owned(), ..trace(calls) };
                let numbers = Numbers::of(&trace, machine);
                [10, 20, 30].map(|tid| numbers.machine(tid).to_owned())
            };
            assert_eq!(of(&[(10, wide), (20, either)], widths.wide, ""), [widths.wide; 3]);
            assert_eq!(of(&[(10, 118), (20, narrow)], widths.narrow, ""), [widths.narrow; 3]);
            let named = of(&[(10, wide), (20, narrow)], widths.narrow, widths.narrow);
            assert_eq!(named, [widths.narrow; 3]);
        }
        assert_eq!(Numbers::of(&trace(&[(10, 386)]), "riscv64").machine(10), "riscv64");
    }
}
