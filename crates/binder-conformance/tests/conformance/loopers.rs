//! Looper threads: how they are requested, chosen and interrupted.

use std::sync::Arc;

use roundtrip_binder_driver::{Command, Return};
use roundtrip_skips::{Need, skip};

use crate::Device;
use crate::actor::{Actor, names, transaction};
use crate::calls::pair;

pub(crate) fn a_looper_is_requested_when_none_is_free_up_to_the_limit<D: Device>() {
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
    // The limit is reached: no further looper is requested, although none is free.
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
    // Each looper replies with the data that it received; each caller gets its own reply.
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

pub(crate) fn registering_an_unrequested_looper_does_not_count<D: Device>() {
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

pub(crate) fn the_looper_that_waited_last_is_chosen_first<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let loopers = [Actor::new(&server.driver), Actor::new(&server.driver), Actor::new(&server.driver)];
    let waiting = loopers.each_ref().map(|looper| {
        let waiting = looper.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
        assert!(waiting.is_waiting());
        waiting
    });
    let others = [Actor::new(&device.open()), Actor::new(&device.open())];
    let mut calls = Vec::new();
    for (caller, code) in [&client, &others[0], &others[1]].into_iter().zip(1..) {
        calls.push(caller.call(0, code, b""));
        assert!(calls.last().expect("the one pushed").is_waiting());
    }
    let served = waiting.map(|waiting| transaction(&waiting.wait()).code);
    assert_eq!(served, [3, 2, 1], "the callers, by the order in which their loopers came");
    loopers.iter().for_each(|looper| looper.reply(b"").unwrap());
    calls.into_iter().for_each(|call| assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]));
}

/// The driver's looper state of the calling thread, after these commands.
fn noted<D: Device>(commands: &[Command]) -> String {
    let device = D::new();
    let actor = Actor::new(&device.open());
    actor.write(commands).unwrap();
    part(&device, &actor)
}

/// The looper state of any thread.
fn part<D: Device>(device: &D, actor: &Actor) -> String {
    let (state, start) = (device.state(), format!("thread {}: l ", actor.tid));
    let line = state.lines().find_map(|line| line.trim_start().strip_prefix(&start));
    line.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{start} in\n{state}")).to_owned()
}

pub(crate) fn the_looper_state_of_a_thread_is_recorded<D: Device>() {
    if !D::shows_state() {
        return skip(Need::Machine, "this kernel words its state otherwise than 6.1");
    }
    const ENTER: Command = Command::EnterLooper;
    const EXIT: Command = Command::ExitLooper;
    const REGISTER: Command = Command::RegisterLooper;
    // Registered 1, entered 2, exited 4, invalid 8.
    for (commands, expected) in [
        (&[][..], "00"),
        (&[ENTER], "02"),
        (&[ENTER, EXIT], "06"),
        (&[EXIT], "04"),
        (&[REGISTER], "09"),
        (&[ENTER, REGISTER], "0b"),
        (&[REGISTER, ENTER], "0b"),
    ] {
        assert_eq!(noted::<D>(commands), expected, "after {commands:?}");
    }
}

pub(crate) fn a_poll_is_recorded_with_the_looper_state<D: Device>() {
    if !D::shows_state() {
        return skip(Need::Machine, "this kernel words its state otherwise than 6.1");
    }
    let device = D::new();
    let actor = Actor::new(&device.open());
    actor.write(&[Command::EnterLooper]).unwrap();
    for _ in 0..2 {
        let found = actor.run(|desk| desk.driver.poll(Some(std::time::Duration::ZERO)).ok());
        assert_eq!(found, Some(false));
        assert_eq!(part(&device, &actor), "22");
    }
}
