//! When a round trip passes from the client to the server and back, and which thread served. Must
//! not know how either spent its time.

use roundtrip_tracefs::{Body, Event};

use crate::explanation::Boundary;
use crate::round_trip::{RoundTrip, Side};
use crate::timeline::{Doing, Timeline, WakingBy};

/// The two instants, in order and within the round trip, and the thread that was active between
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boundaries {
    pub(crate) request_ns: u64,
    pub(crate) request_by: Boundary,
    pub(crate) reply_ns: u64,
    pub(crate) reply_by: Boundary,
    pub(crate) server: Option<u32>,
}

pub(crate) fn find(timeline: &Timeline<'_>, trip: &RoundTrip) -> Boundaries {
    let (start_ns, end_ns) = (trip.start_ns, trip.end_ns.max(trip.start_ns));
    let Some(server) = &trip.server else {
        let (request_by, reply_by) = (Boundary::Unknown, Boundary::Unknown);
        return Boundaries { request_ns: end_ns, request_by, reply_ns: end_ns, reply_by, server: None };
    };
    let search = Search { timeline, trip, start_ns, end_ns };
    let binder = search.binder(server);
    let tid = server.tid.or(binder.server).or_else(|| search.server_by_wakings(server));
    let (request_ns, request_by) = binder
        .request_ns
        .map(|at| (at, Boundary::Binder))
        .or_else(|| Some((search.request_by_waking(tid?)?, Boundary::WakeUp)))
        .or_else(|| Some((search.first_sleep_of_client()?, Boundary::Sleep)))
        .or_else(|| Some((trip.received_ns?, Boundary::Stamp)))
        .unwrap_or((end_ns, Boundary::Unknown));
    let request_ns = request_ns.clamp(start_ns, end_ns);
    let (reply_ns, reply_by) = binder
        .reply_ns
        .map(|at| (at, Boundary::Binder))
        .or_else(|| Some((search.reply_by_waking(tid?, request_ns)?, Boundary::WakeUp)))
        .or_else(|| Some((search.last_sleep_of_server(tid?, request_ns)?, Boundary::Sleep)))
        .or_else(|| Some((trip.replied_ns?, Boundary::Stamp)))
        .unwrap_or((end_ns, Boundary::Unknown));
    Boundaries { request_ns, request_by, reply_ns: reply_ns.clamp(request_ns, end_ns), reply_by, server: tid }
}

#[derive(Default)]
struct ByBinder {
    request_ns: Option<u64>,
    reply_ns: Option<u64>,
    server: Option<u32>,
}

struct Search<'a, 't> {
    timeline: &'a Timeline<'t>,
    trip: &'a RoundTrip,
    start_ns: u64,
    end_ns: u64,
}

impl Search<'_, '_> {
    fn events(&self) -> &[Event] {
        let events = &self.timeline.events;
        let first = events.partition_point(|event| event.time_ns < self.start_ns);
        let after = events.partition_point(|event| event.time_ns <= self.end_ns);
        &events[first.min(after)..after]
    }

    /// From the driver's events: the client's transaction to the server's process, and the reply to
    /// the client.
    fn binder(&self, server: &Side) -> ByBinder {
        let mut found = ByBinder::default();
        let Some(client) = self.trip.client.tid else { return found };
        let mut request_id = None;
        for event in self.events() {
            match event.body {
                Body::BinderTransaction { debug_id, to_proc, reply: false, .. }
                    if event.tid == client && to_proc == server.pid && found.request_ns.is_none() =>
                {
                    (found.request_ns, request_id) = (Some(event.time_ns), Some(debug_id));
                }
                Body::BinderReceived { debug_id } if Some(debug_id) == request_id => {
                    found.server = Some(event.tid);
                }
                Body::BinderTransaction { to_thread, reply: true, .. }
                    if found.request_ns.is_some()
                        && (to_thread == client || to_thread == 0 && found.server == Some(event.tid)) =>
                {
                    found.reply_ns = Some(event.time_ns);
                }
                _ => {}
            }
        }
        found
    }

