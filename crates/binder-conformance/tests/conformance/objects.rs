//! Nodes, handles and scatter-gather buffers inside transactions.

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, Pending, data, names, transaction};
use crate::calls::pair;

fn node(ptr: u64, cookie: u64) -> FlatBinderObject {
    FlatBinderObject { kind: BINDER_TYPE_BINDER, flags: 0x100, binder: ptr, cookie }
}

fn handle(handle: u32) -> FlatBinderObject {
    FlatBinderObject { kind: BINDER_TYPE_HANDLE, flags: 0, binder: handle.into(), cookie: 0 }
}

/// A call whose data is `bytes`, with objects at `offsets`, that refers to the scatter-gather
/// buffers `buffers`. Their announced size is `room`.
fn call_with(
    actor: &Actor,
    target: u32,
    bytes: Vec<u8>,
    offsets: &[u64],
    room: u64,
    buffers: Vec<Vec<u8>>,
) -> Pending<Vec<Return>> {
    let offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
    actor.start(move |desk| {
        let mut plain = data(target, 1, 0, &bytes);
        (plain.offsets, plain.offsets_size) = (offsets.as_ptr() as u64, offsets.len() as u64);
        let command = Command::TransactionSg(plain.gathered(room));
        let mut memory: Vec<&[u8]> = vec![&bytes, &offsets];
        memory.extend(buffers.iter().map(Vec::as_slice));
        desk.write_read(&[command], &memory)
    })
}

fn call_with_object(actor: &Actor, target: u32, object: FlatBinderObject) -> Pending<Vec<Return>> {
    call_with(actor, target, object.to_bytes().to_vec(), &[0], 0, Vec::new())
}

/// A call with a node of the caller.
pub(crate) fn call_with_node(actor: &Actor, target: u32, ptr: u64, cookie: u64) -> Pending<Vec<Return>> {
    call_with_object(actor, target, node(ptr, cookie))
}

/// Replies with an object as data, in the command without scatter-gather buffers.
fn reply_with_object(actor: &Actor, object: FlatBinderObject) {
    actor.run(move |desk| {
        let (bytes, offsets) = (object.to_bytes(), 0_u64.to_ne_bytes());
        let mut description = data(0, 0, 0, &bytes);
        (description.offsets, description.offsets_size) = (offsets.as_ptr() as u64, 8);
        let mut commands = roundtrip_binder_driver::Commands::default();
        commands.push(Command::Reply(description));
        desk.send(&mut commands, &[&bytes, &offsets]).unwrap();
    });
}

fn object_in(actor: &Actor, received: &TransactionData) -> FlatBinderObject {
    FlatBinderObject::from_bytes(&actor.bytes(received)).expect("an object")
}

/// Makes the context manager hold a strong reference to a node of the client. Returns its handle,
/// and the client's returns up to the reply.
pub(crate) fn hold_node(server: &Actor, client: &Actor, ptr: u64, cookie: u64) -> (u32, Vec<Return>) {
    let call = call_with_node(client, 0, ptr, cookie);
    server.write(&[Command::EnterLooper]).unwrap();
    let received = server.next_call();
    let held = handle_in(server, &received);
    server.write(&[Command::Acquire(held), Command::FreeBuffer(received.buffer)]).unwrap();
    server.reply(b"").unwrap();
    (held, client.until_reply(call.wait()))
}

/// The handle in a transaction.
pub(crate) fn handle_in(actor: &Actor, received: &TransactionData) -> u32 {
    let object = object_in(actor, received);
    assert_eq!(object.kind, BINDER_TYPE_HANDLE);
    object.binder as u32
}

pub(crate) fn a_node_arrives_as_a_handle_and_returns_to_its_owner_as_a_node<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = call_with_node(&client, 0, 0x10, 0x20);
    let received = server.serve();
    let held = handle_in(&server, &received);
    assert_eq!(held, 1);
    // The reply sends the handle back to the node's owner.
    reply_with_object(&server, handle(held));
    let returns = client.until_reply(call.wait());
    // The owner is notified of its node's first references before anything else.
    assert_eq!(names(&returns)[..2], ["Increfs", "Acquire"]);
    let home = object_in(&client, &crate::actor::reply(&returns));
    assert_eq!((home.kind, home.binder, home.cookie), (BINDER_TYPE_BINDER, 0x10, 0x20));
}

pub(crate) fn the_lowest_free_handle_is_used<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let hold = |ptr| hold_node(&server, &client, ptr, 0).0;
    assert_eq!([hold(1), hold(2), hold(3)], [1, 2, 3]);
    server.write(&[Command::Release(2)]).unwrap();
    assert_eq!([hold(4), hold(5)], [2, 4]);
}

