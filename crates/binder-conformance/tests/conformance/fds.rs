//! File descriptors inside transactions: which nodes accept them, what arrives, and that none is
//! leaked.

use std::os::fd::AsRawFd;

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Errno, Return};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;

use crate::Device;
use crate::actor::{Actor, find_transaction, names, reply};
use crate::calls::pair;
use crate::deaths::end;
use crate::extended_error::reported;
use crate::freeze::freeze;
use crate::message::{Message, handle, node};
use crate::objects::handle_in;
use crate::pipes::{Pipe, array_in, object, object_in, take, with_array};

fn free(received: &TransactionData) -> Command {
    Command::FreeBuffer(received.buffer)
}

fn refused(errno: Errno) -> (u32, i32) {
    (BR_FAILED_REPLY, -errno.raw_os_error())
}

pub(crate) fn a_descriptor_arrives_as_a_descriptor_of_the_receiver<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipe = Pipe::new();
    let call = Message::to(0).plain(b"some").plain(b"data").object(&object(pipe.number())).call(&client);
    let received = server.serve();
    assert!(pipe.is_at(pipe.number()));
    let sent = pipe.number();
    pipe.close();
    let arrived = object_in(&server, &received, 8);
    assert_ne!(arrived.fd, sent);
    assert!(pipe.is_at(arrived.fd));
    assert_eq!((arrived.kind, arrived.flags, arrived.pad, arrived.cookie), (BINDER_TYPE_FD, 0x7f, 0, 0xc00c));
    drop(server.driver.duplicate_fd(arrived.fd).expect("the driver has opened it"));
    let owned = take(&server, arrived.fd);
    assert!(server.driver.take_fd(arrived.fd).is_none());
    assert_eq!(server.driver.duplicate_fd(arrived.fd).err(), Some(Errno::BADF));
    assert_eq!(rustix::io::fcntl_getfd(&owned), Ok(FdFlags::CLOEXEC));
    // The receiver owns it: freeing the buffer does not close it.
    server.write(&[free(&received)]).unwrap();
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert!(!pipe.is_closed_by_now());
    drop(owned);
    assert!(!pipe.is_open());
}

pub(crate) fn a_node_that_does_not_accept_descriptors_gets_none<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open());
    server.driver.become_context_manager(0).unwrap();
    let client = Actor::new(&device.open());
    let mut pipe = Pipe::new();
    for flags in [0, TF_ACCEPT_FDS, TF_ONE_WAY] {
        let message = Message::to(0).flags(flags).object(&object(pipe.number()));
        assert_eq!(message.call(&client).wait(), [Return::FailedReply], "flags {flags:#x}");
        assert_eq!(reported(&client), refused(Errno::PERM));
        let message = with_array(Message::to(0).flags(flags), &[pipe.number()]);
        assert_eq!(message.call(&client).wait(), [Return::FailedReply], "flags {flags:#x}, an array");
        assert_eq!(reported(&client), refused(Errno::PERM));
        // An empty array is not checked.
        let empty = with_array(Message::to(0).flags(TF_ONE_WAY), &[]);
        assert_eq!(empty.call(&client).wait(), [Return::TransactionComplete]);
    }
    pipe.close();
    assert!(!pipe.is_open());
}

pub(crate) fn a_reply_carries_descriptors_to_a_caller_that_accepts_them<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipe = Pipe::new();
    let answer = |flags: u32| {
        let call = Message::to(0).flags(flags).call(&client);
        server.serve();
        Message::default().object(&object(pipe.number())).reply(&server);
        let returns = call.wait();
        assert_eq!(names(&server.read()), ["TransactionComplete"]);
        returns
    };
    assert_eq!(names(&answer(0)), ["TransactionComplete", "FailedReply"]);
    assert_eq!(reported(&client), refused(Errno::PERM));
    assert_eq!(reported(&server), (BR_OK, 0));
    let received = reply(&answer(TF_ACCEPT_FDS));
    pipe.close();
    let arrived = object_in(&client, &received, 0);
    assert!(pipe.is_at(arrived.fd));
    drop(take(&client, arrived.fd));
    assert!(!pipe.is_open());
}

pub(crate) fn an_invalid_descriptor_is_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let path = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("a directory");
    let mut pipe = Pipe::new();
    for wrong in [u32::MAX, 0x7fff_ffff, 1 << 20, path.as_raw_fd().cast_unsigned()] {
        let message = Message::to(0).object(&object(pipe.number())).object(&object(wrong));
        assert_eq!(message.call(&client).wait(), [Return::FailedReply], "{wrong}");
        assert_eq!(reported(&client), refused(Errno::BADF));
        let message = with_array(Message::to(0), &[pipe.number(), wrong]);
        assert_eq!(message.call(&client).wait(), [Return::FailedReply], "{wrong} in an array");
        assert_eq!(reported(&client), refused(Errno::BADF));
    }
    pipe.close();
    assert!(!pipe.is_open());
}

