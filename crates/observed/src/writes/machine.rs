//! Guesses the architecture of a recording that does not name it, from its system call numbers.

use std::collections::HashMap;

use roundtrip_tracefs::{Body, OffCpu, Trace};

use super::matcher::MAKES_DURABLE;
use super::operation::Operation;

/// Machines with different system call numbers, by their names in `uname -m`. aarch64 stands for
/// all machines that use the generic table. 32-bit ARM comes before 32-bit x86, which has the same
/// numbers for most of these calls.
const MACHINES: [&str; 4] = ["x86_64", "aarch64", "armv7l", "i686"];

/// The machine that the recording names. Otherwise, the machine by whose numbers most of the
/// relevant calls are writes. Relevant are calls that slept uninterruptibly, or that entered a file
/// system's fsync. `None` if none of them is a write on any machine.
#[must_use]
pub fn machine_of(trace: &Trace) -> Option<String> {
    if !trace.machine.is_empty() {
        return Some(trace.machine.clone());
    }
    let mut under_way: HashMap<u32, i64> = HashMap::new();
    let mut votes = [0_u64; MACHINES.len()];
    let mut vote = |number: i64| {
        for (votes, machine) in votes.iter_mut().zip(MACHINES) {
            let operation = Operation::of_system_call(machine, number);
            *votes += u64::from(operation.is_some_and(|operation| !operation.is_of_aio()));
        }
    };
    for event in trace.all() {
        match event.body {
            Body::SysEnter { number, .. } => _ = under_way.insert(event.tid, number),
            Body::SysExit { .. } => _ = under_way.remove(&event.tid),
            Body::Switch { prev, prev_state, .. } if prev_state.off() == Some(OffCpu::Uninterruptible) => {
                under_way.get(&prev.tid).copied().into_iter().for_each(&mut vote);
            }
            Body::Other { event: kind, .. } if MAKES_DURABLE.contains(&trace.names.text(kind)) => {
                under_way.get(&event.tid).copied().into_iter().for_each(&mut vote);
            }
            _ => {}
        }
    }
    let most = votes.iter().copied().max().filter(|&votes| votes > 0)?;
    MACHINES.into_iter().zip(votes).find(|(_, votes)| *votes == most).map(|(machine, _)| machine.to_owned())
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::{Event, TaskState, ThreadRef};

    use super::*;

    #[test]
    fn calls_that_wait_for_a_device_identify_the_machine() {
        let event = |body| Event { time_ns: 0, cpu: 0, tid: 7, body };
        let enter = |number| event(Body::SysEnter { number, first: 3, third: 0, sixth: 0 });
        let prev = ThreadRef { tid: 7, ..ThreadRef::default() };
        let sleep = event(Body::Switch { prev, prev_state: TaskState(2), next: ThreadRef::default() });
        let machine = |events: &[Event]| machine_of(&Trace { events: events.to_vec(), ..Trace::default() });
        assert_eq!(machine(&[enter(74), sleep]).as_deref(), Some("x86_64"));
        assert_eq!(machine(&[enter(82), sleep]).as_deref(), Some("aarch64"));
        assert_eq!(machine(&[enter(118), sleep]).as_deref(), Some("armv7l"));
        assert_eq!(machine(&[enter(344), sleep]).as_deref(), Some("i686"));
        assert_eq!(machine(&[enter(82)]), None);
        assert_eq!(machine(&[enter(2), sleep]), None, "open(2), or io_submit(2) of arm64");
        let said = Trace { machine: "riscv64".into(), ..Trace::default() };
        assert_eq!(machine_of(&said).as_deref(), Some("riscv64"));
    }
}
