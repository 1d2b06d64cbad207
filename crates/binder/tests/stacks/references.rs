//! References to remote objects are neither lost nor leaked. Also tests weak references, death
//! notifications, and the context manager's death.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{World, function, proxy};
use roundtrip_binder::{Binder, Call, Error, Parcel, ParcelReader, Process, Proxy, Stack, Status};

const PATIENCE: Duration = Duration::from_secs(10);

/// A manager with two slots for objects. Codes 1, 2 and 3 store, return and drop the object of the
/// first slot; codes 11, 12 and 13 use the second slot.
fn keeper() -> roundtrip_binder::Service {
    let kept = [const { Mutex::new(None::<Binder>) }; 2];
    function(move |call: &Call, data: &mut ParcelReader<'_>, reply: &mut Parcel| -> Result<(), Status> {
        let kept = &kept[usize::from(call.code > 10)];
        match call.code % 10 {
            1 => *kept.lock().unwrap() = Some(data.read_binder()?),
            2 => reply.write_nullable_binder(kept.lock().unwrap().as_ref()),
            _ => drop(kept.lock().unwrap().take()),
        }
        Ok(())
    })
}

/// Stores an object of a server in a slot of the manager (0 or 10).
fn keep_in(place: u32, server: &Arc<Process>, object: &Binder) {
    let parcel = &mut Parcel::new();
    parcel.write_binder(object);
    drop(server.context_manager().transact(place + 1, parcel).unwrap());
}

/// Stores a new object, which does nothing, in the first slot.
fn keep(server: &Arc<Process>) -> Binder {
    let object = server.publish(function(|_, _, _| Ok(())));
    keep_in(0, server, &object);
    object
}

/// Gets the object in a slot of the manager.
fn get_from(place: u32, process: &Arc<Process>) -> Proxy {
    let manager = process.context_manager();
    let reply = manager.transact(place + 2, &Parcel::new()).unwrap();
    proxy(&reply.reader().unwrap().read_binder().unwrap())
}

fn get(process: &Arc<Process>) -> Proxy {
    get_from(0, process)
}

