//! The priority of a server during a call. Needs permission for real-time priorities and for
//! raising nice values. Without it the driver must report that nothing was inherited, and the tests
//! check that.

use roundtrip_binder_driver::Command;
use roundtrip_binder_driver::uapi::TF_ONE_WAY;
use roundtrip_skips::{Need, skip};

use crate::Device;
use crate::actor::{Actor, names};
use crate::message::Message;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Priority {
    policy: i32,
    realtime: i32,
    nice: i32,
}
const FIFO: i32 = 1;
const OTHER: i32 = 0;

/// The calling thread's scheduling: fields 18 (priority), 19 (nice), 40 and 41 of /proc's `stat`
/// (proc_pid_stat(5)).
fn own() -> Priority {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    let field = |number: usize| fields[number - 3].parse::<i32>().unwrap();
    Priority { policy: field(41), realtime: field(40), nice: field(19) }
}

fn become_fifo(priority: u32) -> bool {
    crate::sys::become_fifo(priority).is_ok()
}

fn become_nice(nice: i32) -> bool {
    rustix::process::setpriority_process(None, nice).is_ok()
}

/// Calls a server of nice 0 whose node has `flags`, from a thread that `prepare` changes. Returns
/// the server's scheduling before, during and after the call.
fn served<D: Device>(flags: u32, prepare: fn() -> bool) -> Option<[Priority; 3]> {
    at_nice_0(|| served_from::<D>(flags, prepare)).flatten()
}

/// Calls `act` on a thread of nice 0. Everything that it starts and opens then has nice 0 too.
/// `None` without permission.
pub(crate) fn at_nice_0<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    let act = || become_nice(0).then(act);
    match std::thread::scope(|scope| scope.spawn(act).join()) {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn served_from<D: Device>(flags: u32, prepare: fn() -> bool) -> Option<[Priority; 3]> {
    let device = D::new();
    let server = Actor::new(&device.open());
    server.driver.become_context_manager(flags).unwrap();
    let client = Actor::new(&device.open());
    if !client.run(move |_| prepare()) {
        return None;
    }
    let before = server.run(|_| own());
    let waiting = server.start(|desk| {
        let returns = desk.write_read(&[Command::EnterLooper], &[]);
        (returns, own())
    });
    assert!(waiting.is_waiting());
    let call = client.call(0, 1, b"x");
    let (_, during) = waiting.wait();
    server.reply(b"").unwrap();
    call.wait();
    Some([before, during, server.run(|_| own())])
}

pub(crate) fn ack_inherits_a_real_time_priority_if_the_node_asks_for_it<D: Device>() {
    let Some([before, during, after]) = served::<D>(0x900, || become_fifo(42)) else {
        return denied();
    };
    assert_eq!(during, Priority { policy: FIFO, realtime: 42, ..during });
    assert_eq!((before.policy, after), (OTHER, before));
}

pub(crate) fn ack_inherits_no_real_time_priority_otherwise<D: Device>() {
    let Some([before, during, after]) = served::<D>(0x100, || become_fifo(42)) else {
        return denied();
    };
    assert_eq!((during, after), (before, before));
}

pub(crate) fn mainline_ignores_the_inherit_flag<D: Device>() {
    let served = served::<D>(0x900, || become_fifo(42));
    let Some([before, during, after]) = served else { return denied() };
    assert_eq!((during, after), (before, before));
}

pub(crate) fn a_nice_value_is_inherited_and_restored<D: Device>() {
    let Some([before, during, after]) = served::<D>(0x113, || become_nice(10)) else {
        return denied();
    };
    assert_eq!((during.nice, during.policy), (10, OTHER));
    assert_eq!(after, before);
}

/// As [`served`], for a oneway call of an ordinary thread. Returns the server's scheduling before
/// and during the call, and when it waits again.
fn served_oneway<D: Device>(flags: u32) -> Option<[Priority; 3]> {
    at_nice_0(|| {
        let device = D::new();
        let server = Actor::new(&device.open());
        server.driver.become_context_manager(flags).unwrap();
        let client = Actor::new(&device.open());
        let before = server.run(|_| own());
        // True if the server's priority may be raised.
        if !Actor::new(&device.open()).run(|_| become_fifo(1)) {
            return None;
        }
        Message::to(0).flags(TF_ONE_WAY).call(&client).wait();
        let during = server.run(|desk| {
            assert_eq!(names(&desk.write_read(&[Command::EnterLooper], &[])), ["Transaction"]);
            own()
        });
        let waiting = server.start(|desk| {
            desk.read();
            own()
        });
        assert!(waiting.is_waiting());
        server.driver.interrupt();
        Some([before, during, waiting.wait()])
    })
    .flatten()
}

pub(crate) fn ack_serves_a_oneway_call_at_its_nodes_minimum_priority<D: Device>() {
    let Some([before, during, after]) = served_oneway::<D>(0x332) else { return denied() };
    assert_eq!(during, Priority { policy: FIFO, realtime: 50, ..before });
    assert_eq!(after, before);
}

pub(crate) fn ack_reads_a_nodes_nice_value_as_signed<D: Device>() {
    let Some([before, during, after]) = served::<D>(0x1f6, || become_nice(10)) else { return denied() };
    assert_eq!((during.nice, during.policy), (-10, OTHER));
    assert_eq!(after, before);
    let Some([before, during, after]) = served_oneway::<D>(0x1f6) else { return denied() };
    assert_eq!((during.nice, after), (-10, before));
}

pub(crate) fn ack_boosts_a_waiting_caller_that_serves_a_nested_call<D: Device>() {
    let seen = at_nice_0(|| {
        let device = D::new();
        // True if priorities may be raised.
        if !Actor::new(&device.open()).run(|_| become_fifo(1)) {
            return None;
        }
        let (server, client) = crate::calls::pair(&device);
        // The driver reads it at the call.
        assert!(client.run(|_| become_nice(7)));
        let call = crate::objects::call_with_node(&client, 0, 0xbeef, 0xcafe);
        let handle = crate::objects::handle_in(&server, &server.serve());
        let nested = server.call(handle, 9, b"nested");
        call.wait();
        let during = client.run(|_| own());
        client.reply(b"").unwrap();
        nested.wait();
        Some((during.nice, client.run(|_| own()).nice))
    });
    let Some(seen) = seen.flatten() else { return denied() };
    assert_eq!(seen, (0, 7), "the nested call's, and its own again");
}

pub(crate) fn mainline_reads_a_nodes_nice_value_as_unsigned<D: Device>() {
    let Some([before, during, after]) = served::<D>(0x1f6, || become_nice(10)) else { return denied() };
    assert_eq!((during.nice, during.policy), (10, OTHER));
    assert_eq!(after, before);
    let Some([before, during, after]) = served_oneway::<D>(0x1f6) else { return denied() };
    assert_eq!((during, after), (before, before));
}

pub(crate) fn denied() {
    skip(Need::Root, "this user may not set these priorities");
}
