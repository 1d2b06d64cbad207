//! The scenarios of stepped victims: they cover each part of the driver in which a process can die.

use std::os::fd::AsFd;
use std::sync::Arc;

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Driver};
use roundtrip_binder_emulator::{Emulated, InheritBy};

use crate::desk::{Answer, CALL_BACK, DROP, Desk, ECHO, EXCHANGE, KEEP};
use crate::message::Message;
use crate::stepping;
use crate::world::AREA;

/// A scenario: it joins and prepares, stops, does the operation that is stepped, and stops again.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    act: fn(&str),
    /// The survivors call it.
    pub(crate) serves: bool,
    /// It is the context manager instead of a survivor.
    pub(crate) manages: bool,
    /// Its callers are real-time, and it inherits their priority through a PI futex.
    pub(crate) inherits: bool,
}

impl Scenario {
    const fn of(name: &'static str, act: fn(&str)) -> Self {
        Self { name, act, serves: false, manages: false, inherits: false }
    }
}

pub(crate) const SCENARIOS: [Scenario; 16] = [
    Scenario::of("join", join),
    Scenario::of("call", call),
    Scenario::of("call outside the lock", call_outside_the_lock),
    Scenario::of("call with objects", call_with_objects),
    Scenario::of("oneway call", oneway_call),
    Scenario::of("nested call", nested_call),
    Scenario::of("death notification", death_notification),
    Scenario::of("freeze notification", freeze_notification),
    Scenario::of("thread exit", thread_exit),
    Scenario::of("close", close),
    Scenario::of("real-time call", realtime_call),
    Scenario::of("inheriting call", inheriting_call),
    Scenario::of("nested inheriting call", nested_inheriting_call),
    Scenario { serves: true, ..Scenario::of("serve", serve) },
    Scenario { serves: true, inherits: true, ..Scenario::of("serve a real-time caller", serve) },
    Scenario { manages: true, ..Scenario::of("manage", manage) },
];

/// Runs the scenario with this name, if there is one.
pub(crate) fn play(name: &str, address: &str) -> bool {
    let known = SCENARIOS.iter().find(|scenario| scenario.name == name);
    known.inspect(|scenario| (scenario.act)(address)).is_some()
}

fn desk(address: &str) -> Desk {
    Desk::at(Arc::new(Emulated::join(address, AREA).expect("the context")))
}

/// Runs the operation that is stepped. The scenario must have run the same code once before, so
/// that all memory that it uses is mapped.
fn stepped<T>(act: impl FnOnce() -> T) -> T {
    stepping::let_parent_step();
    let result = act();
    stepping::stop();
    result
}

fn reply(answer: Result<Answer, roundtrip_binder_driver::Errno>) -> crate::message::Arrived {
    match answer {
        Ok(Answer::Reply(arrived)) => arrived,
        other => panic!("no reply: {other:?}"),
    }
}

fn join(address: &str) {
    let driver = stepped(|| Emulated::join(address, AREA).expect("the context"));
    drop(driver);
}

fn call(address: &str) {
    step_call(desk(address));
}

fn call_outside_the_lock(address: &str) {
    let mut desk = desk(address);
    let message = Message::plain(&[7; 4097]);
    reply(desk.call(0, ECHO, &message));
    stepped(|| {
        reply(desk.call(0, ECHO, &message));
        desk.flush().expect("the context");
    });
}

fn call_with_objects(address: &str) {
    let mut desk = desk(address);
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let fd = reader.as_fd();
    let message = |name| Message::default().node(name).weak_node(name + 1).descriptor(fd).array(&[fd, fd]);
    let first = reply(desk.call(0, EXCHANGE, &message(1)));
    desk.release(&first);
    stepped(|| {
        let second = reply(desk.call(0, EXCHANGE, &message(3)));
        desk.release(&second);
        desk.flush().expect("the context");
    });
}

fn oneway_call(address: &str) {
    let mut desk = desk(address);
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let message = |name| Message::default().node(name).descriptor(reader.as_fd());
    desk.call_oneway(0, DROP, &message(1)).expect("the context");
    stepped(|| {
        desk.call_oneway(0, DROP, &message(2)).expect("the context");
        desk.call_oneway(0, DROP, &message(3)).expect("the context");
    });
}

fn nested_call(address: &str) {
    let mut desk = desk(address);
    reply(desk.call(0, CALL_BACK, &Message::default().node(1)));
    stepped(|| {
        reply(desk.call(0, CALL_BACK, &Message::default().node(2)));
        desk.flush().expect("the context");
    });
}