/// Waits until the driver's state has the expected number of references.
fn wait_for_references(world: &World, expected: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state = world.state();
        let references: Vec<&str> =
            state.lines().map(str::trim).filter(|line| line.starts_with("ref ")).collect();
        if references.len() == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{expected} references are expected in\n{state}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_proxy_dropped_before_its_reader_flushes_leaves_no_reference() {
    let mut world = World::new();
    world.manager(keeper(), 1);
    let owner = world.server(1);
    let other = keep(&owner);
    let server = world.server(1);
    // A looper that serves a call reads an object and passes it to another thread. The looper sends
    // its commands later. The other thread drops the object and receives another one. That one must
    // not get the handle that the looper's commands refer to.
    let (to_dropper, objects) = channel::<(Proxy, Sender<()>)>();
    let dropper = std::thread::spawn({
        let server = server.clone();
        move || {
            for (dropped, done) in objects {
                drop(dropped);
                let other = get(&server);
                done.send(()).unwrap();
                drop(other);
            }
        }
    });
    let reader = server.publish(function(move |_, data, _| {
        let (done, is_done) = channel();
        to_dropper.send((proxy(&data.read_binder()?), done)).unwrap();
        is_done.recv_timeout(PATIENCE).expect("the other thread drops it");
        Ok(())
    }));
    keep_in(10, &server, &reader);
    let object = owner.publish(function(|_, _, _| Ok(())));
    let reading = get_from(10, &owner);
    for _ in 0..20 {
        let reply = reading.call(7, |parcel| {
            parcel.write_binder(&object);
            Ok(())
        });
        drop(reply.unwrap());
    }
    drop(reading);
    wait_for_references(&world, 2); // the manager's references
    drop(owner.context_manager().transact(13, &Parcel::new()).unwrap());
    wait_for_references(&world, 1);
    world.forget(&server);
    server.stop();
    drop((reader, server)); // this also ends the thread that drops objects
    dropper.join().unwrap();
    drop((object, other));
}

#[test]
fn a_proxy_read_outside_a_looper_is_referenced_immediately() {
    let mut world = World::new();
    world.manager(keeper(), 1);
    let owner = world.server(1);
    let _object = keep(&owner);
    let client = world.process();
    let manager = client.context_manager();
    let reply = manager.transact(2, &Parcel::new()).unwrap();
    let received = reply.reader().unwrap().read_binder().unwrap();
    // Another thread drops the object while this thread still has the reply and queued commands.
    std::thread::spawn(move || drop(received)).join().unwrap();
    drop(reply);
    client.flush().unwrap();
    wait_for_references(&world, 1);
    drop(manager.transact(3, &Parcel::new()).unwrap());
    wait_for_references(&world, 0);
}

#[test]
fn a_weak_proxy_can_be_promoted_while_the_object_is_held_and_keeps_its_handle() {
    let mut world = World::new();
    world.manager(keeper(), 1);
    let owner = world.server(1);
    let _object = keep(&owner);
    let client = world.process();
    let strong = get(&client);
    let weak = strong.downgrade();
    let handle = strong.handle();
    assert_eq!((weak.handle(), &weak), (handle, &strong.downgrade()));
    assert_eq!(weak.promote().expect("it is held").handle(), handle);
    drop(strong);
    assert!(weak.promote().is_none());
    wait_for_references(&world, 2); // the weak reference counts as one
    assert!(world.state().contains("s 0 w 1"), "{}", world.state());
    // When the object is received again, it has the same handle and can be promoted again.
    let strong = get(&client);
    assert_eq!(strong.handle(), handle);
    assert!(weak.promote().is_some());
    drop(strong);
    drop(weak);
    wait_for_references(&world, 1);
}

#[test]
fn the_death_of_a_context_manager_and_of_its_successor_is_notified() {
    let mut world = World::new();
    let client = world.server(1);
    let handle0 = client.context_manager();
    let unlinked = handle0.link_to_death(|| unreachable!("no recipient is linked"));
    assert!(matches!(unlinked, Err(Error::DeadObject { handle: 0 })), "{unlinked:?}");
    for _ in 0..3 {
        let manager = world.manager(keeper(), 1);
        let (sender, receiver) = channel();
        handle0.link_to_death(move || sender.send(()).unwrap()).unwrap();
        assert!(receiver.try_recv().is_err());
        world.forget(&manager);
        manager.stop();
        drop(manager);
        receiver.recv_timeout(PATIENCE).expect("a death notification");
        wait_for_references(&world, 0);
    }
    assert!(matches!(handle0.ping(Stack::Binder), Err(Error::DeadObject { handle: 0 })));
}

#[test]
fn a_context_manager_cannot_link_to_its_own_death() {
    let mut world = World::new();
    let manager = world.manager(keeper(), 1);
    let linked = manager.context_manager().link_to_death(|| ());
    assert!(matches!(linked, Err(Error::Driver { .. })), "{linked:?}");
}

#[test]
fn only_recipients_that_are_still_linked_are_called() {
    let mut world = World::new();
    world.manager(keeper(), 1);
    let server = world.server(1);
    let object = keep(&server);
    let client = world.server(1);
    let remote = get(&client);
    let (sender, receiver) = channel();
    let recipient = |name: &'static str| {
        let sender = sender.clone();
        move || sender.send(name).unwrap()
    };
    let first = remote.link_to_death(recipient("first")).unwrap();
    let second = remote.link_to_death(recipient("second")).unwrap();
    assert!(remote.unlink_to_death(first).unwrap());
    assert!(!remote.unlink_to_death(first).unwrap());
    // Unlinking the last recipient clears the driver's request; a later link makes a new one.
    assert!(remote.unlink_to_death(second).unwrap());
    assert!(!world.state().lines().any(|line| line.ends_with(" d 1")), "{}", world.state());
    remote.link_to_death(recipient("third")).unwrap();

    world.forget(&server);
    server.stop();
    drop((object, server));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok("third"));
    assert!(receiver.try_recv().is_err());
    let late = remote.link_to_death(recipient("late"));
    assert!(matches!(late, Err(Error::DeadObject { .. })), "{late:?}");
    assert!(!remote.unlink_to_death(second).unwrap());
}