pub(crate) fn a_descriptor_outlives_its_sender<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipe = Pipe::new();
    Message::to(0).flags(TF_ONE_WAY).object(&object(pipe.number())).write(&client);
    pipe.close();
    end::<D>(client);
    assert!(!pipe.is_closed_by_now());
    let received = server.serve();
    let arrived = object_in(&server, &received, 0);
    assert!(pipe.is_at(arrived.fd));
    drop(take(&server, arrived.fd));
    assert!(!pipe.is_open());
}

pub(crate) fn an_array_arrives_and_is_closed_with_its_buffer<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let (mut first, mut second) = (Pipe::new(), Pipe::new());
    let call = with_array(Message::to(0), &[first.number(), second.number(), first.number()]).call(&client);
    let received = server.serve();
    first.close();
    second.close();
    let arrived = array_in(&server, &received, 8);
    assert!(first.is_at(arrived[0]) && second.is_at(arrived[1]) && first.is_at(arrived[2]), "{arrived:?}");
    assert_ne!(arrived[0], arrived[2]);
    for &fd in &arrived {
        assert!(server.driver.take_fd(fd).is_none(), "the driver closes it");
        drop(server.driver.duplicate_fd(fd).expect("the buffer is held"));
    }
    let bytes = server.bytes(&received);
    let array = FdArrayObject::from_bytes(&bytes[48..]).expect("an object");
    assert_eq!(array, FdArrayObject { kind: BINDER_TYPE_FDA, count: 3, parent: 0, parent_offset: 4, pad: 3 });
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert!(!first.is_closed_by_now());
    // The driver closes them when the thread returns to user space, so the read returns now.
    assert_eq!(server.write_read(&[free(&received)]), []);
    assert!(!first.is_open() && !second.is_open());
    assert!(arrived.iter().all(|&fd| server.driver.duplicate_fd(fd).is_err()));
    assert!(server.start(|desk| desk.read()).is_waiting());
    server.driver.interrupt();
}

pub(crate) fn an_array_in_the_wrong_place_is_refused<D: Device>() {
    let device = D::new();
    let (_server, client) = pair(&device);
    let mut pipe = Pipe::new();
    let array = |count: u64, parent: u64, parent_offset: u64| {
        let object = FdArrayObject { kind: BINDER_TYPE_FDA, count, parent, parent_offset, pad: 0 };
        let numbers = [pipe.number(); 4].iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        Message::to(0).plain(&[0; 8]).buffer(numbers).object(&object.to_bytes())
    };
    let again = |message: Message, parent_offset: u64| {
        let object = FdArrayObject { kind: BINDER_TYPE_FDA, count: 1, parent: 0, parent_offset, pad: 0 };
        message.object(&object.to_bytes())
    };
    for (what, message) in [
        ("more than the buffer holds", array(5, 0, 0)),
        ("behind the buffer", array(1, 0, 16)),
        ("far behind the buffer", array(1, 0, u64::MAX - 3)),
        ("not aligned", array(1, 0, 2)),
        ("a number that overflows", array(1 << 62, 0, 0)),
        ("a number that overflows more", array(u64::MAX, 0, 0)),
        ("itself as its parent", array(1, 1, 0)),
        ("no such parent", array(1, 7, 0)),
        ("two in the wrong order", again(array(1, 0, 8), 4)),
        ("two that overlap", again(array(2, 0, 0), 4)),
    ] {
        assert_eq!(message.call(&client).wait(), [Return::FailedReply], "{what}");
        assert_eq!(reported(&client), refused(Errno::INVAL), "{what}");
    }
    pipe.close();
    assert!(!pipe.is_open());
}

pub(crate) fn many_descriptors_arrive_in_order<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipes = [Pipe::new(), Pipe::new(), Pipe::new()];
    // More than one message of a Unix socket can carry.
    let numbers: Vec<u32> = (0..300).map(|index| pipes[index % 3].number()).collect();
    let message = with_array(Message::to(0).object(&object(pipes[2].number())), &numbers);
    let call = message.object(&object(pipes[1].number())).call(&client);
    let received = server.serve();
    let last = server.bytes(&received).len() - FdObject::SIZE;
    let singles = [object_in(&server, &received, 0).fd, object_in(&server, &received, last).fd];
    assert!(pipes[2].is_at(singles[0]) && pipes[1].is_at(singles[1]), "{singles:?}");
    let arrived = array_in(&server, &received, 24 + 8);
    assert_eq!(arrived.len(), 300);
    for (index, &fd) in arrived.iter().enumerate() {
        assert!(pipes[index % 3].is_at(fd), "number {index}");
    }
    singles.into_iter().for_each(|fd| drop(take(&server, fd)));
    server.write(&[free(&received)]).unwrap();
    server.reply(b"").unwrap();
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    for pipe in &mut pipes {
        pipe.close();
        assert!(!pipe.is_open());
    }
}

