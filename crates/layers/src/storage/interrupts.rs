//! Tracks the last interrupts of controllers while a recording is read, to find which one signalled
//! an answer. Must not know requests.

use roundtrip_tracefs::Name;

/// The last interrupt with a given name on a CPU.
#[derive(Clone, Copy, Debug)]
struct Seen {
    name: Name,
    irq: u32,
    cpu: u32,
    /// The times of the last interrupt and of the one before it, in nanoseconds.
    time_ns: u64,
    before_ns: u64,
    handling: bool,
}

/// The controllers' last interrupts.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    seen: Vec<Seen>,
}

impl Interrupts {
    pub(super) fn enter(&mut self, cpu: u32, irq: u32, name: Name, time_ns: u64) {
        let known = self.seen.iter_mut().find(|seen| (seen.name, seen.irq, seen.cpu) == (name, irq, cpu));
        match known {
            Some(seen) => (seen.before_ns, seen.time_ns, seen.handling) = (seen.time_ns, time_ns, true),
            None => self.seen.push(Seen { name, irq, cpu, time_ns, before_ns: 0, handling: true }),
        }
    }

    pub(super) fn leave(&mut self, cpu: u32, irq: u32, handled: bool) {
        for seen in self.seen.iter_mut().filter(|seen| seen.handling && (seen.cpu, seen.irq) == (cpu, irq)) {
            seen.handling = false;
            // The line is shared, and the interrupt was for another device.
            if !handled {
                seen.time_ns = seen.before_ns;
            }
        }
    }

    /// The CPU and time of the interrupt that signalled an answer. `cpu` saw the answer: the
    /// interrupt is the one that this CPU is handling or, without one, the last one on any CPU.
    /// Only interrupts after `since_ns` whose name `ours` accepts are considered.
    pub(super) fn that_reported(
        &self,
        cpu: u32,
        since_ns: u64,
        ours: impl Fn(Name) -> bool,
    ) -> Option<(u32, u64)> {
        let all = self.seen.iter().filter(|seen| seen.time_ns > since_ns && ours(seen.name));
        all.max_by_key(|seen| (seen.handling && seen.cpu == cpu, seen.time_ns))
            .map(|seen| (seen.cpu, seen.time_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interrupt_that_is_being_handled_here_told_of_it_else_the_last_one() {
        let mut names = roundtrip_tracefs::Names::default();
        let (first, second) = (names.intern("req.0"), names.intern("req.1"));
        let mut interrupts = Interrupts::default();
        interrupts.enter(0, 25, first, 100);
        interrupts.enter(1, 26, second, 110);
        assert_eq!(interrupts.that_reported(0, 50, |_| true), Some((0, 100)));
        assert_eq!(interrupts.that_reported(1, 50, |_| true), Some((1, 110)));
        interrupts.leave(0, 25, true);
        assert_eq!(interrupts.that_reported(0, 50, |_| true), Some((1, 110)));
        assert_eq!(interrupts.that_reported(0, 50, |name| name == first), Some((0, 100)));
        assert_eq!(interrupts.that_reported(0, 110, |_| true), None);
        // The line is shared, and the next interrupt is for another device.
        interrupts.enter(0, 25, first, 200);
        interrupts.leave(0, 25, false);
        assert_eq!(interrupts.that_reported(0, 50, |name| name == first), Some((0, 100)));
    }
}