    /// A thread of the server's process that the client woke or that woke the client; preferably
    /// one that did both, and the last.
    fn server_by_wakings(&self, server: &Side) -> Option<u32> {
        let client = self.trip.client.tid?;
        let of_server = |tid: &u32| self.timeline.trace.processes.get(tid) == Some(&server.pid);
        let mut woken = Vec::new();
        let until_ns = self.trip.received_ns.unwrap_or(self.end_ns);
        for event in self.events() {
            if let Body::Waking { thread, .. } | Body::Wakeup { thread, .. } = event.body
                && event.tid == client
                && event.time_ns <= until_ns
            {
                woken.push(thread.tid);
            }
        }
        let wakings = self.timeline.wakings_of(client, self.start_ns, self.end_ns).iter().rev();
        let wakers: Vec<u32> = wakings
            .filter_map(|waking| match waking.by {
                WakingBy::Thread(tid) => Some(tid),
                _ => None,
            })
            .collect();
        let both = |tid: &&u32| woken.contains(tid);
        let mut of_server_wakers = wakers.iter().filter(|tid| of_server(tid));
        let last = of_server_wakers.clone().find(both).or_else(|| of_server_wakers.next());
        last.or_else(|| woken.iter().rev().find(|tid| of_server(tid)))
            // A thread of an unknown process may be any thread. One that the client woke and that
            // then woke the client is a server.
            .or_else(|| {
                let unknown = |tid: &&u32| !self.timeline.trace.processes.contains_key(tid);
                wakers.iter().filter(unknown).find(both)
            })
            .copied()
    }

    /// When the client woke the server. Wakeups after the handler's start are unrelated.
    fn request_by_waking(&self, server: u32) -> Option<u64> {
        let client = self.trip.client.tid?;
        let until_ns = self.trip.received_ns.unwrap_or(self.end_ns);
        let wakings = self.timeline.wakings_of(server, self.start_ns, until_ns).iter();
        let mut by_client = wakings.filter(|waking| waking.by == WakingBy::Thread(client));
        let waking = if self.trip.received_ns.is_some() { by_client.next_back() } else { by_client.next() };
        waking.map(|waking| waking.time_ns)
    }

    /// When the server last woke the client. Wakeups before the end of the handler are unrelated.
    fn reply_by_waking(&self, server: u32, request_ns: u64) -> Option<u64> {
        let client = self.trip.client.tid?;
        let from_ns = self.trip.replied_ns.unwrap_or(request_ns).max(request_ns);
        let wakings = self.timeline.wakings_of(client, from_ns, self.end_ns).iter();
        let mut by_server = wakings.filter(|waking| waking.by == WakingBy::Thread(server));
        by_server.next_back().map(|waking| waking.time_ns)
    }

    /// When the client first went to sleep, if the server's handler had not started before.
    fn first_sleep_of_client(&self) -> Option<u64> {
        let until_ns = self.trip.received_ns.unwrap_or(self.end_ns);
        let doing = self.timeline.doing(self.trip.client.tid?, self.start_ns, self.end_ns);
        let sleep = doing.iter().find(|during| matches!(during.what, Doing::Blocked { .. }));
        sleep.map(|sleep| sleep.begin_ns).filter(|&at| at <= until_ns)
    }

    /// When the server last went to sleep, if its handler had ended by then.
    fn last_sleep_of_server(&self, server: u32, request_ns: u64) -> Option<u64> {
        let from_ns = self.trip.replied_ns.unwrap_or(request_ns).max(request_ns);
        let doing = self.timeline.doing(server, request_ns, self.end_ns);
        let sleep = doing.iter().rev().find(|during| matches!(during.what, Doing::Blocked { .. }));
        sleep.map(|sleep| sleep.begin_ns).filter(|&at| at >= from_ns && at > request_ns)
    }
}
