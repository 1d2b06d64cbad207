//! Features of Android's library besides calls: dialects, flags, work sources, service-specific
//! errors, extensions, freezing, and oneway spam detection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{World, function, proxy};
use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_binder::{
    Binder, Call, CallFlags, Dialect, Error, InterfaceToken, NodeOptions, Parcel, ParcelReader, Process,
    Proxy, Stability, Stack, Status, Stub, WorkSource, status,
};
use roundtrip_binder_driver::uapi::{TF_CLEAR_BUF, TF_ONE_WAY};
use roundtrip_binder_driver::{Backend, Command, Commands, Driver, RawBytes, ReadableMemory, Returns};

#[test]
fn every_dialect_exchanges_binders_through_its_service_manager() {
    for dialect in Dialect::ALL {
        let mut world = World::in_dialect(dialect);
        let manager = world.server(1);
        manager::serve(&manager, Stack::Binder).unwrap();
        let server = world.server(1);
        let options = NodeOptions { stability: Stability::Vintf, ..NodeOptions::BINDER };
        let twice = |_: &Call, data: &mut ParcelReader<'_>, reply: &mut Parcel| {
            data.check_interface("test.IFunction")?;
            reply.write_no_exception();
            reply.write_i32(data.read_i32()? * 2);
            Ok(())
        };
        let object = server.publish_with(function(twice), options);
        let names = ServiceManager::new(&server, Stack::Binder);
        names.add("one", &object).unwrap();
        names.add("two", &server.publish(function(twice))).unwrap();

        let client = world.process();
        let names = ServiceManager::new(&client, Stack::Binder);
        assert_eq!(names.list().unwrap(), ["one", "two"], "{dialect:?}");
        assert!(matches!(names.get("three"), Err(Error::NotRegistered { .. })), "{dialect:?}");
        let found = proxy(&names.get("one").unwrap());
        let token = InterfaceToken::new(dialect, "test.IFunction").unwrap();
        let reply = found
            .call(1, |parcel| {
                parcel.write_token(&token);
                parcel.write_i32(21);
                Ok(())
            })
            .unwrap();
        let mut reader = reply.reader().unwrap();
        reader.read_exception().unwrap();
        assert_eq!(reader.read_i32().unwrap(), 42);
        // Since Android 11 the parcel contains the binder's stability.
        let expected = if dialect == Dialect::Android10 { Stability::System } else { Stability::Vintf };
        assert_eq!(found.stability(), expected, "{dialect:?}");
    }
}

#[test]
fn a_parcel_in_another_dialect_is_refused() {
    let mut world = World::in_dialect(Dialect::Android12);
    world.manager(function(|_, _, _| Ok(())), 1);
    let service = world.process().context_manager();
    let refused = service.transact(1, &Parcel::new()).unwrap_err();
    assert!(refused.to_string().contains("another dialect"), "{refused}");
    let refused = service.transact_oneway(1, &Parcel::in_dialect(Dialect::Android10)).unwrap_err();
    assert!(matches!(refused, Error::Unsendable { .. }), "{refused}");
    drop(service.transact(1, &Parcel::in_dialect(Dialect::Android12)).unwrap());
}

/// A service that returns its caller's work source and the work source of its own calls; -1 for
/// none.
fn tells_work_sources() -> roundtrip_binder::Service {
    let token = InterfaceToken::new(Dialect::default(), "test.IFunction").unwrap();
    function(move |_, data, reply| {
        data.check_token(&token)?;
        let mut own = Parcel::new();
        own.write_token(&token);
        let mut own = own.reader();
        own.check_interface("test.IFunction")?;
        for uid in [data.work_source(), own.work_source()] {
            reply.write_i64(uid.map_or(-1, i64::from));
        }
        Ok(())
    })
}

fn work_sources(service: &Proxy) -> [i64; 2] {
    let reply = service.call(1, |parcel| parcel.write_interface_token("test.IFunction")).unwrap();
    let mut reader = reply.reader().unwrap();
    [reader.read_i64().unwrap(), reader.read_i64().unwrap()]
}

