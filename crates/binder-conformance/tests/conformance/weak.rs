//! Weak nodes and handles: their translation, and what is refused for them.

use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_WEAK_BINDER, BINDER_TYPE_WEAK_HANDLE, FlatBinderObject, PtrCookie, TransactionData,
};
use roundtrip_binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, names, reply};
use crate::calls::pair;
use crate::message::{Message, handle};
use crate::objects::hold_node;

const NAMED: PtrCookie = PtrCookie { ptr: 0x51, cookie: 0x52 };

fn weak_node() -> [u8; FlatBinderObject::SIZE] {
    let PtrCookie { ptr: binder, cookie } = NAMED;
    FlatBinderObject { kind: BINDER_TYPE_WEAK_BINDER, flags: 0x100, binder, cookie }.to_bytes()
}

fn weak_handle(held: u32) -> [u8; FlatBinderObject::SIZE] {
    let kind = BINDER_TYPE_WEAK_HANDLE;
    FlatBinderObject { kind, flags: 0, binder: held.into(), cookie: 0 }.to_bytes()
}

/// The handle in a transaction with a weak node.
fn weak_handle_in(actor: &Actor, received: &TransactionData) -> u32 {
    let object = FlatBinderObject::from_bytes(&actor.bytes(received)).expect("an object");
    assert_eq!((object.kind, object.cookie), (BINDER_TYPE_WEAK_HANDLE, 0));
    object.binder as u32
}

pub(crate) fn a_weak_node_arrives_as_a_weak_handle_and_returns_to_its_owner_as_a_weak_node<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = Message::to(0).object(&weak_node()).call(&client);
    let received = server.serve();
    let held = weak_handle_in(&server, &received);
    Message::to(0).object(&weak_handle(held)).reply(&server);
    let returns = client.until_reply(call.wait());
    assert_eq!(returns[0], Return::Increfs(NAMED));
    assert_eq!(names(&returns[1..]), ["TransactionComplete", "Reply"], "no strong reference exists");
    let home = FlatBinderObject::from_bytes(&client.bytes(&reply(&returns))).expect("an object");
    assert_eq!((home.kind, home.binder, home.cookie), (BINDER_TYPE_WEAK_BINDER, NAMED.ptr, NAMED.cookie));
}

pub(crate) fn a_weak_handle_cannot_be_called_or_made_strong<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = Message::to(0).object(&weak_node()).call(&client);
    let received = server.serve();
    let held = weak_handle_in(&server, &received);
    assert_eq!(server.call(held, 1, b"").wait(), [Return::FailedReply]);
    server.write(&[Command::Increfs(held), Command::Acquire(held)]).unwrap();
    assert_eq!(server.call(held, 1, b"").wait(), [Return::FailedReply]);
    server.reply(b"").unwrap();
    let returns = client.until_reply(call.wait());
    assert_eq!(names(&returns), ["Increfs", "TransactionComplete", "Reply"]);
    client.write(&[Command::IncrefsDone(NAMED), Command::EnterLooper]).unwrap();
    server.write(&[Command::FreeBuffer(received.buffer), Command::Decrefs(held)]).unwrap();
    assert_eq!(client.read(), [Return::Decrefs(NAMED)]);
}

pub(crate) fn a_weak_handle_is_passed_on_only_as_a_weak_one<D: Device>() {
    let device = D::new();
    let (server, owner) = pair(&device);
    let third = Actor::new(&device.open());
    let (to_third, _) = hold_node(&server, &third, 0x61, 0x62);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    let call = Message::to(0).object(&weak_node()).call(&owner);
    let held = weak_handle_in(&server, &server.next_call());
    // The manager sends it to the third process, whose thread is a looper.
    third.write(&[Command::EnterLooper]).unwrap();
    assert_eq!(Message::to(to_third).object(&handle(held)).call(&server).wait(), [Return::FailedReply]);
    let passed = Message::to(to_third).object(&weak_handle(held)).call(&server);
    let received = third.next_call();
    let got = weak_handle_in(&third, &received);
    assert_eq!(third.call(got, 1, b"").wait(), [Return::FailedReply]);
    third.reply(b"").unwrap();
    assert_eq!(names(&passed.wait()), ["TransactionComplete", "Reply"]);
    server.reply(b"").unwrap();
    owner.until_reply(call.wait());
    third.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    let again = Message::to(0).object(&weak_handle(got)).call(&third);
    let returns = names(&again.wait());
    assert_eq!(returns, ["TransactionComplete", "FailedReply"], "the handle has ended with the buffer");
}

pub(crate) fn a_released_strong_reference_cannot_be_regained_through_a_weak_one<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (held, seen) = hold_node(&server, &client, NAMED.ptr, NAMED.cookie);
    assert_eq!(names(&seen), ["Increfs", "Acquire", "TransactionComplete", "Reply"]);
    client.write(&[Command::IncrefsDone(NAMED), Command::AcquireDone(NAMED)]).unwrap();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    server.write(&[Command::Increfs(held), Command::Release(held)]).unwrap();
    // The owner was not notified yet that no strong reference is left.
    server.write(&[Command::Acquire(held)]).unwrap();
    assert_eq!(server.call(held, 1, b"").wait(), [Return::FailedReply]);
}