pub(crate) fn a_handle_that_is_passed_on_refers_to_the_same_node<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let third = Actor::new(&device.open());
    server.write(&[Command::EnterLooper]).unwrap();
    // The client sends the server a node; the server passes it to a third process in its reply.
    let given = call_with_node(&client, 0, 0x77, 0x88);
    let received = server.next_call();
    let held = handle_in(&server, &received);
    server.write(&[Command::Acquire(held)]).unwrap();
    server.reply(b"").unwrap();
    let _ = given.wait();
    let asked = third.call(0, 2, b"");
    server.next_call();
    reply_with_object(&server, handle(held));
    let reply = crate::actor::reply(&asked.wait());
    let theirs = handle_in(&third, &reply);
    let call = third.call(theirs, 3, b"direct");
    client.write(&[Command::EnterLooper]).unwrap();
    let served = client.next_call();
    assert_eq!((served.target, served.cookie, client.bytes(&served)), (0x77, 0x88, b"direct".to_vec()));
    client.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn a_changed_cookie_is_refused<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = call_with_node(&client, 0, 0x10, 0x20);
    server.serve();
    let other = Actor::new(&client.driver);
    let returns = call_with_node(&other, 0, 0x10, 0x21).wait();
    assert_eq!(returns, [Return::FailedReply]);
    drop(server);
    drop(call);
}

pub(crate) fn overlapping_offsets_and_offsets_outside_the_data_are_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let two: Vec<u8> = [node(1, 0).to_bytes(), node(2, 0).to_bytes()].concat();
    for offsets in [vec![0, 12], vec![24, 0], vec![40], vec![2], vec![u64::MAX - 3]] {
        let returns = call_with(&client, 0, two.clone(), &offsets, 0, Vec::new()).wait();
        assert_eq!(returns, [Return::FailedReply], "offsets {offsets:?}");
    }
}

fn ptr_object(bytes: &[u8], parent: Option<(u64, u64)>) -> BufferObject {
    BufferObject {
        kind: BINDER_TYPE_PTR,
        flags: if parent.is_some() { BINDER_BUFFER_FLAG_HAS_PARENT } else { 0 },
        buffer: bytes.as_ptr() as u64,
        length: bytes.len() as u64,
        parent: parent.map_or(0, |(index, _)| index),
        parent_offset: parent.map_or(0, |(_, offset)| offset),
    }
}

/// A parent with room for a pointer at offset 0, and a child. The parent is at `at` in the data.
fn tree(at: usize, parent_offset: u64) -> (Vec<u8>, Vec<u64>, Vec<Vec<u8>>) {
    let (parent, child) = (vec![0xaa; 16], b"payload of the child".to_vec());
    let mut bytes = vec![0; at];
    bytes.extend(ptr_object(&parent, None).to_bytes());
    bytes.extend(ptr_object(&child, Some((0, parent_offset))).to_bytes());
    (bytes, vec![at as u64, (at + BufferObject::SIZE) as u64], vec![parent, child])
}

pub(crate) fn a_scatter_gather_tree_arrives_with_fixed_up_pointers<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (bytes, offsets, buffers) = tree(8, 0);
    let call = call_with(&client, 0, bytes, &offsets, 40, buffers);
    let received = server.serve();
    let bytes = server.bytes(&received);
    let parent = BufferObject::from_bytes(&bytes[8..]).unwrap();
    let child = BufferObject::from_bytes(&bytes[48..]).unwrap();
    let parent_bytes = server.driver.received(parent.buffer, parent.length).unwrap();
    assert_eq!(u64::from_ne_bytes(parent_bytes[..8].try_into().unwrap()), child.buffer);
    assert_eq!(parent_bytes[8..], [0xaa; 8]);
    assert_eq!(server.driver.received(child.buffer, child.length).unwrap(), b"payload of the child");
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn a_tree_with_its_root_at_offset_0_is_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let (bytes, offsets, buffers) = tree(0, 0);
    assert_eq!(call_with(&client, 0, bytes, &offsets, 40, buffers).wait(), [Return::FailedReply]);
}

pub(crate) fn a_child_outside_its_parent_is_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    for parent_offset in [9, 16, u64::MAX - 7] {
        let (bytes, offsets, buffers) = tree(8, parent_offset);
        let returns = call_with(&client, 0, bytes, &offsets, 40, buffers).wait();
        assert_eq!(returns, [Return::FailedReply], "parent offset {parent_offset}");
    }
}

pub(crate) fn buffers_larger_than_their_announced_size_are_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    for announced in [0, 16, 32, 39] {
        let (bytes, offsets, buffers) = tree(8, 0);
        let returns = call_with(&client, 0, bytes, &offsets, announced, buffers).wait();
        assert_eq!(returns, [Return::FailedReply], "{announced} bytes announced");
    }
}

pub(crate) fn a_refused_transaction_leaks_no_reference_and_no_buffer<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    // A valid node, then an object that is refused: the node's reference must be released.
    let bytes: Vec<u8> = [node(0x51, 1).to_bytes(), handle(99).to_bytes()].concat();
    for _ in 0..2000 {
        let returns = call_with(&client, 0, bytes.clone(), &[0, 24], 0, Vec::new()).wait();
        assert_eq!(returns, [Return::FailedReply]);
    }
    // With leaked buffers the area would be full; with a leaked handle this would not be handle 1.
    let call = call_with_node(&client, 0, 0x52, 0);
    let received = server.serve();
    assert_eq!(handle_in(&server, &received), 1);
    let _ = transaction(&[Return::Transaction(received)]);
    drop(call);
}
