//! Freeze notifications: a watcher is notified of the frozen state of a node's owner, immediately
//! and at each change (since Linux 6.12).
//!
//! Each case uses a device, of which a guest has few. Therefore each case has several scenes.

use roundtrip_binder_driver::uapi::{FrozenStateInfo, HandleCookie};
use roundtrip_binder_driver::{Command, Errno, Return};
use roundtrip_skips::{Need, skip};

use crate::Device;
use crate::actor::{Actor, names};
use crate::deaths::end;
use crate::freeze::freeze;
use crate::message::Message;
use crate::objects::{call_with_node, handle_in};

const FIRST: u64 = 0xf1;
const SECOND: u64 = 0xf2;
const OTHERS: u64 = 0xf3;

/// The watcher (the context manager), the watched process and its pid, and a process that freezes
/// it.
struct Cast {
    watcher: Actor,
    owner: Actor,
    owner_pid: u32,
    warden: Actor,
    /// The watcher's handles on two nodes, the one with the lower name first.
    handles: [u32; 2],
}

/// `None`, with a skip, if the driver has no freeze notifications. Then no device is used.
fn device<D: Device>() -> Option<D> {
    if !D::has_freeze_notifications() {
        skip(Need::Machine, "this kernel has no freeze notifications (Linux 6.12 brought them)");
        return None;
    }
    Some(D::new())
}

fn cast<D: Device>(device: &D) -> Cast {
    let watcher = Actor::new(&device.open());
    watcher.driver.become_context_manager(0x100).expect("no context manager yet");
    let owner = Actor::new(&device.open());
    let owner_pid = device.last_opener().cast_unsigned();
    let warden = Actor::new(&device.open());
    // The higher name first, so that the nodes' order differs from the order of their creation.
    let [second, first] = [0x42, 0x41].map(|ptr| held(&watcher, &owner, ptr));
    Cast { watcher, owner, owner_pid, warden, handles: [first, second] }
}

/// A handle of `watcher` to a new node of `owner`, which has acknowledged the reference.
fn held(watcher: &Actor, owner: &Actor, ptr: u64) -> u32 {
    let call = call_with_node(owner, 0, ptr, 0);
    let received = watcher.next_call();
    let handle = handle_in(watcher, &received);
    watcher.write(&[Command::Acquire(handle), Command::FreeBuffer(received.buffer)]).unwrap();
    watcher.reply(b"").unwrap();
    let _ = owner.until_reply(call.wait());
    assert_eq!(names(&watcher.read()), ["TransactionComplete"]);
    handle
}

impl Cast {
    fn freezes(&self, frozen: bool) {
        freeze(&self.warden, self.owner_pid, frozen, 0).unwrap();
    }

    /// The watcher has nothing to read.
    fn nothing_comes(&self) {
        let waiting = self.watcher.start(|desk| desk.read());
        assert!(waiting.is_waiting(), "something came");
        self.watcher.driver.interrupt();
        assert_eq!(waiting.wait(), []);
    }
}

fn request(handle: u32, cookie: u64) -> Command {
    Command::RequestFreezeNotification(HandleCookie { handle, cookie })
}

fn clear(handle: u32, cookie: u64) -> Command {
    Command::ClearFreezeNotification(HandleCookie { handle, cookie })
}

fn done(cookie: u64) -> Command {
    Command::FreezeNotificationDone(cookie)
}

fn notified(cookie: u64, frozen: bool) -> [Return; 1] {
    [Return::FrozenBinder(FrozenStateInfo { cookie, is_frozen: frozen.into(), reserved: 0 })]
}

fn cleared(cookie: u64) -> [Return; 1] {
    [Return::ClearFreezeNotificationDone(cookie)]
}

