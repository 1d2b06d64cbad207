//! Frozen processes: synchronous calls to them are refused, oneway calls are queued.

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Errno, Return};

use crate::Device;
use crate::actor::{Actor, find_transaction, names};
use crate::extended_error::reported;
use crate::message::Message;

/// A server that is the context manager, its process id, and a client.
fn pair<D: Device>(device: &D) -> (Actor, u32, Actor) {
    let server = Actor::new(&device.open());
    let pid = device.last_opener().cast_unsigned();
    server.driver.become_context_manager(0x100).expect("no context manager yet");
    (server, pid, Actor::new(&device.open()))
}

pub(crate) fn freeze(by: &Actor, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), Errno> {
    by.run(move |desk| {
        desk.driver.set_frozen(pid, frozen, timeout_ms).map_err(|error| error.errno().expect("an errno"))
    })
}

/// Synchronous and oneway calls since the freeze.
fn came(by: &Actor, pid: u32) -> (u32, u32) {
    let info = by.run(move |desk| desk.driver.frozen_info(pid).expect("a process that is known"));
    assert_eq!(info.pid, pid);
    (info.sync_recv, info.async_recv)
}

pub(crate) fn a_call_to_a_frozen_process_is_refused_until_it_thaws<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    freeze(&client, pid, true, 0).unwrap();
    assert_eq!(came(&client, pid), (0, 0));
    assert_eq!(client.call(0, 1, b"x").wait(), [Return::FrozenReply]);
    assert_eq!(reported(&client), (BR_FROZEN_REPLY, 0));
    assert_eq!(came(&client, pid), (1, 0));
    freeze(&client, pid, false, 0).unwrap();
    assert_eq!(came(&client, pid), (0, 0));
    let call = client.call(0, 1, b"y");
    assert_eq!(server.bytes(&server.serve()), b"y");
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn a_frozen_process_can_call_others<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open());
    server.driver.become_context_manager(0x100).unwrap();
    let client = Actor::new(&device.open());
    let pid = device.last_opener().cast_unsigned();
    freeze(&server, pid, true, 0).unwrap();
    let call = client.call(0, 1, b"x");
    server.serve();
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(came(&server, pid), (0, 0), "a reply is no call");
}

/// The return that a sender reads for a oneway call to a frozen process.
fn kept<D: Device>() -> Return {
    if D::reports_frozen_receivers() { Return::TransactionPendingFrozen } else { Return::TransactionComplete }
}

pub(crate) fn oneway_calls_to_a_frozen_process_are_queued<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    freeze(&client, pid, true, 0).unwrap();
    for byte in 1..=2 {
        let returns = Message::to(0).flags(TF_ONE_WAY).plain(&[byte]).call(&client).wait();
        assert_eq!(returns, [kept::<D>()]);
    }
    assert_eq!(came(&client, pid), (2, 1), "bit 1: unfinished ones");
    freeze(&client, pid, false, 0).unwrap();
    for byte in 1..=2 {
        let received = server.next_call();
        assert_eq!(server.bytes(&received), [byte]);
        server.write(&[roundtrip_binder_driver::Command::FreeBuffer(received.buffer)]).unwrap();
    }
    let returns = Message::to(0).flags(TF_ONE_WAY).plain(b"x").call(&client).wait();
    assert_eq!(returns, [Return::TransactionComplete]);
}

