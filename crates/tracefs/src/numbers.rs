//! By which table the system calls of a thread are numbered. A 64-bit ARM kernel also runs 32-bit
//! programs, whose calls have other numbers, and no event says which table a number is from. Must
//! not know the calls' names.

use std::collections::HashMap;

use crate::event::Body;
use crate::trace::Trace;

const WIDE: &str = "aarch64";
const NARROW: &str = "armv7l";

/// Calls of 64-bit programs that are frequent, and whose numbers no 32-bit call has
/// (`arch/arm/tools/syscall.tbl`): `epoll_pwait`, `fcntl`, `flock`, `unlinkat`, `openat`, `pipe2`,
/// `fsync`, `futex`, `nanosleep`, `clock_gettime`, `mmap`.
const ONLY_WIDE: [i64; 11] = [22, 25, 32, 35, 56, 59, 82, 98, 101, 113, 222];

/// Whether only 32-bit programs have a call of this number: `include/uapi/asm-generic/unistd.h` has
/// none there, or it is one of ARM's own.
fn is_only_narrow(number: i64) -> bool {
    matches!(number, 244..=259 | 295..=402 | 403..=423 | 0xf_0001..=0xf_0006)
}

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
        let mixed = machine == WIDE || machine == NARROW && !named;
        let by_thread = if mixed { by_thread(trace, machine) } else { None };
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
fn by_thread(trace: &Trace, machine: &str) -> Option<HashMap<u32, &'static str>> {
    let process = |tid: u32| trace.processes.get(&tid).copied().unwrap_or(tid);
    let mut threads: HashMap<u32, ()> = HashMap::new();
    // By process: whether it made calls that only 64-bit and only 32-bit programs make.
    let mut made: HashMap<u32, (bool, bool)> = HashMap::new();
    for event in trace.all() {
        let Body::SysEnter { number, .. } = event.body else { continue };
        threads.insert(event.tid, ());
        let (wide, narrow) = (ONLY_WIDE.contains(&number), is_only_narrow(number));
        if wide || narrow {
            let made = made.entry(process(event.tid)).or_default();
            *made = (made.0 | wide, made.1 | narrow);
        }
    }
    let other = |made: &(bool, bool)| if machine == WIDE { made.1 } else { made.0 };
    if !made.values().any(other) {
        return None;
    }
    let machine = |tid: u32| match made.get(&process(tid)) {
        Some((true, false)) => WIDE,
        Some((false, true)) => NARROW,
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
        // 322 is openat, 118 fsync of a 32-bit program; 98 is futex of a 64-bit one.
        let trace = trace(&[(10, 322), (11, 118), (20, 98), (30, 64), (40, 98), (40, 322)]);
        for machine in [WIDE, NARROW] {
            let numbers = Numbers::of(&trace, machine);
            let each = [10, 11, 20, 30, 40, 50].map(|tid| numbers.machine(tid));
            assert_eq!(each, [NARROW, NARROW, WIDE, "", "", ""]);
            assert_eq!(numbers.unknown(), 2);
        }
    }

    #[test]
    fn without_a_sign_of_the_other_width_all_are_of_the_machine() {
        let wide = Numbers::of(&trace(&[(10, 82), (20, 64)]), WIDE);
        assert_eq!([10, 20, 30].map(|tid| wide.machine(tid)), [WIDE; 3]);
        let narrow = Numbers::of(&trace(&[(10, 118), (20, 322)]), NARROW);
        assert_eq!([10, 20, 30].map(|tid| narrow.machine(tid)), [NARROW; 3]);
        let named = Trace { machine: NARROW.into(), ..trace(&[(10, 98), (20, 322)]) };
        assert_eq!(Numbers::of(&named, NARROW).machine(10), NARROW);
        assert_eq!(Numbers::of(&trace(&[(10, 322)]), "x86_64").machine(10), "x86_64");
    }
}
