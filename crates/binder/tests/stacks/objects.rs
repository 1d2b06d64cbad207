//! Objects that cross process boundaries: passed on, held, released, dead.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::support::{World, function, proxy};
use roundtrip_binder::{Binder, Error, Parcel, Stack};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn an_object_is_passed_on_between_processes() {
    let mut world = World::new();
    // Code 1 stores an object, and code 2 returns it.
    let kept = Mutex::new(None::<Binder>);
    world.manager(
        function(move |call, data, reply| {
            match call.code {
                1 => *kept.lock().unwrap() = Some(data.read_binder()?),
                2 => reply.write_nullable_binder(kept.lock().unwrap().as_ref()),
                _ => *kept.lock().unwrap() = None,
            }
            Ok(())
        }),
        1,
    );
    let owner = world.server(1);
    let object = owner.publish(function(|_, data, reply| {
        reply.write_i32(data.read_i32()? * 2);
        Ok(())
    }));
    let mut parcel = Parcel::new();
    parcel.write_binder(&object);
    drop(owner.context_manager().transact(1, &parcel).unwrap());

    let third = world.process();
    let manager = third.context_manager();
    let reply = manager.transact(2, &Parcel::new()).unwrap();
    let received = reply.reader().unwrap().read_binder().unwrap();
    drop(reply);
    let mut parcel = Parcel::new();
    parcel.write_i32(21);
    let remote = proxy(&received);
    assert_eq!(remote.transact(1, &parcel).unwrap().reader().unwrap().read_i32().unwrap(), 42);

    // The owner gets its own object back; any other process gets its existing proxy.
    let owners = owner.context_manager();
    let reply = owners.transact(2, &Parcel::new()).unwrap();
    assert!(reply.reader().unwrap().read_binder().unwrap().same(&object));
    let reply = manager.transact(2, &Parcel::new()).unwrap();
    assert!(reply.reader().unwrap().read_binder().unwrap().same(&received));
}

#[test]
fn an_object_lives_as_long_as_another_process_holds_it() {
    struct NotifiesOnDrop(std::sync::mpsc::Sender<()>);
    impl Drop for NotifiesOnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let mut world = World::new();
    let kept = Mutex::new(None::<Binder>);
    world.manager(
        function(move |call, data, _| {
            let new = if call.code == 1 { Some(data.read_binder()?) } else { None };
            *kept.lock().unwrap() = new;
            Ok(())
        }),
        1,
    );
    let owner = world.server(1);
    let (sender, receiver) = channel();
    let notifier = NotifiesOnDrop(sender);
    let object = owner.publish(function(move |_, _, _| {
        let _ = &notifier;
        Ok(())
    }));
    let mut parcel = Parcel::new();
    parcel.write_binder(&object);
    drop(owner.context_manager().transact(1, &parcel).unwrap());
    drop((parcel, object));
    owner.context_manager().ping(Stack::Binder).unwrap();
    assert!(receiver.try_recv().is_err(), "the manager holds it");
    drop(owner.context_manager().transact(2, &Parcel::new()).unwrap());
    receiver.recv_timeout(PATIENCE).expect("no process holds it any more");
}

#[test]
fn an_object_dies_with_its_server_and_its_watchers_are_notified() {
    let mut world = World::new();
    let kept = Mutex::new(None::<Binder>);
    world.manager(
        function(move |call, data, reply| {
            if call.code == 1 {
                *kept.lock().unwrap() = Some(data.read_binder()?);
            }
            reply.write_nullable_binder(kept.lock().unwrap().as_ref());
            Ok(())
        }),
        1,
    );
    let server = world.server(1);
    let object = server.publish(function(|_, _, _| Ok(())));
    let mut parcel = Parcel::new();
    parcel.write_binder(&object);
    drop(server.context_manager().transact(1, &parcel).unwrap());

    let client = world.server(1);
    let manager = client.context_manager();
    let reply = manager.transact(2, &Parcel::new()).unwrap();
    let remote = proxy(&reply.reader().unwrap().read_binder().unwrap());
    drop(reply);
    remote.ping(Stack::Binder).unwrap();
    let (sender, receiver) = channel();
    remote.link_to_death(move || sender.send(()).unwrap()).unwrap();

    world.forget(&server);
    server.stop();
    drop((parcel, object, server));
    receiver.recv_timeout(PATIENCE).expect("a death notification");
    let handle = remote.handle();
    assert!(matches!(remote.ping(Stack::Binder), Err(Error::DeadObject { handle: h }) if h == handle));
    assert!(matches!(remote.link_to_death(|| ()), Err(Error::DeadObject { .. })));
}

#[test]
fn a_process_holds_thousands_of_objects_and_gets_an_error_when_the_table_is_full() {
    // The size of the emulated driver's handle table, without handle 0.
    const MOST: usize = 16_383;
    let mut world = World::new();
    let kept = Mutex::new(Vec::new());
    world.manager(
        function(move |_, data, _| {
            kept.lock().unwrap().push(data.read_binder()?);
            Ok(())
        }),
        1,
    );
    let owner = world.server(1);
    let manager = owner.context_manager();
    let mut objects = Vec::new();
    let error = loop {
        let object = owner.publish(function(|_, _, _| Ok(())));
        let mut parcel = Parcel::new();
        parcel.write_binder(&object);
        objects.push(object);
        match manager.transact(1, &parcel) {
            Ok(reply) => drop(reply),
            Err(error) => break error,
        }
    };
    assert_eq!(objects.len() - 1, MOST);
    assert!(error.to_string().contains("no room for one more handle"), "{error}");
    manager.ping(Stack::Binder).expect("calls without a new object go on");
}
