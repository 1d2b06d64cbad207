//! The details of refusals, which the driver reports with `BINDER_GET_EXTENDED_ERROR`.

use std::time::Duration;

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Errno, Return};

use crate::Device;
use crate::actor::{Actor, names};
use crate::calls::pair;
use crate::deaths::end;
use crate::message::{Message, handle, node};
use crate::objects::handle_in;

/// The extended error of the actor's thread: the return's number and the negative errno.
pub(crate) fn reported(actor: &Actor) -> (u32, i32) {
    let error = error(actor);
    (error.command, error.param)
}

fn error(actor: &Actor) -> ExtendedError {
    actor.run(|desk| desk.driver.extended_error().expect("a driver with extended errors"))
}

fn failed(errno: Errno) -> (u32, i32) {
    (BR_FAILED_REPLY, -errno.raw_os_error())
}

const FINE: (u32, i32) = (BR_OK, 0);

pub(crate) fn an_error_is_reported_once_with_the_number_of_its_transaction<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    assert_eq!(error(&client), ExtendedError { id: 0, command: BR_OK, param: 0 }, "nothing was sent yet");
    let mut numbers = Vec::new();
    for _ in 0..2 {
        assert_eq!(client.call(9, 1, b"x").wait(), [Return::FailedReply]);
        let found = error(&client);
        assert_eq!((found.command, found.param), failed(Errno::INVAL));
        numbers.push(found.id);
        assert_eq!(error(&client), ExtendedError { id: 0, command: BR_OK, param: 0 }, "reported already");
    }
    // An accepted transaction also has a number, and clears the earlier error.
    assert_eq!(client.call(9, 1, b"x").wait(), [Return::FailedReply]);
    let call = client.call(0, 1, b"x");
    server.serve();
    server.reply(b"").unwrap();
    call.wait();
    let found = error(&client);
    assert_eq!((found.command, found.param), FINE);
    numbers.push(found.id);
    assert!(numbers[0] != 0 && numbers.is_sorted_by(|earlier, later| earlier < later), "{numbers:?}");
    let other = Actor::new(&client.driver);
    assert_eq!(error(&other).id, 0, "each thread has its own");
}

pub(crate) fn a_wrong_target_is_reported<D: Device>() {
    let device = D::new();
    let lonely = Actor::new(&device.open());
    assert_eq!(lonely.call(0, 1, b"x").wait(), [Return::DeadReply]);
    assert_eq!(reported(&lonely), (BR_DEAD_REPLY, -Errno::INVAL.raw_os_error()), "no context manager");
    let (server, client) = pair(&device);
    assert_eq!(server.call(0, 1, b"x").wait(), [Return::FailedReply]);
    assert_eq!(reported(&server), failed(Errno::INVAL), "the manager calls itself");
    assert_eq!(client.call(3, 1, b"x").wait(), [Return::FailedReply]);
    assert_eq!(reported(&client), failed(Errno::INVAL), "no such handle");
    // A node whose owner has died.
    let call = Message::to(0).object(&node(1, 1, 0)).call(&client);
    let received = server.serve();
    let held = handle_in(&server, &received);
    client.driver.interrupt();
    let _ = call.wait();
    end::<D>(client);
    assert_eq!(names(&server.call(held, 1, b"x").wait()), ["DeadReply"]);
    assert_eq!(reported(&server), (BR_DEAD_REPLY, -Errno::INVAL.raw_os_error()), "a dead node");
}

pub(crate) fn wrong_sizes_and_addresses_are_reported<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let refused = |what: &str, change: fn(&mut TransactionDataSg), with_object: bool| {
        let returns = client.run(move |desk| {
            let (bytes, offsets) = (node(1, 2, 0), 0_u64.to_ne_bytes());
            let mut data = TransactionDataSg {
                code: 1,
                buffer: bytes.as_ptr() as u64,
                data_size: bytes.len() as u64,
                offsets: offsets.as_ptr() as u64,
                offsets_size: if with_object { 8 } else { 0 },
                ..Default::default()
            };
            change(&mut data);
            desk.write_read(&[roundtrip_binder_driver::Command::TransactionSg(data)], &[&bytes, &offsets])
        });
        assert_eq!(returns, [Return::FailedReply], "{what}");
        reported(&client)
    };
    const NOWHERE: u64 = 0xffff_ffff_ffff_0000;
    let found = [
        refused("data nowhere", |data| data.buffer = NOWHERE, false),
        refused("an object nowhere", |data| data.buffer = NOWHERE, true),
        refused("offsets nowhere", |data| data.offsets = NOWHERE, true),
        refused("half an offset", |data| data.offsets_size = 4, false),
        refused("half a word of buffers", |data| data.buffers_size = 4, false),
        refused("sizes that overflow", |data| data.buffers_size = u64::MAX - 7, false),
        refused("more than the area", |data| data.data_size = 1 << 30, false),
        refused(
            "more than the area, and nowhere",
            |data| (data.data_size, data.buffer) = (1 << 30, NOWHERE),
            false,
        ),
    ];
    let expected = [
        Errno::FAULT,
        Errno::INVAL,
        Errno::FAULT,
        Errno::INVAL,
        Errno::INVAL,
        Errno::INVAL,
        Errno::NOSPC,
        Errno::NOSPC,
    ];
    assert_eq!(found, expected.map(failed));
}

