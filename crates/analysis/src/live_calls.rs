//! Other programs' calls while they are observed: the figures of each row of the table in each
//! interval. Receives completed transactions round by round. Must not know how they were observed
//! or are shown.

use roundtrip_latency::{Deadline, Histogram};
use roundtrip_observed::calls::Observed;
use roundtrip_sorting::SmallSort as _;

/// The figures of one row in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The row's index, counted from 0.
    pub flow: usize,
    /// The number of round trips that ended.
    pub calls: u64,
    /// The number of these round trips that took longer than the deadline.
    pub missed: u64,
    /// The median of their durations, in nanoseconds, like all times here; `None` without round
    /// trips.
    pub p50_ns: Option<u64>,
    /// Their 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest duration.
    pub max_ns: Option<u64>,
    /// How long no server thread was ready: the mean over the calls for which this is known.
    pub behind_pool_ns: Option<u64>,
    /// The number of oneway transactions that a thread took.
    pub oneway: u64,
    /// The number of calls that failed.
    pub failed: u64,
}

/// The current interval of one row.
#[derive(Debug, Clone)]
struct Current {
    latency: Histogram,
    behind_pool_ns: (u64, u64),
    missed: u64,
    oneway: u64,
    failed: u64,
}

impl Current {
    fn new() -> Self {
        Self { latency: Histogram::growing(), behind_pool_ns: (0, 0), missed: 0, oneway: 0, failed: 0 }
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        let (sum_ns, count) = other.behind_pool_ns;
        self.behind_pool_ns = (self.behind_pool_ns.0.saturating_add(sum_ns), self.behind_pool_ns.1 + count);
        self.missed += other.missed;
        self.oneway += other.oneway;
        self.failed += other.failed;
    }
}

/// One session in which calls are observed.
#[derive(Debug, Clone)]
pub struct Session {
    deadline: Deadline,
    current: Vec<Current>,
    /// The rows of the last interval, sorted by total time.
    pub last: Vec<Point>,
    /// The number of completed intervals.
    pub intervals: u64,
}

impl Session {
    /// A session without intervals.
    #[must_use]
    pub fn new(deadline: Deadline) -> Self {
        Self { deadline, current: Vec::new(), last: Vec::new(), intervals: 0 }
    }

    /// The rows have new places, by their places before. Those with the same place are one row.
    pub fn moved(&mut self, places: &[usize]) {
        for (current, place) in std::mem::take(&mut self.current).iter().zip(places) {
            self.current(*place).merge(current);
        }
        for point in &mut self.last {
            point.flow = places.get(point.flow).copied().unwrap_or(point.flow);
        }
    }

    fn current(&mut self, flow: usize) -> &mut Current {
        if self.current.len() <= flow {
            self.current.resize_with(flow + 1, Current::new);
        }
        &mut self.current[flow]
    }

    /// Adds completed transactions, each with its row, to the current interval.
    pub fn add(&mut self, ended: &[(usize, Observed)]) {
        let deadline = self.deadline;
        for (flow, observed) in ended {
            let current = self.current(*flow);
            match observed {
                Observed::Call(call) => {
                    current.latency.record(call.latency_ns());
                    current.missed += u64::from(deadline.missed(call.latency_ns()));
                    if let Some(behind_ns) = call.behind_pool_ns {
                        let (sum_ns, count) = current.behind_pool_ns;
                        current.behind_pool_ns = (sum_ns.saturating_add(behind_ns), count + 1);
                    }
                }
                Observed::Oneway(_) => current.oneway += 1,
                Observed::Failed(_) => current.failed += 1,
            }
        }
    }

    /// Ends the current interval.
    pub fn end_interval(&mut self) {
        self.intervals += 1;
        let mut seen: Vec<(u64, Point)> = Vec::new();
        for (flow, current) in self.current.drain(..).enumerate() {
            let Current { latency, behind_pool_ns: (sum_ns, count), missed, oneway, failed } = current;
            if latency.is_empty() && oneway == 0 && failed == 0 {
                continue;
            }
            let point = Point {
                flow,
                calls: latency.count(),
                missed,
                p50_ns: latency.percentile_ns(50.0),
                p99_ns: latency.percentile_ns(99.0),
                max_ns: latency.max_ns(),
                behind_pool_ns: sum_ns.checked_div(count),
                oneway,
                failed,
            };
            seen.push((latency.sum_ns(), point));
        }
        seen.small_sort_by_key(|(sum_ns, point)| (std::cmp::Reverse(*sum_ns), point.flow));
        self.last = seen.into_iter().map(|(_, point)| point).collect();
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_observed::calls::{Call, Failed, Oneway, Sent};

    use super::*;

    const SENT: Sent =
        Sent { id: 1, client: 1, to_process: 2, node: 3, code: 4, flags: 0, parent: None, start_ns: 1000 };

    fn call(ns: u64, behind_pool_ns: Option<u64>) -> Observed {
        Observed::Call(Call {
            sent: SENT,
            server: 5,
            behind_pool_ns,
            received_ns: 1000,
            replied_ns: 1000,
            end_ns: 1000 + ns,
        })
    }

    #[test]
    fn an_interval_has_the_calls_that_ended_in_it_sorted_by_total_time() {
        let mut session = Session::new(Deadline { ns: 500 });
        session.add(&[(0, call(100, None)), (2, call(1000, Some(30)))]);
        session.add(&[(2, call(200, Some(10))), (2, call(300, None))]);
        session.add(&[(1, Observed::Oneway(Oneway { sent: SENT, server: 5, received_ns: 1010 }))]);
        session.add(&[(3, Observed::Failed(Failed { client: 1, sent: None, command: 0x7205, at_ns: 9 }))]);
        session.end_interval();
        let rows: Vec<_> =
            session.last.iter().map(|row| (row.flow, row.calls, row.oneway, row.failed)).collect();
        assert_eq!(rows, [(2, 3, 0, 0), (0, 1, 0, 0), (1, 0, 1, 0), (3, 0, 0, 1)]);
        let first = session.last[0];
        assert_eq!((first.missed, first.behind_pool_ns), (1, Some(20)));
        assert!(first.p50_ns.is_some_and(|ns| (300..310).contains(&ns)), "{first:?}");
        assert_eq!((session.last[2].p50_ns, session.last[1].behind_pool_ns), (None, None));
        session.add(&[(1, call(50, None))]);
        session.end_interval();
        assert_eq!(session.last.iter().map(|row| row.flow).collect::<Vec<_>>(), [1]);
        session.end_interval();
        assert!(session.last.is_empty() && session.intervals == 3);
        session.add(&[(1, call(50, None)), (3, call(600, None)), (4, call(70, Some(5)))]);
        session.moved(&[0, 0, 0, 1, 0]);
        session.end_interval();
        let rows: Vec<_> = session.last.iter().map(|row| (row.flow, row.calls, row.missed)).collect();
        assert_eq!(rows, [(1, 1, 1), (0, 2, 0)]);
        session.moved(&[2, 3]);
        assert_eq!(session.last.iter().map(|row| row.flow).collect::<Vec<_>>(), [3, 2]);
    }
}
