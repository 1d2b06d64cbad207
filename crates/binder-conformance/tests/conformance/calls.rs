//! Synchronous calls, their returns and their refusals.

use roundtrip_binder_driver::uapi::BC_ACQUIRE;
use roundtrip_binder_driver::{Command, Commands, Errno, Error, Return, Returns};

use crate::Device;
use crate::actor::{Actor, Desk, data, names, reply, transaction};

/// A server that is the context manager, and a client.
pub(crate) fn pair<D: Device>(device: &D) -> (Actor, Actor) {
    let server = Actor::new(&device.open());
    server.driver.become_context_manager(0x100).expect("no context manager yet");
    (server, Actor::new(&device.open()))
}

pub(crate) fn a_call_gets_its_reply_together_with_transaction_complete<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 7, b"hello");
    let received = server.serve();
    assert_eq!((received.code, received.flags, server.bytes(&received)), (7, 0, b"hello".to_vec()));
    assert!(call.is_waiting(), "the caller must not hear anything before the reply");
    server.reply(b"world").unwrap();
    let returns = call.wait();
    assert_eq!(names(&returns), ["TransactionComplete", "Reply"]);
    assert_eq!(client.bytes(&reply(&returns)), b"world");
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
}

pub(crate) fn the_first_ioctl_of_a_thread_does_not_wait<D: Device>() {
    let device = D::new();
    let actor = Actor::unknown(&device.open());
    assert_eq!(actor.read(), []);
    assert!(actor.start(|desk| desk.read()).is_waiting());
    actor.driver.interrupt();
}

pub(crate) fn a_reply_without_a_transaction_is_refused<D: Device>() {
    let device = D::new();
    let actor = Actor::new(&device.open());
    actor.reply(b"nothing asked").unwrap();
    assert_eq!(actor.read(), [Return::FailedReply]);
}

pub(crate) fn a_call_to_an_unknown_handle_is_refused_without_waiting<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    assert_eq!(client.call(5, 1, b"x").wait(), [Return::FailedReply]);
}

pub(crate) fn a_call_without_a_context_manager_gets_a_dead_reply<D: Device>() {
    let device = D::new();
    let client = Actor::new(&device.open());
    assert_eq!(client.call(0, 1, b"x").wait(), [Return::DeadReply]);
}

pub(crate) fn the_context_manager_cannot_call_itself_by_handle_0<D: Device>() {
    let device = D::new();
    let (server, _client) = pair(&device);
    assert_eq!(server.call(0, 1, b"x").wait(), [Return::FailedReply]);
}

pub(crate) fn a_context_has_one_manager<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    for actor in [&client, &server] {
        let refused = actor.driver.become_context_manager(0);
        assert!(matches!(refused, Err(Error::ContextManagerTaken)), "{refused:?}");
    }
}

pub(crate) fn a_nested_call_arrives_at_the_waiting_thread<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    // The client passes its own node, and the server calls it while the client waits.
    let call = crate::objects::call_with_node(&client, 0, 0xbeef, 0xcafe);
    let received = server.serve();
    let handle = crate::objects::handle_in(&server, &received);
    let nested = server.call(handle, 9, b"nested");
    let returns = call.wait();
    let inner = transaction(&returns);
    assert_eq!((inner.target, inner.cookie, inner.code), (0xbeef, 0xcafe, 9));
    client.reply(b"inner").unwrap();
    let returns = nested.wait();
    assert_eq!(server.bytes(&reply(&returns)), b"inner");
    server.reply(b"outer").unwrap();
    let seen = client.until_reply(client.read());
    assert_eq!(client.bytes(&reply(&seen)), b"outer");
}

pub(crate) fn an_unknown_command_is_invalid_and_earlier_commands_are_consumed<D: Device>() {
    let device = D::new();
    let actor = Actor::new(&device.open());
    let (result, left) = actor.run(|desk| {
        let mut commands = Commands::default();
        commands.push(Command::EnterLooper);
        commands.raw(&0xdead_beef_u32.to_ne_bytes());
        (desk.send(&mut commands, &[]), commands.pending().len())
    });
    assert_eq!((result, left), (Err(Errno::INVAL), 4));
}