pub(crate) fn an_update_replaces_an_older_one_that_is_queued_for_a_frozen_process<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    let send = |flags: u32, code: u32, byte: u8| {
        let mut message = Message::to(0).flags(TF_ONE_WAY | flags).plain(&[byte]);
        message.code = code;
        message.write(&client);
    };
    let other = Actor::new(&device.open());
    freeze(&client, pid, true, 0).unwrap();
    // The first is already delivered; the others wait for it.
    send(TF_UPDATE_TXN, 1, 1);
    send(TF_UPDATE_TXN, 1, 2);
    send(0, 1, 3);
    send(TF_UPDATE_TXN, 2, 4);
    send(TF_UPDATE_TXN, 1, 5);
    send(0, 1, 6);
    let mut message = Message::to(0).flags(TF_ONE_WAY | TF_UPDATE_TXN).plain(&[7]);
    message.code = 1;
    message.write(&other);
    freeze(&client, pid, false, 0).unwrap();
    // A process that is not frozen keeps all updates.
    send(TF_UPDATE_TXN, 1, 8);
    let mut seen = Vec::new();
    while seen.last() != Some(&8) {
        let received = server.next_call();
        seen.extend(server.bytes(&received));
        server.write(&[roundtrip_binder_driver::Command::FreeBuffer(received.buffer)]).unwrap();
    }
    // 5 replaced 2, and 7 replaced 5, because the driver compares the senders' real processes. A
    // call without the flag stays.
    assert_eq!(seen, [1, 3, 4, 6, 7, 8]);
}

pub(crate) fn a_busy_process_is_not_frozen<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    let other = Actor::new(&device.open());
    let call = client.call(0, 1, b"x");
    assert!(call.is_waiting());
    assert_eq!(freeze(&other, pid, true, 0), Err(Errno::AGAIN), "a call waits to be read");
    server.serve();
    assert_eq!(freeze(&other, pid, true, 0), Err(Errno::AGAIN), "a call is being served");
    assert_eq!(freeze(&other, pid, true, 20), Err(Errno::AGAIN), "after some time too");
    assert_eq!(came(&other, pid), (2, 0));
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    freeze(&other, pid, true, 0).unwrap();
    assert_eq!(other.call(0, 1, b"x").wait(), [Return::FrozenReply]);
}

pub(crate) fn freezing_waits_for_transactions_to_end<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    let other = Actor::new(&device.open());
    let call = client.call(0, 1, b"x");
    server.serve();
    let freezing = other.start(move |desk| desk.driver.set_frozen(pid, true, 10_000).is_ok());
    assert!(freezing.is_waiting());
    // It counts as frozen during that wait.
    let third = Actor::new(&device.open());
    assert_eq!(third.call(0, 1, b"x").wait(), [Return::FrozenReply]);
    server.reply(b"").unwrap();
    assert!(freezing.wait());
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(came(&other, pid), (1, 0));
}

pub(crate) fn a_waiting_caller_is_not_frozen<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open());
    server.driver.become_context_manager(0x100).unwrap();
    let client = Actor::new(&device.open());
    let pid = device.last_opener().cast_unsigned();
    let call = client.call(0, 1, b"x");
    server.serve();
    assert_eq!(freeze(&server, pid, true, 0), Err(Errno::AGAIN), "it waits for a reply");
    server.reply(b"").unwrap();
    call.wait();
    freeze(&server, pid, true, 0).unwrap();
}

pub(crate) fn an_unknown_process_cannot_be_frozen<D: Device>() {
    let device = D::new();
    let (_server, _, client) = pair(&device);
    assert_eq!(freeze(&client, 0x7fff_fff0, true, 0), Err(Errno::INVAL));
    assert_eq!(freeze(&client, 0x7fff_fff0, false, 0), Err(Errno::INVAL));
    let info = client.run(|desk| desk.driver.frozen_info(0x7fff_fff0).map_err(|error| error.errno()));
    assert_eq!(info, Err(Some(Errno::INVAL)));
}

pub(crate) fn a_frozen_process_that_closes_is_unknown<D: Device>() {
    let device = D::new();
    let (server, pid, client) = pair(&device);
    freeze(&client, pid, true, 0).unwrap();
    crate::deaths::end::<D>(server);
    assert_eq!(find_transaction(&client.call(0, 1, b"x").wait()), None);
    assert_eq!(freeze(&client, pid, false, 0), Err(Errno::INVAL));
}