#[test]
fn a_service_sees_the_work_source_of_its_caller() {
    let mut world = World::new();
    world.manager(tells_work_sources(), 1);
    let service = world.process().context_manager();
    assert_eq!(work_sources(&service), [-1, -1]);
    {
        let _outer = WorkSource::set(10_042);
        assert_eq!(work_sources(&service), [10_042, -1]);
        {
            let _inner = WorkSource::clear();
            assert_eq!(work_sources(&service), [-1, -1]);
        }
        assert_eq!(work_sources(&service), [10_042, -1]);
    }
    assert_eq!(work_sources(&service), [-1, -1]);
}

#[test]
fn a_nested_call_is_served_without_a_work_source() {
    let mut world = World::new();
    // Calls the object from its arguments.
    world.manager(
        function(|_, data, reply| {
            work_sources(&proxy(&data.read_binder()?)).iter().for_each(|uid| reply.write_i64(*uid));
            Ok(())
        }),
        1,
    );
    let client = world.process();
    let own = client.publish(tells_work_sources());
    let _works_for = WorkSource::set(10_042);
    let manager = client.context_manager();
    let reply = manager
        .call(1, |parcel| {
            parcel.write_binder(&own);
            Ok(())
        })
        .unwrap();
    let mut reader = reply.reader().unwrap();
    // This thread serves the nested call while it waits. Its own calls meanwhile have no work
    // source.
    assert_eq!([reader.read_i64().unwrap(), reader.read_i64().unwrap()], [-1, -1]);
}

#[test]
fn a_service_specific_error_arrives_with_its_number() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Err(Status::service_specific(-42, "no paper"))), 1);
    let client = world.process().context_manager();
    let reply = client.call(1, |_| Ok(())).unwrap();
    let error = reply.reader().unwrap().read_exception().unwrap_err();
    assert_eq!(error.to_string(), "the service answered with its own error -42: no paper");
}

/// An object with an extension.
struct Extended(Binder);

impl Stub for Extended {
    fn descriptor(&self) -> &str {
        "test.IExtended"
    }

    fn on_transact(&self, _: &Call, _: &mut ParcelReader<'_>, _: &mut Parcel) -> Result<(), Status> {
        Err(Status::UNKNOWN_TRANSACTION)
    }

    fn extension(&self) -> Option<Binder> {
        Some(self.0.clone())
    }
}

#[test]
fn an_object_returns_its_extension() {
    let mut world = World::new();
    let server = world.process();
    let extension = server.publish(function(|_, _, _| Ok(())));
    server.become_context_manager(roundtrip_binder::Service::binder(Extended(extension))).unwrap();
    server.start_looper().unwrap();
    let client = world.process().context_manager();
    let extension = proxy(&client.extension().unwrap().expect("it has one"));
    assert_eq!(extension.interface_descriptor(Stack::Binder).unwrap(), "test.IFunction");
    assert!(extension.extension().unwrap().is_none());
}

/// A driver that records the flags of calls and replies, and reports no extended errors.
#[derive(Debug)]
struct Spy {
    driver: Arc<dyn Driver>,
    flags: Arc<Mutex<Vec<u32>>>,
}

impl Driver for Spy {
    fn backend(&self) -> Backend {
        self.driver.backend()
    }
    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), roundtrip_binder_driver::Error> {
        let mut pending = commands.pending();
        while let Some((command, size)) = Command::parse(pending) {
            pending = &pending[size..];
            if let Command::Transaction(data) | Command::Reply(data) = command {
                self.flags.lock().unwrap().push(data.flags & (TF_CLEAR_BUF | TF_ONE_WAY));
            }
        }
        self.driver.exchange(commands, memory, returns)
    }
    fn area(&self) -> RawBytes<'_> {
        self.driver.area()
    }
    fn become_context_manager(&self, flags: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.driver.become_context_manager(flags)
    }
    fn set_max_threads(&self, threads: u32) -> Result<(), roundtrip_binder_driver::Error> {
        self.driver.set_max_threads(threads)
    }
    fn exit_thread(&self) {
        self.driver.exit_thread();
    }
    fn interrupt(&self) {
        self.driver.interrupt();
    }
}

