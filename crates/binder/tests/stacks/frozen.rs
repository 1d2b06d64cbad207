//! Frozen-state listeners, and polling threads.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{World, function};
use roundtrip_binder::{Error, Parcel, Process, Stack};
use roundtrip_binder_driver::{Backend, Command, Commands, Driver, Errno, RawBytes, ReadableMemory, Returns};

/// Longer than any step takes.
const LONG: Duration = Duration::from_secs(20);

/// A listener that forwards each notification.
fn listener() -> (impl Fn(bool) + Send + Sync, Receiver<bool>) {
    let (sender, states) = channel();
    let sender = Mutex::new(sender);
    (move |frozen| sender.lock().unwrap().send(frozen).unwrap_or_default(), states)
}

#[test]
fn listeners_are_notified_when_an_objects_owner_is_frozen_and_thawed() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = world.server(1);
    let service = client.context_manager();
    let freezer = world.process();
    let own = std::process::id();
    let (first, told_first) = listener();
    let first = service.add_frozen_listener(first).unwrap();
    assert_eq!(told_first.recv_timeout(LONG), Ok(false), "its state of now");
    freezer.freeze(own, LONG).unwrap();
    assert_eq!(told_first.recv_timeout(LONG), Ok(true));
    // A later listener gets the known state immediately.
    let (second, told_second) = listener();
    let second = service.add_frozen_listener(second).unwrap();
    assert_eq!(told_second.try_recv(), Ok(true));
    freezer.unfreeze(own).unwrap();
    assert_eq!(told_first.recv_timeout(LONG), Ok(false));
    assert_eq!(told_second.recv_timeout(LONG), Ok(false));
    // Without a change no listener is called.
    freezer.unfreeze(own).unwrap();
    assert!(service.remove_frozen_listener(first).unwrap());
    assert!(!service.remove_frozen_listener(first).unwrap(), "it is gone");
    freezer.freeze(own, LONG).unwrap();
    assert_eq!(told_second.recv_timeout(LONG), Ok(true));
    assert_eq!(told_first.try_iter().count(), 0);
    // Removing the last listener clears the request; adding one makes a new request.
    assert!(service.remove_frozen_listener(second).unwrap());
    let (third, told_third) = listener();
    service.add_frozen_listener(third).unwrap();
    assert_eq!(told_third.recv_timeout(LONG), Ok(true));
    freezer.unfreeze(own).unwrap();
    assert_eq!(told_third.recv_timeout(LONG), Ok(false));
    assert_eq!(told_second.try_iter().count(), 0);
    // Dropping the proxy also ends the request, and leaves no reference.
    service.ping(Stack::Binder).unwrap();
    drop(service);
    assert!(told_third.recv_timeout(LONG).is_err(), "the listener is dropped");
    client.flush().unwrap();
    assert!(!world.state().contains("ref "), "{}", world.state());
}

#[test]
fn a_frozen_listener_is_refused_without_an_object() {
    let mut world = World::new();
    let client = world.process();
    let (refused, states) = listener();
    let error = client.context_manager().add_frozen_listener(refused).unwrap_err();
    assert!(matches!(error, Error::Driver { .. }), "{error:?}");
    assert!(states.recv_timeout(LONG).is_err(), "the listener was dropped without a call");
    // The thread still works, and a second request succeeds once there is a manager.
    let server = world.manager(function(|_, _, _| Ok(())), 1);
    client.start_looper().unwrap();
    let service = client.context_manager();
    service.ping(Stack::Binder).unwrap();
    let (heard, states) = listener();
    service.add_frozen_listener(heard).unwrap();
    assert_eq!(states.recv_timeout(LONG), Ok(false));
    drop(server);
}

#[test]
fn a_polling_thread_serves_calls_when_it_handles_them() {
    let mut world = World::new();
    let server = world.process();
    let served = function(|_, data, reply| {
        reply.write_i32(data.read_i32()? + 1);
        Ok(())
    });
    server.become_context_manager(served).unwrap();
    server.setup_polling().unwrap();
    // The emulated driver has no descriptor to poll.
    assert!(server.polled_descriptor().is_none());
    assert!(!server.poll(Some(Duration::ZERO)).unwrap());
    server.handle_polled().unwrap();
    let client = world.process();
    let calls = std::thread::spawn(move || {
        let service = client.context_manager();
        let mut parcel = Parcel::new();
        parcel.write_i32(1);
        service.transact_oneway(1, &parcel).unwrap();
        let reply = service.transact(1, &parcel).unwrap();
        reply.reader().unwrap().read_i32().unwrap()
    });
    while !calls.is_finished() {
        if server.poll(Some(Duration::from_millis(50))).unwrap() {
            server.handle_polled().unwrap();
        }
    }
    assert_eq!(calls.join().unwrap(), 2);
}

/// A driver without freeze notifications, as in kernels before 6.12.
#[derive(Debug)]
struct Older(Arc<dyn Driver>);

impl Driver for Older {
    fn backend(&self) -> Backend {
        self.0.backend()
    }
    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), roundtrip_binder_driver::Error> {
        let asks = Command::parse(commands.pending())
            .is_some_and(|(command, _)| matches!(command, Command::RequestFreezeNotification(_)));
        if asks {
            return Err(roundtrip_binder_driver::Error::WriteRead {
                operation: "BINDER_WRITE_READ",
                errno: Errno::INVAL,
            });
        }
        self.0.exchange(commands, memory, returns)
    }
    fn area(&self) -> RawBytes<'_> {
        self.0.area()
    }
    fn become_context_manager(&self, flags: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.0.become_context_manager(flags)
    }
    fn set_max_threads(&self, threads: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.0.set_max_threads(threads)
    }
    fn exit_thread(&self) {
        self.0.exit_thread();
    }
    fn interrupt(&self) {
        self.0.interrupt();
    }
}

#[test]
fn an_older_driver_refuses_frozen_listeners_without_side_effects() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = Process::new(Arc::new(Older(world.driver())));
    let service = client.context_manager();
    let (refused, states) = listener();
    let error = service.add_frozen_listener(refused).unwrap_err();
    let Error::Driver { cause, .. } = &error else { panic!("{error:?}") };
    assert_eq!(cause.errno(), Some(Errno::INVAL));
    assert!(states.recv_timeout(LONG).is_err(), "the listener was dropped without a call");
    service.ping(Stack::Binder).unwrap();
    assert!(!world.state().contains("ref "), "{}", world.state());
    client.stop();
}
