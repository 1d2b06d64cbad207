//! Aggregates transactions by client, server, pool of threads, node and method. Those with the most
//! time have rows of their own.

use std::collections::{HashMap, HashSet};

use roundtrip_latency::Deadline;
use roundtrip_observed::calls::{Call, DEAD_REPLY, FROZEN_REPLY, Failed, Oneway};
use roundtrip_run::heaviest::{Finished, Heaviest, OTHERS, Others};
use roundtrip_run::ipc::observe::{Flow, MAX_FLOWS, MAX_THREADS, Process};

use super::pools::Pools;

/// How many nodes have rows of their own for a client, server, pool and method. A service has few,
/// but objects that are made for one call and then dropped would make a row each.
const MOST_NODES: u32 = 16;

/// The ends of a transaction: its client, its server, and the server's pool that takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub(super) client: Process,
    pub(super) server: Process,
    pub(super) pool: Option<String>,
}

/// What identifies a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    ends: Ends,
    /// `None` for all nodes beyond [`MOST_NODES`].
    node: Option<i32>,
    code: u32,
}

/// The rows so far.
#[derive(Debug)]
pub(super) struct Flows {
    table: Heaviest<Key, Flow>,
    /// For each row, the threads that served its transactions.
    threads: Vec<HashSet<u32>>,
    /// How many nodes have rows, by the rest of the key.
    nodes: HashMap<Key, u32>,
    pools: Pools,
}

impl Default for Flows {
    /// Without transactions.
    fn default() -> Self {
        let others = Flow::new((Process::default(), Process::default()), None, None, 0);
        Self {
            table: Heaviest::new(MAX_FLOWS, Flow { stands_for: 1, ..others }),
            threads: vec![HashSet::new()],
            nodes: HashMap::new(),
            pools: Pools::default(),
        }
    }
}

impl Flows {
    /// The rows by their place. The first one is the sum of all without a row of their own.
    pub(super) fn rows(&self) -> &[Flow] {
        self.table.rows()
    }

    /// Returns the place of a transaction's row, and makes the row if there is none.
    fn place(&mut self, mut ends: Ends, node: i32, code: u32) -> usize {
        ends.pool = self.pools.known(ends.server.pid, ends.pool);
        let mut key = Key { ends, node: Some(node), code };
        if let Some(place) = self.table.find(&key) {
            return place;
        }
        let others = Key { node: None, ..key.clone() };
        let known = self.nodes.get(&others).copied().unwrap_or(0);
        if known >= MOST_NODES {
            key = others;
            if let Some(place) = self.table.find(&key) {
                return place;
            }
        } else {
            self.nodes.insert(others, known + 1);
        }
        let place = self.table.place(key, |key| {
            let Key { ends: Ends { client, server, pool }, node, code } = key.clone();
            Flow::new((client, server), pool, node, code)
        });
        if place == self.threads.len() {
            self.threads.push(HashSet::new());
        }
        place
    }

    /// Counts a round trip and returns the place of its row.
    pub(super) fn call(&mut self, ends: Ends, call: &Call, deadline: Deadline) -> usize {
        let place = self.place(ends, call.sent.node, call.sent.code);
        if let Some(flow) = self.table.at(place) {
            flow.latency.record(call.latency_ns());
            flow.request.record(call.received_ns.saturating_sub(call.sent.start_ns));
            flow.handling.record(call.replied_ns.saturating_sub(call.received_ns));
            flow.reply.record(call.end_ns.saturating_sub(call.replied_ns));
            if let Some(behind_ns) = call.behind_pool_ns {
                flow.behind_pool.record(behind_ns);
            }
            flow.missed += u64::from(call.latency_ns() > deadline.ns);
            flow.nested += u64::from(call.sent.parent.is_some());
        }
        self.served(place, call.server);
        place
    }

    /// Counts a oneway transaction and returns the place of its row.
    pub(super) fn oneway(&mut self, ends: Ends, oneway: &Oneway) -> usize {
        let place = self.place(ends, oneway.sent.node, oneway.sent.code);
        if let Some(flow) = self.table.at(place) {
            flow.oneway.record(oneway.received_ns.saturating_sub(oneway.sent.start_ns));
        }
        self.served(place, oneway.server);
        place
    }

    /// Counts a failed call and returns the place of its row.
    pub(super) fn failed(&mut self, ends: Ends, failed: &Failed) -> usize {
        let (node, code) = failed.sent.map_or((0, 0), |sent| (sent.node, sent.code));
        let place = self.place(ends, node, code);
        if let Some(flow) = self.table.at(place) {
            flow.failed += 1;
            *match failed.command {
                DEAD_REPLY => &mut flow.dead,
                FROZEN_REPLY => &mut flow.frozen,
                _ => &mut flow.refused,
            } += 1;
        }
        place
    }

    fn served(&mut self, place: usize, thread: u32) {
        let threads = &mut self.threads[place];
        if threads.len() < MAX_THREADS && threads.insert(thread) {
            self.table.at(place).into_iter().for_each(|flow| flow.server_threads += 1);
        }
    }

    /// Whether the table should be shrunk.
    pub(super) fn is_full(&self) -> bool {
        self.table.is_full()
    }