#[test]
fn a_call_that_clears_its_buffers_sets_the_flag_on_call_and_reply() {
    let world = World::new();
    let flags = Arc::new(Mutex::new(Vec::new()));
    let server = Process::new(Arc::new(Spy { driver: world.driver(), flags: flags.clone() }));
    let seen = function(|call, _, reply| {
        reply.write_bool(call.clear_buffers);
        Ok(())
    });
    server.become_context_manager(seen).unwrap();
    server.start_looper().unwrap();
    let client = Process::new(Arc::new(Spy { driver: world.driver(), flags: flags.clone() }));
    let service = client.context_manager();
    for (asked, expected) in [(CallFlags::default(), 0), (CallFlags::CLEAR_BUFFERS, TF_CLEAR_BUF)] {
        let reply = service.transact_with(1, &Parcel::new(), asked).unwrap();
        assert_eq!(reply.reader().unwrap().read_bool().unwrap(), expected != 0);
        assert_eq!(std::mem::take(&mut *flags.lock().unwrap()), [expected, expected]);
    }
    service.transact_oneway_with(1, &Parcel::new(), CallFlags::CLEAR_BUFFERS).unwrap();
    assert_eq!(flags.lock().unwrap()[0], TF_CLEAR_BUF | TF_ONE_WAY);
    server.stop();
}

#[test]
fn a_refused_call_is_an_error_if_the_driver_reports_no_errno() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = Process::new(Arc::new(Spy { driver: world.driver(), flags: Arc::default() }));
    let too_large = vec![0; 2 * crate::support::AREA_BYTES as usize];
    let refused = client.context_manager().call(1, |parcel| parcel.write_bytes(&too_large)).unwrap_err();
    assert!(matches!(refused, Error::Failed { errno: 0, .. }), "{refused:?}");
    assert!(refused.to_string().contains("no reason given"), "{refused}");
}

#[test]
fn a_frozen_process_refuses_calls_until_it_is_thawed() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = world.process();
    let service = client.context_manager();
    let own = std::process::id();
    client.freeze(own, Duration::from_secs(1)).unwrap();
    let refused = service.ping(Stack::Binder);
    assert!(matches!(refused, Err(Error::Frozen { handle: 0 })), "{refused:?}");
    assert_eq!(client.frozen_info(own).unwrap().sync_recv & 1, 1);
    client.unfreeze(own).unwrap();
    service.ping(Stack::Binder).unwrap();
    let unknown = client.freeze(1, Duration::ZERO);
    assert!(matches!(unknown, Err(Error::Driver { .. })), "{unknown:?}");
}

#[test]
fn a_process_with_spam_detection_is_notified_of_its_oneway_spam() {
    for asked in [false, true] {
        let mut world = World::new();
        // The server has no looper, so its area fills up.
        world.manager(function(|_, _, _| Ok(())), 0);
        let client = world.process();
        client.set_oneway_spam_detection(asked).unwrap();
        let service = client.context_manager();
        let parcel = &mut Parcel::new();
        parcel.write_bytes(&[0; 8000]).unwrap();
        while service.transact_oneway(1, parcel).is_ok() {}
        assert_eq!(client.spam_suspicions() > 0, asked);
    }
}

#[test]
fn a_hwbinder_object_refuses_an_extension_request() {
    // Hwbinder objects have no extensions.
    let mut world = World::new();
    world.manager(roundtrip_binder::Service::hwbinder(crate::support::HwEcho), 1);
    let asked = world.process().context_manager().extension();
    assert!(matches!(asked, Err(Error::Status { code: status::BAD_TYPE | status::BAD_VALUE })), "{asked:?}");
}