pub(crate) fn wrong_objects_are_reported<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    // A node that is already known to the driver.
    let call = Message::to(0).object(&node(0x10, 0x20, 0)).call(&client);
    let received = server.serve();
    assert_eq!(handle_in(&server, &received), 1);
    let other = Actor::new(&client.driver);
    let refused = |what: &str, message: Message| {
        assert_eq!(message.call(&other).wait(), [Return::FailedReply], "{what}");
        reported(&other)
    };
    let at = |offsets: &[u64]| {
        let mut message = Message::to(0).plain(&[node(1, 0, 0), node(2, 0, 0)].concat());
        message.offsets = offsets.to_vec();
        message
    };
    let nowhere = BufferObject {
        kind: BINDER_TYPE_PTR,
        buffer: 0xffff_ffff_ffff_0000,
        length: 8,
        ..Default::default()
    };
    let mut unread = Message::to(0).object(&nowhere.to_bytes());
    unread.room = 8;
    let mut large = Message::to(0).buffer(vec![0; 16]);
    large.room = 8;
    let found = [
        refused("another cookie", Message::to(0).object(&node(0x10, 0x21, 0))),
        refused("a handle that is not held", Message::to(0).object(&handle(9))),
        refused("no object", Message::to(0).object(&[0x5a; 24])),
        refused("objects that overlap", at(&[0, 12])),
        refused("objects in the wrong order", at(&[24, 0])),
        refused("an object that is cut off", at(&[32])),
        refused("an object behind the data", at(&[48])),
        refused("an object that is not aligned", at(&[2])),
        refused("a buffer nowhere", unread),
        refused("a buffer larger than the room", large),
    ];
    let expected = [
        Errno::INVAL,
        Errno::INVAL,
        Errno::INVAL,
        Errno::FAULT,
        Errno::FAULT,
        Errno::INVAL,
        Errno::INVAL,
        Errno::INVAL,
        Errno::INVAL,
        Errno::INVAL,
    ];
    assert_eq!(found, expected.map(failed));
    drop(call);
}

pub(crate) fn a_full_area_is_reported<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open_with_area(8192));
    server.driver.become_context_manager(0x100).unwrap();
    let clients = [Actor::new(&device.open()), Actor::new(&device.open())];
    let call = clients[0].call(0, 1, &[1; 5000]);
    server.serve();
    assert_eq!(clients[1].call(0, 1, &[1; 5000]).wait(), [Return::FailedReply]);
    assert_eq!(reported(&clients[1]), failed(Errno::NOSPC));
    assert_eq!(
        Message::to(0).flags(TF_ONE_WAY).plain(&[1; 5000]).call(&clients[1]).wait(),
        [Return::FailedReply]
    );
    assert_eq!(reported(&clients[1]), failed(Errno::NOSPC), "oneway calls have half of it");
    drop(call);
}

pub(crate) fn a_refused_reply_is_reported_to_the_caller<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.reply(b"too late").unwrap();
    assert_eq!(server.read(), [Return::FailedReply]);
    assert_eq!(reported(&server), failed(Errno::PROTO));
    let call = client.call(0, 1, b"x");
    server.serve();
    Message::default().object(&handle(9)).reply(&server);
    assert_eq!(names(&call.wait()), ["TransactionComplete", "FailedReply"]);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert_eq!(reported(&client), failed(Errno::INVAL));
    assert_eq!(reported(&server), FINE);
    // The reply to a thread that has left.
    let call = client.call(0, 1, b"x");
    server.next_call();
    client.driver.interrupt();
    call.wait();
    client.leave();
    server.reply(b"too late").unwrap();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert_eq!(reported(&server), FINE);
}

pub(crate) fn a_server_that_leaves_is_not_an_error_of_the_transaction<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 1, b"x");
    server.serve();
    server.leave();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "DeadReply"]);
    assert_eq!(reported(&client), FINE);
}

pub(crate) fn a_call_before_reading_a_transaction_is_a_protocol_error<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = Message::to(0).object(&node(1, 1, 0)).call(&client);
    let received = server.serve();
    let held = handle_in(&server, &received);
    // The caller of the nested call is in its driver's queue, but the server's next call is for
    // another thread of it.
    let other = Actor::new(&server.driver);
    let nested = server.call(held, 2, b"nested");
    call.wait();
    let _ = (&other, nested);
    // The client serves the nested call. A thread that serves no call cannot reply.
    let stranger = Actor::new(&client.driver);
    stranger.reply(b"").unwrap();
    assert_eq!(stranger.read(), [Return::FailedReply]);
    assert_eq!(reported(&stranger), failed(Errno::PROTO));
}

pub(crate) fn a_node_that_requests_security_contexts_gets_them_or_no_call<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open());
    let flags = FLAT_BINDER_FLAG_ACCEPTS_FDS | FLAT_BINDER_FLAG_TXN_SECURITY_CTX;
    server.driver.become_context_manager(flags).expect("no context manager yet");
    let client = Actor::new(&device.open());
    let call = client.call(0, 1, b"x");
    // This does not check whether the thread sleeps: on a slow machine it may wait for a lock
    // before the refusal.
    let Some(returns) = call.ended_within(Duration::from_secs(5)) else {
        // If a security module names processes. The emulated driver uses none.
        assert_eq!(names(&server.write_read(&[Command::EnterLooper])), ["TransactionSecCtx"]);
        return;
    };
    assert_eq!(returns, [Return::FailedReply]);
    if device.later_features().extended_error {
        // Linux 7 returns EINVAL.
        let found = reported(&client);
        assert!([Errno::OPNOTSUPP, Errno::INVAL].map(failed).contains(&found), "{found:?}");
    }
}