/// A real-time thread, where that is permitted. The manager inherits its priority through a futex,
/// even if it could inherit by a change of policy.
fn realtime_caller(address: &str) -> Desk {
    let desk = desk(address);
    stepping::become_realtime_caller(&desk.driver);
    desk
}

/// The manager inherits its priority by a change of policy, where that is permitted.
fn realtime_call(address: &str) {
    let desk = realtime_caller(address);
    desk.driver.set_inherit_by(InheritBy::Policy);
    step_call(desk);
}

fn inheriting_call(address: &str) {
    step_call(realtime_caller(address));
}

fn step_call(mut desk: Desk) {
    let message = Message::plain(b"four");
    reply(desk.call(0, ECHO, &message));
    stepped(|| {
        reply(desk.call(0, ECHO, &message));
        desk.flush().expect("the context");
    });
}

fn nested_inheriting_call(address: &str) {
    let mut desk = realtime_caller(address);
    reply(desk.call(0, CALL_BACK, &Message::default().node(1)));
    stepped(|| {
        reply(desk.call(0, CALL_BACK, &Message::default().node(2)));
        desk.flush().expect("the context");
    });
}

fn death_notification(address: &str) {
    let mut desk = desk(address);
    desk.queue(Command::Acquire(0));
    desk.flush().expect("the context");
    stepped(|| {
        desk.queue(Command::RequestDeathNotification(HandleCookie { handle: 0, cookie: 1 }));
        desk.flush().expect("the context");
        desk.queue(Command::ClearDeathNotification(HandleCookie { handle: 0, cookie: 1 }));
        desk.queue(Command::Increfs(0));
        desk.queue(Command::Release(0));
        desk.queue(Command::Decrefs(0));
        while !desk.cleared {
            desk.serve_next().expect("the context");
        }
    });
}

/// Requests a freeze notification for the manager, freezes and thaws itself, and clears the
/// request.
fn freeze_notification(address: &str) {
    let mut desk = desk(address);
    reply(desk.call(0, KEEP, &Message::default().node(1)));
    desk.queue(Command::Acquire(0));
    desk.flush().expect("the context");
    let own = std::process::id();
    stepped(|| {
        desk.queue(Command::RequestFreezeNotification(HandleCookie { handle: 0, cookie: 1 }));
        desk.flush().expect("the context");
        // Another process may be calling it.
        let _ = desk.driver.set_frozen(own, true, 0);
        desk.driver.set_frozen(own, false, 0).expect("the context");
        desk.queue(Command::ClearFreezeNotification(HandleCookie { handle: 0, cookie: 1 }));
        desk.queue(Command::Release(0));
        while !desk.cleared {
            desk.serve_next().expect("the context");
        }
    });
}

/// Leaves with nodes, handles, a death notification and the buffer of an unread reply.
fn laden(address: &str) -> Desk {
    let mut desk = desk(address);
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let fd = reader.as_fd();
    let message = Message::default().node(1).weak_node(2).descriptor(fd).array(&[fd]);
    reply(desk.call(0, EXCHANGE, &message));
    desk.queue(Command::Acquire(0));
    desk.queue(Command::RequestDeathNotification(HandleCookie { handle: 0, cookie: 1 }));
    desk.flush().expect("the context");
    desk.driver.write_read(&mut some_call(), &[], None).expect("the context");
    desk
}

/// An empty call whose reply is not read.
fn some_call() -> roundtrip_binder_driver::Commands {
    let mut commands = roundtrip_binder_driver::Commands::default();
    commands.push(Command::Transaction(TransactionData { code: ECHO, ..Default::default() }));
    commands
}

fn thread_exit(address: &str) {
    let desk = laden(address);
    stepped(|| desk.driver.exit_thread());
}

fn close(address: &str) {
    let desk = laden(address);
    stepped(|| drop(desk));
}

fn serve(address: &str) {
    let mut desk = desk(address);
    reply(desk.call(0, KEEP, &Message::default().node(1)));
    desk.queue(Command::EnterLooper);
    stepped(|| {
        while desk.served < 2 {
            desk.serve_next().expect("the context");
        }
        desk.flush().expect("the context");
    });
}

fn manage(address: &str) {
    let mut desk = desk(address);
    desk.queue(Command::EnterLooper);
    stepped(|| {
        desk.driver.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("the last one has died");
        while desk.served == 0 {
            desk.serve_next().expect("the context");
        }
        desk.flush().expect("the context");
    });
}
