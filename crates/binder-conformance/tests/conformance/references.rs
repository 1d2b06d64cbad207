//! References: what is reported to owners, and when counts are released.

use roundtrip_binder_driver::uapi::PtrCookie;
use roundtrip_binder_driver::{Command, Errno, NodeInfo, Return};

use crate::Device;
use crate::actor::{Actor, names};
use crate::calls::pair;
use crate::message::{Message, handle};
use crate::objects::{call_with_node, handle_in, hold_node};

pub(crate) fn an_owner_is_notified_of_the_first_and_the_last_reference<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (held, seen) = hold_node(&server, &client, 0x31, 0x32);
    let named = PtrCookie { ptr: 0x31, cookie: 0x32 };
    assert_eq!(seen[..2], [Return::Increfs(named), Return::Acquire(named)]);
    assert_eq!(names(&seen[2..]), ["TransactionComplete", "Reply"]);
    client.write(&[Command::IncrefsDone(named), Command::AcquireDone(named), Command::EnterLooper]).unwrap();
    // After this, only the owner has references. The order of the notifications is the kernel's.
    server.write(&[Command::Release(held)]).unwrap();
    assert_eq!(client.read(), [Return::Release(named), Return::Decrefs(named)]);
}

pub(crate) fn an_owner_is_notified_of_the_last_reference_after_it_acknowledged_the_first<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (held, seen) = hold_node(&server, &client, 0x31, 0x32);
    assert_eq!(names(&seen), ["Increfs", "Acquire", "TransactionComplete", "Reply"]);
    // From now on, only the owner has references.
    server.write(&[Command::Release(held)]).unwrap();
    let waiting = client.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert!(waiting.is_waiting());
    client.driver.interrupt();
    assert_eq!(waiting.wait(), []);
    let named = PtrCookie { ptr: 0x31, cookie: 0x32 };
    client.write(&[Command::IncrefsDone(named)]).unwrap();
    client.write(&[Command::AcquireDone(named)]).unwrap();
    assert_eq!(client.read(), [Return::Release(named), Return::Decrefs(named)]);
}

pub(crate) fn counts_on_a_handle_end_with_the_handle<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    client.write(&[Command::Increfs(0), Command::Acquire(0), Command::Acquire(0)]).unwrap();
    client.write(&[Command::Release(0), Command::Release(0), Command::Decrefs(0)]).unwrap();
    // Surplus releases have no effect, and handle 0 still refers to the context manager.
    client.write(&[Command::Release(0), Command::Decrefs(0)]).unwrap();
    let call = client.call(0, 1, b"still here");
    assert_eq!(server.bytes(&server.serve()), b"still here");
    drop(call);
}

pub(crate) fn wrong_handles_and_acknowledgements_are_ignored<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let unknown = PtrCookie { ptr: 1, cookie: 2 };
    let wrong = [
        Command::Acquire(77),
        Command::Release(u32::MAX),
        Command::Increfs(1 << 20),
        Command::IncrefsDone(unknown),
        Command::AcquireDone(unknown),
        Command::DeadBinderDone(5),
    ];
    client.write(&wrong).unwrap();
    let call = client.call(0, 1, b"unharmed");
    assert_eq!(server.bytes(&server.serve()), b"unharmed");
    drop(call);
}