    /// Merges the rows with the least time. Returns the new place of each row, by its place before.
    pub(super) fn shrink(&mut self) -> Vec<usize> {
        let places = self.table.shrink();
        let before = std::mem::take(&mut self.threads);
        self.threads.resize_with(self.table.rows().len(), HashSet::new);
        for (threads, &place) in before.into_iter().zip(&places) {
            let room = MAX_THREADS - self.threads[place].len();
            self.threads[place].extend(threads.into_iter().take(room));
        }
        let others = self.threads[OTHERS].len() as u32;
        self.table.at(OTHERS).into_iter().for_each(|flow| flow.server_threads = others);
        self.nodes.clear();
        for key in self.table.keys().filter(|key| key.node.is_some()) {
            *self.nodes.entry(Key { node: None, ..key.clone() }).or_default() += 1;
        }
        self.pools.keep(&self.table.rows().iter().map(|flow| flow.server.pid).collect());
        places
    }

    /// The rows, sorted by total time in descending order, with the sum of all others last. Also
    /// returns the new place of each row, by its place before.
    pub(super) fn finish(mut self) -> (Vec<Flow>, Vec<usize>) {
        let shrunk = self.shrink();
        let Finished { mut rows, places, others } = self.table.finish();
        rows.extend(others.map(|Others { row, rows, beyond_ns }| Flow {
            stands_for: rows,
            beyond_ns,
            ..row
        }));
        (rows, shrunk.into_iter().map(|place| places[place]).collect())
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_observed::calls::Sent;

    use super::*;

    fn ends(pool: &str) -> Ends {
        let process = |pid, name: &str| Process { pid, name: name.into() };
        Ends { client: process(1, "client"), server: process(2, "server"), pool: Some(pool.into()) }
    }

    fn call(node: i32, server: u32) -> Call {
        let sent =
            Sent { id: 1, client: 1, to_process: 2, node, code: 3, flags: 0, parent: None, start_ns: 1000 };
        Call {
            sent,
            server,
            behind_pool_ns: Some(100),
            received_ns: 2000,
            replied_ns: 3000,
            end_ns: 4000 + u64::from(server),
        }
    }

    #[test]
    fn each_pool_of_a_server_has_a_row_with_its_threads_and_its_waits() {
        let mut flows = Flows::default();
        let deadline = Deadline { ns: 1_000_000 };
        for thread in [20, 21, 20] {
            flows.call(ends("Binder:#_#"), &call(7, thread), deadline);
        }
        flows.call(ends("main"), &call(7, 2), deadline);
        let (rows, places) = flows.finish();
        let rows: Vec<_> = rows
            .iter()
            .map(|flow| {
                let waits = flow.behind_pool.sum_ns();
                (flow.pool.as_deref().unwrap(), flow.latency.count(), flow.server_threads, waits)
            })
            .collect();
        assert_eq!(rows, [("Binder:#_#", 3, 2, 300), ("main", 1, 1, 100)]);
        assert_eq!(places, [2, 0, 1], "there are no others");
    }

    #[test]
    fn a_failed_call_is_in_the_row_of_its_request_with_its_reason() {
        let mut flows = Flows::default();
        let sent = call(7, 2).sent;
        for (sent, command) in [(Some(sent), 0x7211), (Some(sent), FROZEN_REPLY), (None, DEAD_REPLY)] {
            flows.failed(ends("a"), &Failed { client: 1, sent, command, at_ns: 9 });
        }
        let (rows, _) = flows.finish();
        let counts =
            rows.iter().map(|row| (row.node, row.code, row.failed, [row.dead, row.frozen, row.refused]));
        assert_eq!(counts.collect::<Vec<_>>(), [(Some(7), 3, 2, [0, 1, 1]), (Some(0), 0, 1, [1, 0, 0])]);
    }

    #[test]
    fn rows_nodes_and_threads_are_bounded_and_what_has_no_row_is_in_the_sum_of_others() {
        let mut flows = Flows::default();
        let deadline = Deadline { ns: 1 };
        for node in 0..100 {
            flows.call(ends("a"), &call(node, 2), deadline);
        }
        let nodes: Vec<_> = flows.rows()[1..].iter().map(|flow| flow.node).collect();
        assert_eq!((nodes.len(), nodes[16]), (17, None));
        assert_eq!(flows.rows()[17].latency.count(), 84);
        for thread in 0..MAX_THREADS as u32 + 10 {
            flows.call(ends("a"), &call(0, thread), deadline);
        }
        assert_eq!(flows.rows()[1].server_threads, MAX_THREADS as u32);
        for client in 0..3 * MAX_FLOWS as u32 {
            let client = Process { pid: 10 + client, name: String::new() };
            flows.call(Ends { client, ..ends("a") }, &call(0, 2), deadline);
            if flows.is_full() {
                let places = flows.shrink();
                assert_eq!((places.len(), flows.rows().len()), (2 * MAX_FLOWS + 1, MAX_FLOWS + 1));
            }
        }
        let (rows, places) = flows.finish();
        assert_eq!(rows.len(), MAX_FLOWS + 1);
        assert!(places.iter().all(|place| *place <= MAX_FLOWS));
        let (first, others) = (&rows[0], &rows[MAX_FLOWS]);
        assert_eq!(
            (first.latency.count(), first.server_threads),
            (MAX_THREADS as u64 + 11, MAX_THREADS as u32)
        );
        assert_eq!(
            (others.stands_for, others.server_threads),
            (1 + 16 + 3 * MAX_FLOWS as u64 - MAX_FLOWS as u64, 1)
        );
        let calls = rows.iter().map(|flow| flow.latency.count()).sum::<u64>();
        assert_eq!(calls, 100 + MAX_THREADS as u64 + 10 + 3 * MAX_FLOWS as u64);
    }
}
