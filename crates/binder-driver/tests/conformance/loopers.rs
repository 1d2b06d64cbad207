//! Looper threads: how they are asked for, chosen and sent home.

use std::sync::Arc;

use binder_driver::{Command, Return};

use crate::Device;
use crate::actor::{Actor, names, transaction};
use crate::calls::pair;

pub(crate) fn a_looper_is_asked_for_when_none_is_left_up_to_the_limit<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.driver.set_max_threads(1).unwrap();
    let call = client.call(0, 1, b"");
    let returns = server.write_read(&[Command::EnterLooper]);
    assert_eq!(names(&returns), ["SpawnLooper", "Transaction"]);
    let spawned = Actor::new(&server.driver);
    let waiting = spawned.start(|desk| desk.write_read(&[Command::RegisterLooper], &[]));
    assert!(waiting.is_waiting());
    let other = Actor::new(&device.open());
    let second = other.call(0, 2, b"");
    // The limit is reached: no further one is asked for, though none is left.
    assert_eq!(names(&waiting.wait()), ["Transaction"]);
    server.reply(b"").unwrap();
    spawned.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(names(&second.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn two_loopers_serve_two_callers_at_once<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let second = Actor::new(&server.driver);
    let other = Actor::new(&device.open());
    let calls = [client.call(0, 1, b"a"), other.call(0, 2, b"b")];
    let first = server.serve();
    let next = second.serve();
    assert_eq!([first.code.min(next.code), first.code.max(next.code)], [1, 2]);
    // Each replies with what it received; the replies go to their own callers.
    for (actor, received) in [(&second, &next), (&server, &first)] {
        actor.reply(&actor.bytes(received)).unwrap();
    }
    for (call, (actor, expected)) in calls.into_iter().zip([(&client, b"a"), (&other, b"b")]) {
        assert_eq!(actor.bytes(&crate::actor::reply(&call.wait())), expected);
    }
}

pub(crate) fn an_interrupted_wait_returns_with_nothing<D: Device>() {
    let device = D::new();
    let driver = device.open();
    let actor = Actor::new(&driver);
    let waiting = actor.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert!(waiting.is_waiting());
    driver.interrupt();
    assert_eq!(waiting.wait(), []);
    assert!(actor.start(|desk| desk.read()).is_waiting(), "an interruption counts once");
    driver.interrupt();
}

pub(crate) fn registering_unasked_does_not_count<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.driver.set_max_threads(1).unwrap();
    let uninvited = Actor::new(&Arc::clone(&server.driver));
    uninvited.write(&[Command::RegisterLooper]).unwrap();
    let call = client.call(0, 1, b"");
    let returns: Vec<Return> = server.write_read(&[Command::EnterLooper]);
    assert_eq!(names(&returns), ["SpawnLooper", "Transaction"], "the one thread is still to be asked for");
    let _ = transaction(&returns);
    drop(call);
}
