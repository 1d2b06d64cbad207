//! Aggregates transactions by client, server, node and method. The number of rows bounds the
//! memory.

use std::collections::{HashMap, HashSet};

use latency::{Deadline, Histogram};
use run::ipc::observe::{Flow, MAX_FLOWS, Process};
use transactions::{Call, Oneway};

/// So many nodes of a server that a client calls with one code have rows of their own. A service
/// has few; objects that are made for a call and then dropped would make a row each.
const MOST_NODES: u32 = 16;

/// What makes a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    client: Process,
    server: Process,
    /// `None`: those beyond [`MOST_NODES`].
    node: Option<i32>,
    code: u32,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct Flows {
    rows: Vec<(Flow, HashSet<u32>)>,
    places: HashMap<Key, usize>,
    /// How many nodes have rows, by what else makes a row.
    nodes: HashMap<Key, u32>,
    /// Transactions for which there was no row any more.
    pub(super) others: u64,
}

impl Flows {
    /// The row of a transaction, which is made if there is room.
    fn row(&mut self, client: &Process, server: &Process, node: i32, code: u32) -> Option<usize> {
        let mut key = Key { client: client.clone(), server: server.clone(), node: Some(node), code };
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
        if self.rows.len() >= MAX_FLOWS {
            self.others += 1;
            return None;
        }
        self.nodes.insert(others, known + 1);
        let place = self.rows.len();
        let Key { client, server, node, .. } = key.clone();
        self.places.insert(key, place);
        self.rows.push((
            Flow {
                client,
                server,
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
            },
            HashSet::new(),
        ));
        Some(place)
    }

    /// Counts a round trip, and tells its row.
    pub(super) fn call(
        &mut self,
        client: &Process,
        server: &Process,
        call: &Call,
        deadline: Deadline,
    ) -> Option<usize> {
        let place = self.row(client, server, call.sent.node, call.sent.code)?;
        let (flow, threads) = &mut self.rows[place];
        flow.latency.record(call.latency_ns());
        flow.request.record(call.received_ns.saturating_sub(call.sent.start_ns));
        flow.handling.record(call.replied_ns.saturating_sub(call.received_ns));
        flow.reply.record(call.end_ns.saturating_sub(call.replied_ns));
        if let Some(behind_ns) = call.behind_pool_ns {
            flow.behind_pool.record(behind_ns);
        }
        flow.missed += u64::from(call.latency_ns() > deadline.ns);
        flow.nested += u64::from(call.sent.parent.is_some());
        threads.insert(call.server);
        Some(place)
    }

    /// Counts a oneway transaction.
    pub(super) fn oneway(&mut self, client: &Process, server: &Process, oneway: &Oneway) {
        if let Some(place) = self.row(client, server, oneway.sent.node, oneway.sent.code) {
            let (flow, threads) = &mut self.rows[place];
            flow.oneway.record(oneway.received_ns.saturating_sub(oneway.sent.start_ns));
            threads.insert(oneway.server);
        }
    }

    /// Counts a call that failed.
    pub(super) fn failed(&mut self, client: &Process, server: &Process, node: i32, code: u32) {
        if let Some(place) = self.row(client, server, node, code) {
            self.rows[place].0.failed += 1;
        }
    }

    /// The rows, the one with the most time in it first, and where each was before.
    pub(super) fn finish(self) -> (Vec<Flow>, Vec<usize>) {
        let mut rows: Vec<(usize, Flow)> = (0..)
            .zip(self.rows)
            .map(|(place, (flow, threads))| (place, Flow { server_threads: threads.len() as u32, ..flow }))
            .collect();
        rows.sort_by_key(|(place, flow)| (std::cmp::Reverse(flow.latency.sum_ns()), *place));
        let mut places = vec![0; rows.len()];
        for (now, (before, _)) in rows.iter().enumerate() {
            places[*before] = now;
        }
        (rows.into_iter().map(|(_, flow)| flow).collect(), places)
    }
}
