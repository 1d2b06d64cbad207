//! Aggregates transactions by client, server, pool of threads, node and method. The number of rows
//! bounds the memory.

use std::collections::{HashMap, HashSet};

use roundtrip_latency::{Deadline, Histogram};
use roundtrip_observed::calls::{Call, Oneway};
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
#[derive(Debug, Default)]
pub(super) struct Flows {
    rows: Vec<Flow>,
    /// For each row, the threads that served its transactions.
    threads: Vec<HashSet<u32>>,
    places: HashMap<Key, usize>,
    /// How many nodes have rows, by the rest of the key.
    nodes: HashMap<Key, u32>,
    pools: Pools,
    /// Transactions that no row counts, because there was no room for another row.
    pub(super) others: u64,
}

impl Flows {
    /// The rows so far, in the order in which they were created.
    pub(super) fn rows(&self) -> &[Flow] {
        &self.rows
    }

    /// The index of a transaction's row. Creates the row if there is room.
    fn row(&mut self, mut ends: Ends, node: i32, code: u32) -> Option<usize> {
        let has_room = self.rows.len() < MAX_FLOWS;
        ends.pool = self.pools.known(ends.server.pid, ends.pool, has_room);
        let mut key = Key { ends, node: Some(node), code };
        if let Some(&place) = self.places.get(&key) {
            return Some(place);
        }
        let others = Key { node: None, ..key.clone() };
        let known = self.nodes.get(&others).copied().unwrap_or(0);
        if known >= MOST_NODES {
            key = others.clone();
            if let Some(&place) = self.places.get(&key) {
                return Some(place);
            }
        }
        if !has_room {
            self.others += 1;
            return None;
        }
        self.nodes.insert(others, known + 1);
        let place = self.rows.len();
        let Key { ends: Ends { client, server, pool }, node, .. } = key.clone();
        self.places.insert(key, place);
        self.threads.push(HashSet::new());
        self.rows.push(Flow {
            client,
            server,
            pool,
            node,
            code,
            latency: Histogram::growing(),
            request: Histogram::growing(),
            handling: Histogram::growing(),
            reply: Histogram::growing(),
            behind_pool: Histogram::growing(),
            missed: 0,
            nested: 0,
            oneway: Histogram::growing(),
            failed: 0,
            server_threads: 0,
        });
        Some(place)
    }

    /// Counts a round trip and returns the index of its row.
    pub(super) fn call(&mut self, ends: Ends, call: &Call, deadline: Deadline) -> Option<usize> {
        let place = self.row(ends, call.sent.node, call.sent.code)?;
        let flow = &mut self.rows[place];
        flow.latency.record(call.latency_ns());
        flow.request.record(call.received_ns.saturating_sub(call.sent.start_ns));
        flow.handling.record(call.replied_ns.saturating_sub(call.received_ns));
        flow.reply.record(call.end_ns.saturating_sub(call.replied_ns));
        if let Some(behind_ns) = call.behind_pool_ns {
            flow.behind_pool.record(behind_ns);
        }
        flow.missed += u64::from(call.latency_ns() > deadline.ns);
        flow.nested += u64::from(call.sent.parent.is_some());
        self.served(place, call.server);
        Some(place)
    }

    /// Counts a oneway transaction and returns the index of its row.
    pub(super) fn oneway(&mut self, ends: Ends, oneway: &Oneway) -> Option<usize> {
        let place = self.row(ends, oneway.sent.node, oneway.sent.code)?;
        self.rows[place].oneway.record(oneway.received_ns.saturating_sub(oneway.sent.start_ns));
        self.served(place, oneway.server);
        Some(place)
    }

    /// Counts a failed call and returns the index of its row.
    pub(super) fn failed(&mut self, ends: Ends, node: i32, code: u32) -> Option<usize> {
        let place = self.row(ends, node, code)?;
        self.rows[place].failed += 1;
        Some(place)
    }

    fn served(&mut self, place: usize, thread: u32) {
        let threads = &mut self.threads[place];
        if threads.len() < MAX_THREADS && threads.insert(thread) {
            self.rows[place].server_threads += 1;
        }
    }

    /// The rows, sorted by total latency in descending order, and for each old index the new one.
    pub(super) fn finish(self) -> (Vec<Flow>, Vec<usize>) {
        let mut rows: Vec<(usize, Flow)> = (0..).zip(self.rows).collect();
        rows.sort_by_key(|(place, flow)| (std::cmp::Reverse(flow.latency.sum_ns()), *place));
        let mut places = vec![0; rows.len()];
        for (now, (before, _)) in rows.iter().enumerate() {
            places[*before] = now;
        }
        (rows.into_iter().map(|(_, flow)| flow).collect(), places)
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
        assert_eq!(places, [0, 1]);
    }

    #[test]
    fn rows_nodes_and_threads_are_bounded_and_what_has_no_room_is_counted() {
        let mut flows = Flows::default();
        let deadline = Deadline { ns: 1 };
        for node in 0..100 {
            flows.call(ends("a"), &call(node, 2), deadline);
        }
        let nodes: Vec<_> = flows.rows().iter().map(|flow| flow.node).collect();
        assert_eq!((nodes.len(), nodes[16]), (17, None));
        assert_eq!(flows.rows()[16].latency.count(), 84);
        for thread in 0..MAX_THREADS as u32 + 10 {
            flows.call(ends("a"), &call(0, thread), deadline);
        }
        assert_eq!(flows.rows()[0].server_threads, MAX_THREADS as u32);
        for client in 0..MAX_FLOWS as u32 {
            let client = Process { pid: 10 + client, name: String::new() };
            flows.call(Ends { client, ..ends("a") }, &call(0, 2), deadline);
        }
        assert_eq!((flows.rows().len(), flows.others), (MAX_FLOWS, 17));
    }
}