pub(crate) fn a_watcher_is_notified_immediately_and_of_each_change<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, second]) = (&cast.watcher, cast.handles);
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, false), "the present state");
    watcher.write(&[done(FIRST)]).unwrap();
    let waiting = watcher.start(|desk| desk.read());
    assert!(waiting.is_waiting());
    cast.freezes(true);
    assert_eq!(waiting.wait(), notified(FIRST, true), "the change wakes the waiting thread");
    assert_eq!(watcher.write_read(&[request(second, SECOND)]), notified(SECOND, true), "already frozen");
    watcher.write(&[done(SECOND), done(FIRST)]).unwrap();
    // Both change. Each read returns one notification, in the order of the nodes' names.
    cast.freezes(false);
    assert_eq!(watcher.read(), notified(FIRST, false));
    assert_eq!(watcher.read(), notified(SECOND, false));
    watcher.write(&[done(FIRST), done(SECOND)]).unwrap();
    // Each freeze or thaw is notified, even without a change.
    cast.freezes(false);
    assert_eq!(watcher.read(), notified(FIRST, false));
    assert_eq!(watcher.read(), notified(SECOND, false));
    watcher.write(&[done(FIRST), done(SECOND)]).unwrap();
    // A failed freeze sends no notification.
    let call = cast.owner.call(0, 1, b"");
    let _ = watcher.next_call();
    assert_eq!(freeze(&cast.warden, cast.owner_pid, true, 0), Err(Errno::AGAIN));
    watcher.reply(b"").unwrap();
    assert_eq!(names(&watcher.read()), ["TransactionComplete"]);
    let _ = call.wait();
    cast.nothing_comes();
}

pub(crate) fn a_change_during_a_notification_is_sent_after_the_acknowledgement<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, _]) = (&cast.watcher, cast.handles);
    // An unread notification reports the state at the time of the read.
    watcher.write(&[request(first, FIRST)]).unwrap();
    cast.freezes(true);
    assert_eq!(watcher.read(), notified(FIRST, true));
    cast.freezes(true);
    cast.nothing_comes();
    watcher.write(&[done(FIRST)]).unwrap();
    cast.nothing_comes();
    // A change before the acknowledgement is sent after it.
    cast.freezes(false);
    assert_eq!(watcher.read(), notified(FIRST, false));
    cast.freezes(true);
    cast.nothing_comes();
    assert_eq!(watcher.write_read(&[done(FIRST)]), notified(FIRST, true));
    // Two changes are sent as one notification, even if they cancel out.
    cast.freezes(false);
    cast.freezes(true);
    assert_eq!(watcher.write_read(&[done(FIRST)]), notified(FIRST, true));
    watcher.write(&[done(FIRST)]).unwrap();
    cast.nothing_comes();
    // An acknowledgement wakes another thread that waits for the process's work.
    cast.freezes(false);
    assert_eq!(watcher.read(), notified(FIRST, false));
    cast.freezes(true);
    let second = Actor::new(&watcher.driver);
    let waiting = second.start(|desk| desk.read());
    assert!(waiting.is_waiting());
    watcher.write(&[done(FIRST)]).unwrap();
    assert_eq!(waiting.wait(), notified(FIRST, true));
}

pub(crate) fn a_cleared_freeze_notification_is_acknowledged_once<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, second]) = (&cast.watcher, cast.handles);
    // The notification was acknowledged before.
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, false));
    assert_eq!(watcher.write_read(&[done(FIRST), clear(first, FIRST)]), cleared(FIRST));
    // The watcher has not read the notification yet, so the clearing replaces it.
    assert_eq!(watcher.write_read(&[request(first, FIRST), clear(first, FIRST)]), cleared(FIRST));
    // The notification was read but not acknowledged: the clearing is sent after that.
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, false));
    watcher.write(&[clear(first, FIRST)]).unwrap();
    cast.freezes(true);
    cast.nothing_comes();
    assert_eq!(watcher.write_read(&[done(FIRST)]), cleared(FIRST));
    cast.nothing_comes();
    // Requested again before that, with the same cookie.
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, true));
    assert_eq!(watcher.write_read(&[clear(first, FIRST), request(first, FIRST)]), notified(FIRST, true));
    assert_eq!(watcher.write_read(&[done(FIRST)]), cleared(FIRST), "the older one is acknowledged first");
    watcher.write(&[done(FIRST)]).unwrap();
    // One read can return several clearings, but only one notification.
    assert_eq!(watcher.write_read(&[request(second, SECOND)]), notified(SECOND, true));
    let returns = watcher.write_read(&[done(SECOND), clear(first, FIRST), clear(second, SECOND)]);
    assert_eq!(returns, [cleared(FIRST), cleared(SECOND)].concat());
    cast.freezes(false);
    cast.nothing_comes();
}