pub(crate) fn a_refused_transaction_leaks_no_descriptor<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open_with_area(8192));
    server.driver.become_context_manager(0x100).unwrap();
    let client = Actor::new(&device.open());
    let mut pipe = Pipe::new();
    let good = || Message::to(0).object(&object(pipe.number()));
    for message in
        [good().object(&handle(9)), good().plain(&[0; 8192]), with_array(good(), &[pipe.number(), 1 << 20])]
    {
        assert_eq!(message.call(&client).wait(), [Return::FailedReply]);
    }
    pipe.close();
    assert!(!pipe.is_open());
}

pub(crate) fn a_receiver_that_leaves_leaks_no_descriptor<D: Device>() {
    let device = D::new();
    // The process closes with one call unread and one read but not freed. It owns the descriptor of
    // the second.
    let (server, client) = pair(&device);
    let mut pipes = [Pipe::new(), Pipe::new(), Pipe::new()];
    let calls = pipes.each_ref().map(|pipe| {
        let caller = Actor::new(&client.driver);
        let call = with_array(Message::to(0), &[pipe.number()]).call(&caller);
        assert!(call.is_waiting());
        (caller, call)
    });
    let received = server.serve();
    let fds = array_in(&server, &received, 8);
    pipes.iter_mut().for_each(Pipe::close);
    end::<D>(server);
    for (_, call) in calls {
        assert_eq!(names(&call.wait()).last().unwrap(), "DeadReply");
    }
    assert!(pipes[0].is_at(fds[0]) && !pipes[0].is_closed_by_now(), "what was received stays open");
    assert!(!pipes[1].is_open() && !pipes[2].is_open());
    drop(crate::sys::owned(fds[0].cast_signed()));
    assert!(!pipes[0].is_open());
    // A thread leaves with a reply unread.
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipe = Pipe::new();
    Message::to(0).flags(TF_ACCEPT_FDS).write(&client);
    server.serve();
    Message::default().object(&object(pipe.number())).reply(&server);
    pipe.close();
    assert!(!pipe.is_closed_by_now());
    client.leave();
    assert!(!pipe.is_open());
    drop(server);
}

pub(crate) fn descriptors_of_waiting_oneway_calls_wait_with_them<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipes = [Pipe::new(), Pipe::new(), Pipe::new(), Pipe::new()];
    for pipe in &pipes[..3] {
        Message::to(0).flags(TF_ONE_WAY).object(&object(pipe.number())).write(&client);
    }
    // A synchronous call overtakes them.
    let caller = Actor::new(&client.driver);
    let call = Message::to(0).object(&object(pipes[3].number())).call(&caller);
    assert!(call.is_waiting());
    let mut order = Vec::new();
    let mut buffers = Vec::new();
    server.write(&[Command::EnterLooper]).unwrap();
    for _ in 0..4 {
        let received = server.next_call();
        let arrived = object_in(&server, &received, 0);
        order.extend(pipes.iter().position(|pipe| pipe.is_at(arrived.fd)));
        drop(take(&server, arrived.fd));
        if received.flags & TF_ONE_WAY == 0 {
            server.reply(b"").unwrap();
        }
        buffers.push(free(&received));
        if order.len() >= 2 {
            server.write(&std::mem::take(&mut buffers)).unwrap();
        }
    }
    assert_eq!(order, [0, 3, 1, 2]);
    pipes.iter_mut().for_each(Pipe::close);
    assert!(pipes.iter().all(|pipe| !pipe.is_open()));
    // A node whose owner dies with some waiting.
    let device = D::new();
    let (server, client) = pair(&device);
    let mut pipe = Pipe::new();
    let call = Message::to(0).object(&node(1, 1, 0x100)).call(&client);
    let received = server.serve();
    let held = handle_in(&server, &received);
    for _ in 0..3 {
        Message::to(held).flags(TF_ONE_WAY).object(&object(pipe.number())).write(&server);
    }
    pipe.close();
    assert!(!pipe.is_closed_by_now());
    assert_eq!(find_transaction(&server.run(|desk| desk.write_read(&[Command::EnterLooper], &[]))), None);
    client.driver.interrupt();
    let _ = call.wait();
    end::<D>(client);
    assert!(!pipe.is_open());
}

pub(crate) fn an_update_closes_the_descriptors_of_the_replaced_call<D: Device>() {
    let device = D::new();
    let server = Actor::new(&device.open());
    let pid = device.last_opener().cast_unsigned();
    server.driver.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no context manager yet");
    let client = Actor::new(&device.open());
    freeze(&client, pid, true, 0).unwrap();
    let mut pipes = [Pipe::new(), Pipe::new(), Pipe::new()];
    for pipe in &mut pipes {
        let message = Message::to(0).flags(TF_ONE_WAY | TF_UPDATE_TXN).object(&object(pipe.number()));
        message.write(&client);
        pipe.close();
    }
    // The first is already delivered.
    assert!(!pipes[1].is_open(), "the last took the second's place");
    assert!(!pipes[0].is_closed_by_now() && !pipes[2].is_closed_by_now());
}
