//! Which threads worked for a call, and when. Must not know why.

use std::collections::HashMap;

/// By thread: the start and the end of stretches without overlap, in nanoseconds and in order.
#[derive(Debug, Default)]
pub(super) struct Workers(HashMap<u32, Vec<(u64, u64)>>);

impl Workers {
    /// Adds a stretch with both its ends.
    pub(super) fn add(&mut self, tid: u32, from_ns: u64, to_ns: u64) {
        if from_ns > to_ns {
            return;
        }
        let stretches = self.0.entry(tid).or_default();
        let first = stretches.partition_point(|stretch| stretch.1 < from_ns);
        let after = stretches.partition_point(|stretch| stretch.0 <= to_ns);
        match stretches.get(first..after) {
            Some(&[(begin_ns, _), ..]) => {
                let end_ns = stretches[after - 1].1;
                stretches.drain(first + 1..after);
                stretches[first] = (begin_ns.min(from_ns), end_ns.max(to_ns));
            }
            _ => stretches.insert(first, (from_ns, to_ns)),
        }
    }

    /// Whether a thread worked at an instant.
    pub(super) fn has(&self, tid: u32, time_ns: u64) -> bool {
        self.0.get(&tid).is_some_and(|stretches| {
            let first = stretches.partition_point(|stretch| stretch.1 < time_ns);
            stretches.get(first).is_some_and(|stretch| stretch.0 <= time_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_thread_worked_in_any_of_its_stretches(
            stretches in prop::collection::vec((0..3_u32, 0..30_u64, 0..30_u64), 0..12),
        ) {
            let mut workers = Workers::default();
            stretches.iter().for_each(|&(tid, from_ns, to_ns)| workers.add(tid, from_ns, to_ns));
            for (tid, time_ns) in (0..3).flat_map(|tid| (0..31).map(move |time_ns| (tid, time_ns))) {
                let any = stretches.iter().any(|&(of, from, to)| of == tid && (from..=to).contains(&time_ns));
                prop_assert_eq!(workers.has(tid, time_ns), any);
            }
        }
    }
}