pub(crate) fn a_truncated_command_is_a_fault_and_earlier_commands_are_consumed<D: Device>() {
    let device = D::new();
    let actor = Actor::new(&device.open());
    let mut whole = Commands::default();
    whole.push(Command::FreeBuffer(1));
    for bytes in [1, 3, 4, 11] {
        let (result, left) = actor.run({
            let cut = whole.pending()[..bytes].to_vec();
            move |desk| {
                let mut commands = Commands::default();
                commands.push(Command::EnterLooper);
                commands.raw(&cut);
                (desk.send(&mut commands, &[]), commands.pending().len())
            }
        });
        assert_eq!((result, left), (Err(Errno::FAULT), bytes));
    }
}

pub(crate) fn a_refused_call_is_reported_before_an_error_in_later_commands<D: Device>() {
    let device = D::new();
    let actor = Actor::new(&device.open());
    // An invalid command, and a truncated one.
    for (wrong, errno) in [(0xdead_beef, Errno::INVAL), (BC_ACQUIRE, Errno::FAULT)] {
        let (first, returned, left, second) = actor.run(move |desk| {
            let (mut commands, mut returns) = (Commands::default(), Returns::with_room(256));
            commands.push(Command::Transaction(data(77, 1, 0, &[])));
            commands.raw(&wrong.to_ne_bytes());
            let first = desk.driver.write_read(&mut commands, &[], Some(&mut returns)).is_ok();
            let returned: Vec<Return> = returns.filter(|item| *item != Return::Noop).collect();
            (first, returned, commands.pending().len(), desk.send(&mut commands, &[]))
        });
        assert_eq!((first, returned, left, second), (true, vec![Return::FailedReply], 4, Err(errno)));
    }
}

pub(crate) fn memory_outside_the_passed_slices_is_not_read<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let returns = client.run(|desk| {
        // An address that no process has mapped, which every check refuses.
        let mut unmapped = data(0, 1, 0, &[]);
        (unmapped.buffer, unmapped.data_size) = (0xffff_ffff_ffff_0000, 16);
        desk.write_read(&[Command::Transaction(unmapped)], &[])
    });
    assert_eq!(returns, [Return::FailedReply]);
}

pub(crate) fn a_server_sees_its_callers_process_and_user<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 1, b"who");
    let received = server.serve();
    assert_eq!(received.sender_pid, device.last_opener());
    assert_eq!(received.sender_euid, rustix::process::geteuid().as_raw());
    server.reply(b"").unwrap();
    assert_eq!(reply(&call.wait()).sender_pid, 0, "a reply does not contain its sender");
}

pub(crate) fn a_read_with_room_for_the_largest_return_gets_a_transaction<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.write(&[Command::EnterLooper]).unwrap();
    let call = client.call(0, 3, b"x");
    assert!(call.is_waiting());
    let returns: Vec<Return> = server.run(|desk| {
        // BR_NOOP, then a number and a transaction with a security context.
        let mut returns = Returns::with_room(4 + 4 + 72);
        desk.driver.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("enough room");
        returns.filter(|item| *item != Return::Noop).collect()
    });
    assert_eq!(transaction(&returns).code, 3);
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn a_read_with_little_room_returns_nothing_and_leaves_pending_work<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    server.write(&[Command::EnterLooper]).unwrap();
    let call = client.call(0, 3, b"x");
    assert!(call.is_waiting());
    // One byte less than BR_NOOP and the largest return need.
    for (room, expected) in [(0, &[][..]), (4, &[Return::Noop]), (79, &[Return::Noop])] {
        let returns: Vec<Return> = server.run(move |desk| {
            let mut returns = Returns::with_room(room);
            desk.driver.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("no error");
            returns.collect()
        });
        assert_eq!(returns, expected, "with room for {room} bytes");
    }
    assert_eq!(server.next_call().code, 3);
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

const INTERRUPTED: Return = Return::Error(Errno::INTR.raw_os_error());

pub(crate) fn a_signal_ends_the_wait_of_a_looper<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let waiting = server.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert_eq!(waiting.end_by_signals(), [INTERRUPTED]);
    let call = client.call(0, 3, b"x");
    assert_eq!(server.next_call().code, 3, "its commands were consumed, and the next read continues");
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
}

pub(crate) fn a_signal_ends_the_wait_of_a_caller_and_its_call_continues<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let call = client.call(0, 3, b"x");
    assert_eq!(call.end_by_signals(), [INTERRUPTED]);
    assert_eq!(server.serve().code, 3);
    let answer = client.start(Desk::read);
    assert!(answer.is_waiting());
    server.reply(b"").unwrap();
    assert_eq!(names(&answer.wait()), ["TransactionComplete", "Reply"]);
}
