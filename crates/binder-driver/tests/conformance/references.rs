//! What owners are told of references, and how counts end.

use binder_driver::uapi::PtrCookie;
use binder_driver::{Command, Return};

use crate::Device;
use crate::actor::names;
use crate::calls::pair;
use crate::objects::{call_with_node, handle_in};

pub(crate) fn an_owner_is_told_of_the_first_and_the_last_reference<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = call_with_node(&client, 0, 0x31, 0x32);
    let received = server.serve();
    let held = handle_in(&server, &received);
    server.write(&[Command::Acquire(held), Command::FreeBuffer(received.buffer)]).unwrap();
    server.reply(b"").unwrap();
    let named = PtrCookie { ptr: 0x31, cookie: 0x32 };
    let mut seen = call.wait();
    while !seen.iter().any(|item| matches!(item, Return::Reply(_))) {
        seen.extend(client.read());
    }
    assert_eq!(seen[..2], [Return::Increfs(named), Return::Acquire(named)]);
    assert_eq!(names(&seen[2..]), ["TransactionComplete", "Reply"]);
    client.write(&[Command::IncrefsDone(named), Command::AcquireDone(named), Command::EnterLooper]).unwrap();
    // Nobody else holds it after this: the owner is told in the same order as the kernel tells.
    server.write(&[Command::Release(held)]).unwrap();
    assert_eq!(client.read(), [Return::Release(named), Return::Decrefs(named)]);
}

pub(crate) fn counts_on_a_handle_end_with_the_handle<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    client.write(&[Command::Increfs(0), Command::Acquire(0), Command::Acquire(0)]).unwrap();
    client.write(&[Command::Release(0), Command::Release(0), Command::Decrefs(0)]).unwrap();
    // Surplus ones do no harm, and handle 0 still leads to the context manager.
    client.write(&[Command::Release(0), Command::Decrefs(0)]).unwrap();
    let call = client.call(0, 1, b"still here");
    assert_eq!(server.bytes(&server.serve()), b"still here");
    drop(call);
}

pub(crate) fn wrong_handles_and_acknowledgements_are_ignored<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let nobody = PtrCookie { ptr: 1, cookie: 2 };
    let wrong = [
        Command::Acquire(77),
        Command::Release(u32::MAX),
        Command::Increfs(1 << 20),
        Command::IncrefsDone(nobody),
        Command::AcquireDone(nobody),
        Command::DeadBinderDone(5),
    ];
    client.write(&wrong).unwrap();
    let call = client.call(0, 1, b"unharmed");
    assert_eq!(server.bytes(&server.serve()), b"unharmed");
    drop(call);
}
