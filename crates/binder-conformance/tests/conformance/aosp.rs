//! The checks of Android's own driver tests (binderDriverInterfaceTest and binderLibTest) that no
//! other case here covers, over the raw protocol. docs/conformance.md lists all of them with their
//! cases.

use std::os::fd::AsRawFd as _;

use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_FD, BINDER_TYPE_HANDLE, FdObject, FlatBinderObject, HandleCookie, TF_ONE_WAY, TransactionData,
};
use roundtrip_binder_driver::{Command, Return};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::Device;
use crate::actor::{Actor, names, reply, transaction};
use crate::calls::pair;
use crate::deaths::end;
use crate::message::{Message, handle, node};
use crate::objects::{handle_in, hold_node};

/// Checks that a read would return nothing.
fn nothing_to_read(actor: &Actor) {
    let waiting = actor.start(|desk| desk.read());
    assert!(waiting.is_waiting());
    actor.driver.interrupt();
    assert_eq!(waiting.wait(), []);
}

/// `Transaction`.
pub(crate) fn an_empty_reply_has_no_target_code_or_flags<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, u32::from_be_bytes(*b"_PNG"), b"");
    server.serve();
    server.reply(b"").unwrap();
    let returns = call.wait();
    let TransactionData { target, cookie, code, flags, data_size, offsets_size, buffer, .. } =
        reply(&returns);
    assert_eq!((target, cookie, code, flags, data_size, offsets_size), (0, 0, 0, 0, 0, 0));
    nothing_to_read(&client);
    client.write(&[Command::FreeBuffer(buffer)]).unwrap();
    nothing_to_read(&client);
}

/// `WriteReadEmpty`, `IncRefsAcquireReleaseDecRefs`.
pub(crate) fn counts_on_handle_0_change_without_a_notification<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    client.write(&[]).unwrap();
    let counted = [Command::Increfs(0), Command::Acquire(0), Command::Release(0), Command::Decrefs(0)];
    client.write(&counted).unwrap();
    nothing_to_read(&client);
    nothing_to_read(&server);
}

/// `RequestDeathNotification`.
pub(crate) fn a_request_on_handle_0_that_is_cleared_at_once_is_acknowledged_once<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let asked = HandleCookie { handle: 0, cookie: 1234 };
    let returns = client.write_read(&[
        Command::Increfs(0),
        Command::RequestDeathNotification(asked),
        Command::ClearDeathNotification(asked),
        Command::Decrefs(0),
    ]);
    assert_eq!(returns, [Return::ClearDeathNotificationDone(1234)]);
    nothing_to_read(&client);
}

/// `ThreadExit`.
pub(crate) fn a_thread_that_has_left_may_enter_again<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.write(&[Command::EnterLooper]).unwrap();
    server.run(|desk| desk.driver.exit_thread());
    // The driver has forgotten the thread, so its first read does not wait.
    assert_eq!(server.write_read(&[Command::EnterLooper]), []);
    let call = client.call(0, 1, b"again");
    assert_eq!(server.bytes(&server.next_call()), b"again");
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

/// `CheckHandleZeroBinderHighBitsZeroCookie`.
pub(crate) fn a_handle_contains_nothing_of_the_nodes_address_and_cookie<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 1, b"");
    server.serve();
    Message::to(0).object(&node(u64::MAX - 7, u64::MAX, 0)).reply(&server);
    let object = FlatBinderObject::from_bytes(&client.bytes(&reply(&call.wait()))).expect("an object");
    assert_eq!((object.kind, object.binder, object.cookie), (BINDER_TYPE_HANDLE, 1, 0));
}

/// `DeathNotificationMultiple`.
pub(crate) fn a_death_is_notified_only_to_processes_that_requested_it<D: Device>() {
    let device = D::new();
    let (server, target) = pair(&device);
    let (held, _) = hold_node(&server, &target, 0x41, 0);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    let holders: Vec<Actor> = (0..3).map(|_| Actor::new(&device.open())).collect();
    for (holder, cookie) in holders.iter().zip([Some(1), None, Some(3)]) {
        let call = holder.call(0, 1, b"");
        server.next_call();
        Message::to(0).object(&handle(held)).reply(&server);
        let got = handle_in(holder, &reply(&call.wait()));
        holder.write(&[Command::Acquire(got)]).unwrap();
        if let Some(cookie) = cookie {
            holder.write(&[Command::RequestDeathNotification(HandleCookie { handle: got, cookie })]).unwrap();
        }
    }
    end::<D>(target);
    assert_eq!(holders[0].read(), [Return::DeadBinder(1)]);
    nothing_to_read(&holders[1]);
    assert_eq!(holders[2].read(), [Return::DeadBinder(3)]);
}

/// `DeathNotificationThread`.
pub(crate) fn a_death_before_the_request_is_notified_to_another_looper_while_the_requester_is_busy<
    D: Device,
>() {
    let device = D::new();
    let (server, target) = pair(&device);
    let (held, _) = hold_node(&server, &target, 0x41, 0);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    let client = Actor::new(&device.open());
    let (to_client, _) = hold_node(&server, &client, 0x51, 0);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    end::<D>(target);
    let other = Actor::new(&client.driver);
    client.write(&[Command::EnterLooper]).unwrap();
    Message::to(to_client).flags(TF_ONE_WAY).object(&handle(held)).write(&server);
    let got = handle_in(&client, &client.next_call());
    let waiting = other.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert!(waiting.is_waiting());
    // The thread requests the notification and does not read.
    client.write(&[Command::RequestDeathNotification(HandleCookie { handle: got, cookie: 7 })]).unwrap();
    assert_eq!(waiting.wait(), [Return::DeadBinder(7)]);
}

/// `CheckNoHeaderMappedInUser`: the driver stores no data of its own between buffers.
pub(crate) fn the_buffers_of_nested_calls_are_adjacent_from_the_start_of_a_page<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = Message::to(0).object(&node(0x61, 0, 0)).call(&client);
    let received = server.serve();
    let to_client = handle_in(&server, &received);
    let first = server.call(to_client, 1, b"12345");
    let outer = transaction(&call.wait());
    assert_eq!(outer.buffer % rustix::param::page_size() as u64, 0);
    let nested = client.call(0, 2, b"");
    let inner = transaction(&first.wait());
    assert_eq!(inner.code, 2);
    let second = server.call(to_client, 3, b"6");
    let next = transaction(&nested.wait());
    assert_eq!(next.buffer, outer.buffer + 8);
    drop(second);
}

/// `FileDescriptorRemainsNonBlocking`.
pub(crate) fn a_nonblocking_descriptor_stays_nonblocking<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (read, _write) = std::io::pipe().expect("a pipe");
    for flags in [OFlags::NONBLOCK, OFlags::empty()] {
        fcntl_setfl(&read, flags).expect("a pipe's flags");
        let fd = read.as_raw_fd().cast_unsigned();
        let object = FdObject { kind: BINDER_TYPE_FD, flags: 0, fd, pad: 0, cookie: 0 };
        Message::to(0).flags(TF_ONE_WAY).object(&object.to_bytes()).write(&client);
        server.write(&[Command::EnterLooper]).unwrap();
        let received = server.next_call();
        let arrived = FdObject::from_bytes(&server.bytes(&received)).expect("an object");
        let taken = server.driver.take_fd(arrived.fd).expect("the driver has opened it");
        assert_eq!(fcntl_getfl(&taken).expect("an open one") & OFlags::NONBLOCK, flags);
        server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    }
}