pub(crate) fn the_manager_reads_a_nodes_counts_over_all_processes<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = call_with_node(&client, 0, 0x61, 0x62);
    let received = server.serve();
    let held = handle_in(&server, &received);
    let counts = |handle| server.run(move |desk| desk.driver.node_counts(handle).map_err(|e| e.errno()));
    // One strong count for the handle in the buffer; the owner was not notified yet.
    assert_eq!(counts(held), Ok((1, 0)));
    server.write(&[Command::Acquire(held), Command::Acquire(held), Command::Increfs(held)]).unwrap();
    assert_eq!(counts(held), Ok((1, 0)), "a process counts once");
    server.reply(b"").unwrap();
    client.until_reply(call.wait());
    assert_eq!(counts(held), Ok((2, 1)), "what the owner has not acknowledged counts too");
    let named = PtrCookie { ptr: 0x61, cookie: 0x62 };
    client.write(&[Command::IncrefsDone(named), Command::AcquireDone(named)]).unwrap();
    assert_eq!(counts(held), Ok((1, 0)));
    assert_eq!(counts(77), Err(Some(Errno::INVAL)));
    server
        .write(&[Command::FreeBuffer(received.buffer), Command::Release(held), Command::Release(held)])
        .unwrap();
    assert_eq!(counts(held), Err(Some(Errno::INVAL)), "only a weak reference is left");
    let denied = client.run(|desk| desk.driver.node_counts(0).map_err(|e| e.errno()));
    assert_eq!(denied, Err(Some(Errno::PERM)));
}

pub(crate) fn an_owner_can_list_its_nodes<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = call_with_node(&client, 0, 0x71, 0x72);
    let received = server.serve();
    server.write(&[Command::Acquire(handle_in(&server, &received))]).unwrap();
    server.reply(b"").unwrap();
    let _ = call.wait();
    let after = |ptr| client.run(move |desk| desk.driver.node_after(ptr).expect("an answer"));
    let info = NodeInfo { ptr: 0x71, cookie: 0x72, has_strong: true, has_weak: true };
    assert_eq!((after(0), after(0x70), after(0x71)), (Some(info), Some(info), None));
    assert_eq!(server.run(|desk| desk.driver.node_after(0).expect("an answer")), None);
}

pub(crate) fn the_manager_does_not_count_on_its_own_handle_0<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    for up in [Command::Acquire(0), Command::Increfs(0)] {
        assert_eq!(server.write(&[up]), Err(Errno::INVAL));
        assert_eq!(client.write(&[up]), Ok(()));
    }
    for down in [Command::Release(0), Command::Decrefs(0)] {
        assert_eq!(server.write(&[down]), Ok(()), "there is nothing to count down");
    }
}

pub(crate) fn references_of_a_buffer_are_released_with_it<D: Device>() {
    let device = D::new();
    let (server, owner) = pair(&device);
    let third = Actor::new(&device.open());
    let (to_third, _) = hold_node(&server, &third, 0x81, 0x82);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    third.write(&[Command::EnterLooper]).unwrap();
    let call = call_with_node(&owner, 0, 0x91, 0x92);
    let received = server.next_call();
    let held = handle_in(&server, &received);
    // A handle that is passed on, whose buffer is freed first.
    let passed = Message::to(to_third).object(&handle(held)).call(&server);
    let at_third = third.next_call();
    let got = handle_in(&third, &at_third);
    third.write(&[Command::FreeBuffer(at_third.buffer)]).unwrap();
    assert_eq!(third.call(got, 1, b"").wait(), [Return::FailedReply]);
    third.reply(b"").unwrap();
    assert_eq!(names(&passed.wait()), ["TransactionComplete", "Reply"]);
    server.reply(b"").unwrap();
    let named = PtrCookie { ptr: 0x91, cookie: 0x92 };
    let seen = owner.until_reply(call.wait());
    assert_eq!(seen[..2], [Return::Increfs(named), Return::Acquire(named)]);
    owner.write(&[Command::IncrefsDone(named), Command::AcquireDone(named), Command::EnterLooper]).unwrap();
    let waiting = owner.start(|desk| desk.read());
    assert!(waiting.is_waiting(), "the first buffer holds it still");
    server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    let mut notices = waiting.wait();
    if notices.len() == 1 {
        // The driver drops one count after the other, and a reader may come between them.
        notices.extend(owner.read());
    }
    assert_eq!(notices, [Return::Release(named), Return::Decrefs(named)]);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert_eq!(server.call(held, 1, b"").wait(), [Return::FailedReply]);
}