pub(crate) fn wrong_freeze_commands_are_invalid<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, second]) = (&cast.watcher, cast.handles);
    let refused = |commands: &[Command]| {
        let commands = commands.to_vec();
        watcher.run(move |desk| {
            let mut queued = roundtrip_binder_driver::Commands::default();
            commands.iter().for_each(|&command| queued.push(command));
            let errno = desk.send(&mut queued, &[]).expect_err("invalid");
            (errno, queued.pending().len())
        })
    };
    let with_handle = 4 + HandleCookie::SIZE;
    assert_eq!(refused(&[request(77, FIRST)]), (Errno::INVAL, with_handle), "no such handle");
    assert_eq!(refused(&[clear(77, FIRST)]), (Errno::INVAL, with_handle), "no such handle");
    assert_eq!(refused(&[clear(first, FIRST)]), (Errno::INVAL, with_handle), "no request");
    assert_eq!(refused(&[done(FIRST)]), (Errno::INVAL, 12), "no notification");
    // Earlier commands are consumed, later ones are not.
    let left = refused(&[request(first, FIRST), request(first, SECOND), done(FIRST)]);
    assert_eq!(left, (Errno::INVAL, with_handle + 12), "requested already");
    assert_eq!(refused(&[done(FIRST)]), (Errno::INVAL, 12), "not delivered yet");
    assert_eq!(refused(&[clear(first, SECOND)]), (Errno::INVAL, with_handle), "another cookie");
    assert_eq!(watcher.read(), notified(FIRST, false), "none of them changed anything");
    assert_eq!(refused(&[done(SECOND)]), (Errno::INVAL, 12), "another cookie");
    watcher.write(&[done(FIRST)]).unwrap();
    assert_eq!(refused(&[done(FIRST)]), (Errno::INVAL, 12), "acknowledged already");
    // A weak handle is sufficient.
    watcher.write(&[Command::Increfs(second), Command::Release(second)]).unwrap();
    assert_eq!(watcher.write_read(&[request(second, SECOND)]), notified(SECOND, false));
}

pub(crate) fn a_freeze_notification_ends_with_its_handle_or_its_watcher<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, second]) = (&cast.watcher, cast.handles);
    // One unread notification, and one that was read.
    assert_eq!(watcher.write_read(&[request(second, SECOND)]), notified(SECOND, false));
    watcher.write(&[request(first, FIRST)]).unwrap();
    watcher.write(&[Command::Release(first), Command::Release(second)]).unwrap();
    cast.nothing_comes();
    assert_eq!(watcher.write(&[done(SECOND)]), Err(Errno::INVAL), "it ended with its handle");
    // Other processes hold handles on the same node. Each gets its own notifications until it
    // closes.
    let first = held(watcher, &cast.owner, 0x41);
    let other = Actor::new(&device.open());
    let call = other.call(0, 1, b"");
    let _ = watcher.next_call();
    Message::to(0).object(&crate::message::handle(first)).reply(watcher);
    let received = crate::actor::reply(&other.until_reply(call.wait()));
    let others = handle_in(&other, &received);
    other.write(&[Command::Acquire(others), Command::FreeBuffer(received.buffer)]).unwrap();
    let _ = watcher.read();
    assert_eq!(other.write_read(&[request(others, OTHERS)]), notified(OTHERS, false));
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, false));
    watcher.write(&[done(FIRST)]).unwrap();
    end::<D>(other);
    cast.freezes(true);
    assert_eq!(watcher.read(), notified(FIRST, true));
}

pub(crate) fn a_dead_node_is_neither_frozen_nor_thawed<D: Device>() {
    let Some(device) = device::<D>() else { return };
    let cast = cast(&device);
    let (watcher, [first, second]) = (&cast.watcher, cast.handles);
    cast.freezes(true);
    assert_eq!(watcher.write_read(&[request(first, FIRST)]), notified(FIRST, true));
    watcher.write(&[done(FIRST)]).unwrap();
    watcher.write(&[Command::RequestDeathNotification(HandleCookie { handle: first, cookie: 0xd })]).unwrap();
    let Cast { watcher, owner, warden, owner_pid, .. } = cast;
    end::<D>(owner);
    // A death is not a change of the frozen state.
    assert_eq!(watcher.read(), [Return::DeadBinder(0xd)]);
    assert_eq!(freeze(&warden, owner_pid, false, 0), Err(Errno::INVAL));
    // A dead node can be watched once; only the clearing is reported.
    watcher.write(&[request(second, SECOND)]).unwrap();
    assert_eq!(watcher.write(&[request(second, SECOND)]), Err(Errno::INVAL));
    let waiting = watcher.start(|desk| desk.read());
    assert!(waiting.is_waiting());
    watcher.driver.interrupt();
    assert_eq!(waiting.wait(), []);
    assert_eq!(watcher.write_read(&[clear(second, SECOND)]), cleared(SECOND));
    assert_eq!(watcher.write_read(&[clear(first, FIRST)]), cleared(FIRST));
}
