//! Polling: when a poll finds work, and which threads are woken for it.

use std::time::Duration;

use roundtrip_binder_driver::uapi::{PtrCookie, TF_ONE_WAY};
use roundtrip_binder_driver::{Command, Errno, Return};

use crate::Device;
use crate::actor::{Actor, Pending, data, find_transaction, names};
use crate::calls::pair;

type Found = Result<bool, Option<Errno>>;

/// Longer than any case takes.
const LONG: Duration = Duration::from_secs(60);

fn begin(actor: &Actor, timeout: Option<Duration>) -> Pending<Found> {
    actor.start(move |desk| desk.driver.poll(timeout).map_err(|error| error.errno()))
}

/// Returns true if a poll finds work now.
fn finds(actor: &Actor) -> bool {
    begin(actor, Some(Duration::ZERO)).wait().expect("a driver that can be polled")
}

fn oneway(by: &Actor, code: u32) {
    by.run(move |desk| {
        let call = Command::Transaction(data(0, code, TF_ONE_WAY, b""));
        assert_eq!(desk.write_read(&[call], &[]), [Return::TransactionComplete]);
    });
}

pub(crate) fn a_poll_finds_the_work_that_a_read_would<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    // A thread's first read returns immediately, even after a poll.
    let new = Actor::unknown(&server.driver);
    assert!(finds(&new) && finds(&new));
    assert_eq!(new.read(), []);
    assert!(!finds(&new));
    assert_eq!(begin(&new, Some(Duration::from_millis(20))).wait(), Ok(false));
    for timeout in [None, Some(LONG)] {
        let polling = begin(&new, timeout);
        assert!(polling.is_waiting());
        assert_eq!(polling.end_by_signals(), Err(Some(Errno::INTR)));
    }
    // The same holds after an interruption: it does not end a poll, but the next poll finds it.
    let polling = begin(&new, Some(LONG));
    assert!(polling.is_waiting());
    server.driver.interrupt();
    assert!(polling.is_waiting());
    assert_eq!(polling.end_by_signals(), Ok(true));
    assert_eq!(new.read(), []);
    let _ = server.read();

    // Only the kernel driver has a descriptor to wait for with others.
    assert_eq!(server.driver.descriptor().is_some(), !server.driver.backend().is_emulated());

    // Any thread that serves no call finds the process's work, even if it is not a looper.
    let polling = [begin(&server, None), begin(&new, Some(LONG))];
    assert!(polling.iter().all(Pending::is_waiting));
    let call = client.call(0, 1, b"");
    assert_eq!(polling.map(Pending::wait), [Ok(true), Ok(true)], "both are woken");
    let _ = server.serve();
    assert!(!finds(&new), "the other has taken it");
    let other = Actor::new(&device.open());
    let second = other.call(0, 2, b"");
    assert!(second.is_waiting());
    assert!(!finds(&server), "it serves a call");
    assert!(finds(&new));
    assert_eq!(new.serve().code, 2);

    // A poll finds a thread's own work, except work that is only delivered together with other
    // work.
    let third = Actor::new(&device.open());
    third.run(|desk| desk.send_call(0, 3));
    assert!(!finds(&third), "that it was taken comes with the reply");
    server.reply(b"").unwrap();
    assert_eq!(names(&server.read()), ["TransactionComplete"]);
    assert_eq!(names(&call.wait()), ["TransactionComplete", "Reply"]);
    let polling = begin(&third, Some(LONG));
    assert!(polling.is_waiting());
    let _ = server.serve();
    assert!(polling.is_waiting());
    server.reply(b"").unwrap();
    assert_eq!(polling.wait(), Ok(true));
    assert_eq!(names(&third.read()), ["TransactionComplete", "Reply"]);
    assert!(!finds(&third));
    new.reply(b"").unwrap();
    let _ = second.wait();
}

pub(crate) fn a_polling_thread_is_woken_when_no_thread_reads<D: Device>() {
    let device = D::new();
    let (server, client) = pair(&device);
    let pollers = [Actor::new(&server.driver), Actor::new(&server.driver)];
    let polling = pollers.each_ref().map(|poller| begin(poller, Some(LONG)));
    assert!(polling.iter().all(Pending::is_waiting));
    let reading = server.start(|desk| desk.write_read(&[Command::EnterLooper], &[]));
    assert!(reading.is_waiting());
    oneway(&client, 7);
    let received = find_transaction(&reading.wait()).expect("who reads is woken first");
    assert!(polling.iter().all(Pending::is_waiting));
    // The next one waits at its node, until the first one's buffer is given back.
    oneway(&client, 8);
    assert!(polling.iter().all(Pending::is_waiting));
    server.write(&[Command::FreeBuffer(received.buffer)]).unwrap();
    assert_eq!(polling.map(Pending::wait), [Ok(true), Ok(true)]);
    assert_eq!(pollers[0].next_call().code, 8);
    assert!(!finds(&pollers[1]));
    // Other work than calls also wakes the thread: here, the end of a reference.
    let held = crate::objects::hold_node(&server, &client, 0x51, 0x52).0;
    let _ = client.write(&[
        Command::IncrefsDone(PtrCookie { ptr: 0x51, cookie: 0x52 }),
        Command::AcquireDone(PtrCookie { ptr: 0x51, cookie: 0x52 }),
    ]);
    let _ = server.read();
    let waits = Actor::new(&client.driver);
    let polling = begin(&waits, None);
    assert!(polling.is_waiting());
    server.write(&[Command::Release(held)]).unwrap();
    assert_eq!(polling.wait(), Ok(true));
    assert_eq!(names(&waits.read()), ["Release", "Decrefs"]);
}
