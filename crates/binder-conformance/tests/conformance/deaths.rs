//! Processes and threads that leave the driver: dead replies and death notifications.

use std::sync::Arc;

use roundtrip_binder_driver::uapi::HandleCookie;
use roundtrip_binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, names};
use crate::calls::pair;
use crate::objects::{call_with_node, handle_in};

/// Ends a process: its only actor, then its driver.
pub(crate) fn end<D: Device>(actor: Actor) {
    let driver = Arc::clone(&actor.driver);
    actor.leave();
    assert_eq!(Arc::strong_count(&driver), 1, "no other thread uses the device");
    drop(driver);
    D::settle();
}

/// A server that holds a handle on a node of `client`.
fn held<D: Device>(device: &D) -> (Actor, Actor, u32) {
    let (server, client) = pair(device);
    let call = call_with_node(&client, 0, 0x41, 0);
    let received = server.serve();
    let held = handle_in(&server, &received);
    server.write(&[Command::Acquire(held), Command::FreeBuffer(received.buffer)]).unwrap();
    server.reply(b"").unwrap();
    let _ = call.wait();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    (server, client, held)
}

fn notify(handle: u32, cookie: u64) -> Command {
    Command::RequestDeathNotification(HandleCookie { handle, cookie })
}

pub(crate) fn a_caller_of_a_dead_server_gets_a_dead_reply<D: Device>() {
    let device = D::new();
    let (server, client, held) = held(&device);
    end::<D>(client);
    assert_eq!(server.call(held, 1, b"x").wait(), [Return::DeadReply]);
}

pub(crate) fn a_caller_of_a_server_that_dies_during_the_call_gets_a_dead_reply<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 1, b"x");
    server.serve();
    assert!(call.is_waiting());
    end::<D>(server);
    assert_eq!(names(&call.wait()), ["TransactionComplete", "DeadReply"]);
}

pub(crate) fn a_death_is_notified_once_to_each_requester<D: Device>() {
    let device = D::new();
    let (server, client, held) = held(&device);
    server.write(&[notify(held, 0xd1), notify(held, 0xd2)]).unwrap();
    let waiting = server.start(|desk| desk.read());
    assert!(waiting.is_waiting());
    end::<D>(client);
    assert_eq!(waiting.wait(), [Return::DeadBinder(0xd1)]);
    server.write(&[Command::DeadBinderDone(0xd1)]).unwrap();
    assert!(server.start(|desk| desk.read()).is_waiting());
    server.driver.interrupt();
}

pub(crate) fn a_death_request_for_a_dead_node_is_notified_immediately<D: Device>() {
    let device = D::new();
    let (server, client, held) = held(&device);
    end::<D>(client);
    assert_eq!(server.write_read(&[notify(held, 0xd3)]), [Return::DeadBinder(0xd3)]);
}

pub(crate) fn a_cleared_request_is_acknowledged<D: Device>() {
    let device = D::new();
    let (server, client, held) = held(&device);
    let cleared = Command::ClearDeathNotification(HandleCookie { handle: held, cookie: 0xd4 });
    let returns = server.write_read(&[notify(held, 0xd4), cleared]);
    assert_eq!(returns, [Return::ClearDeathNotificationDone(0xd4)]);
    end::<D>(client);
    assert!(server.start(|desk| desk.read()).is_waiting(), "no request is left");
    server.driver.interrupt();
}

pub(crate) fn a_reply_to_a_dead_caller_is_complete<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let driver = Arc::clone(&client.driver);
    let call = client.call(0, 1, b"x");
    server.serve();
    // An interruption ends the wait of the caller's process, which then closes.
    driver.interrupt();
    let _ = call.wait();
    drop(driver);
    end::<D>(client);
    server.reply(b"too late").unwrap();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
}

pub(crate) fn a_leaving_thread_fails_its_caller<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 1, b"x");
    server.serve();
    server.leave();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "DeadReply"]);
}

pub(crate) fn the_context_manager_can_be_replaced_after_its_death<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    end::<D>(server);
    assert_eq!(client.call(0, 1, b"x").wait(), [Return::DeadReply]);
    let next = Actor::new(&device.open());
    next.driver.become_context_manager(0x100).unwrap();
    let call = client.call(0, 1, b"y");
    assert_eq!(next.bytes(&next.serve()), b"y");
    drop(call);
}

pub(crate) fn a_read_ends_with_a_death<D: Device>() {
    let device = D::new();
    let (server, client, first) = held(&device);
    let call = call_with_node(&client, 0, 0x42, 0);
    let received = server.next_call();
    let second = handle_in(&server, &received);
    server.write(&[Command::Acquire(second), Command::FreeBuffer(received.buffer)]).unwrap();
    server.reply(b"").unwrap();
    let _ = call.wait();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    server.write(&[notify(first, 1), notify(second, 2)]).unwrap();
    end::<D>(client);
    let mut notified = vec![server.read(), server.read()];
    notified.sort_by_key(|returns| format!("{returns:?}"));
    assert_eq!(notified, [[Return::DeadBinder(1)], [Return::DeadBinder(2)]]);
}
