//! Calls over the emulated driver: both stacks, errors, nesting, order, threads.

use std::io::Read as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::support::{HwEcho, World, function, proxy};
use roundtrip_binder::{Binder, Error, Parcel, Service, Stack, Status, exception, status};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn binder_echoes_a_vector_and_frees_its_buffers() {
    let mut world = World::new();
    world.manager(function(|_, data, reply| Ok(reply.write_bytes(data.read_bytes()?)?)), 1);
    let client = world.process();
    let service = client.context_manager();
    // In total, more than fits into the receive area if buffers are not freed.
    for round in 0..100u8 {
        let bytes = vec![round; 40_000];
        let reply = service.call(1, |parcel| parcel.write_bytes(&bytes)).unwrap();
        assert_eq!(reply.reader().unwrap().read_bytes().unwrap(), bytes);
    }
}

#[test]
fn hwbinder_echoes_a_vector_without_a_copy_into_a_parcel() {
    let mut world = World::new();
    let server = world.manager(Service::hwbinder(HwEcho), 1);
    let client = world.process();
    let service = client.context_manager();
    for length in [0, 1, 7, 8, 4096, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let reply = service
            .call_hw(1, |parcel| {
                parcel.write_interface_token("test@1.0::IEcho")?;
                parcel.write_vec(&bytes)
            })
            .unwrap();
        let mut reader = reply.hw_reader().unwrap();
        reader.plain().read_exception().unwrap();
        assert_eq!(reader.read_vec().unwrap(), bytes);
    }
    assert_eq!((client.copied_bytes(), server.copied_bytes()), (0, 0));
}

#[test]
fn every_object_answers_ping_descriptor_and_dump() {
    for (stack, service, descriptor) in [
        (Stack::Binder, function(|_, _, _| Ok(())), "test.IFunction"),
        (Stack::Hwbinder, Service::hwbinder(HwEcho), "test@1.0::IEcho"),
    ] {
        let mut world = World::new();
        world.manager(service, 1);
        let service = world.process().context_manager();
        service.ping(stack).unwrap();
        assert_eq!(service.interface_descriptor(stack).unwrap(), descriptor);
        let (mut from, to) = std::io::pipe().unwrap();
        service.dump(stack, &["a", "b"], to.into()).unwrap();
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        assert_eq!(text, "called with a b");
    }
}

#[test]
fn a_services_status_and_exception_reach_the_caller() {
    let mut world = World::new();
    world.manager(
        function(|call, _, _| match call.code {
            1 => Err(Status::UNKNOWN_TRANSACTION),
            _ => Err(Status::exception(exception::SECURITY, "not you")),
        }),
        1,
    );
    let service = world.process().context_manager();
    let error = service.transact(1, &Parcel::new()).unwrap_err();
    assert!(matches!(error, Error::Status { code: status::UNKNOWN_TRANSACTION }), "{error}");
    assert_eq!(error.to_string(), "the service answered with status -74 (unknown transaction)");
    let reply = service.transact(2, &Parcel::new()).unwrap();
    let error = reply.reader().unwrap().read_exception().unwrap_err();
    assert_eq!(error.to_string(), "the service answered with exception -1: not you");
}

#[test]
fn a_hwbinder_services_exception_reaches_the_caller() {
    let mut world = World::new();
    world.manager(Service::hwbinder(HwEcho), 1);
    let service = world.process().context_manager();
    let reply = service.call_hw(9, |parcel| parcel.write_interface_token("test@1.0::IEcho")).unwrap();
    let error = reply.hw_reader().unwrap().plain().read_exception().unwrap_err();
    assert_eq!(error.to_string(), "the service answered with exception -5: not now");
    drop(reply);
    let error = service.call_hw(1, |parcel| parcel.write_interface_token("another")).unwrap_err();
    assert!(matches!(error, Error::Status { code: status::BAD_TYPE }), "{error}");
}

#[test]
fn a_service_sees_its_callers_process_and_user() {
    let mut world = World::new();
    world.manager(
        function(|call, _, reply| {
            reply.write_i32(call.sender_pid);
            reply.write_u32(call.sender_euid);
            Ok(())
        }),
        1,
    );
    let service = world.process().context_manager();
    let reply = service.transact(1, &Parcel::new()).unwrap();
    let mut reader = reply.reader().unwrap();
    assert_eq!(reader.read_i32().unwrap(), std::process::id() as i32);
    assert_eq!(reader.read_u32().unwrap(), rustix::process::geteuid().as_raw());
}

#[test]
fn a_call_that_does_not_fit_into_the_servers_area_is_refused() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let service = world.process().context_manager();
    let bytes = vec![0; crate::support::AREA_BYTES as usize + 1];
    let error = service.call(5, |parcel| parcel.write_bytes(&bytes)).unwrap_err();
    assert!(matches!(error, Error::Failed { handle: 0, code: 5, .. }), "{error}");
    assert!(error.to_string().ends_with(": the data does not fit into the receiver's area"), "{error}");
    service.ping(Stack::Binder).expect("the next call is none the worse");
}

#[test]
fn a_call_without_a_context_manager_reports_a_dead_object() {
    let mut world = World::new();
    let service = world.process().context_manager();
    assert!(matches!(service.ping(Stack::Binder), Err(Error::DeadObject { handle: 0 })));
}

#[test]
fn a_waiting_client_serves_nested_calls() {
    let mut world = World::new();
    // Calls the object from its arguments with a value lower by one, and adds one to the result.
    world.manager(
        function(|_, data, reply| {
            let depth = data.read_i32()?;
            let back = data.read_binder()?;
            let back = proxy(&back);
            let answer = back.call(1, |parcel| {
                parcel.write_i32(depth - 1);
                Ok(())
            })?;
            reply.write_i32(answer.reader()?.read_i32()? + 1);
            Ok(())
        }),
        1,
    );
    let client = world.process();
    let service = client.context_manager();
    let waiting = std::thread::current().id();
    let own = Arc::new(Mutex::new(None::<Binder>));
    let (inner, down) = (own.clone(), service.clone());
    let callback = client.publish(function(move |_, data, reply| {
        assert_eq!(std::thread::current().id(), waiting, "the thread that waits serves it");
        let depth = data.read_i32()?;
        let answer = if depth == 0 {
            0
        } else {
            let own = inner.lock().unwrap().clone().unwrap();
            let answer = down.call(1, |parcel| {
                parcel.write_i32(depth);
                parcel.write_binder(&own);
                Ok(())
            })?;
            answer.reader()?.read_i32()?
        };
        reply.write_i32(answer + 1);
        Ok(())
    }));
    *own.lock().unwrap() = Some(callback.clone());
    let reply = service.call(1, |parcel| {
        parcel.write_i32(5);
        parcel.write_binder(&callback);
        Ok(())
    });
    assert_eq!(reply.unwrap().reader().unwrap().read_i32().unwrap(), 10);
    *own.lock().unwrap() = None;
}

#[test]
fn oneway_calls_to_one_object_are_served_in_order_one_at_a_time() {
    const CALLS: i32 = 200;
    let mut world = World::new();
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let inside = AtomicU32::new(0);
    world.manager(
        function(move |call, data, _| {
            assert!(call.oneway);
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
            sender.lock().unwrap().send(data.read_i32()?).unwrap();
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }),
        3,
    );
    let service = world.process().context_manager();
    for number in 0..CALLS {
        let mut parcel = Parcel::new();
        parcel.write_i32(number);
        service.transact_oneway(1, &parcel).unwrap();
    }
    for number in 0..CALLS {
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), number);
    }
}

#[test]
fn two_loopers_serve_in_parallel() {
    let mut world = World::new();
    let both = Barrier::new(2);
    // Each call returns only after the other has arrived.
    world.manager(
        function(move |_, _, _| {
            both.wait();
            Ok(())
        }),
        2,
    );
    let client = world.process();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| client.context_manager().transact(1, &Parcel::new()).map(drop).unwrap());
        }
    });
}

#[test]
fn the_driver_requests_looper_threads_up_to_the_limit() {
    const LIMIT: u32 = 3;
    let mut world = World::new();
    let all = Barrier::new(1 + LIMIT as usize);
    let server = world.process();
    server.set_max_threads(LIMIT).unwrap();
    server
        .become_context_manager(function(move |_, _, _| {
            all.wait();
            Ok(())
        }))
        .unwrap();
    server.start_looper().unwrap();
    let client = world.process();
    std::thread::scope(|scope| {
        for _ in 0..=LIMIT {
            scope.spawn(|| client.context_manager().transact(1, &Parcel::new()).map(drop).unwrap());
        }
    });
}

#[test]
fn a_server_that_stops_during_a_call_replies_first() {
    let mut world = World::new();
    let server = world.process();
    let own = server.clone();
    server
        .become_context_manager(function(move |_, _, reply| {
            own.stop();
            reply.write_i32(7);
            Ok(())
        }))
        .unwrap();
    server.start_looper().unwrap();
    let service = world.process().context_manager();
    let reply = service.transact(1, &Parcel::new()).unwrap();
    assert_eq!(reply.reader().unwrap().read_i32().unwrap(), 7);
}

#[test]
fn a_panicking_service_fails_only_its_own_caller() {
    let mut world = World::new();
    let server = world.process();
    server
        .become_context_manager(function(|call, _, _| {
            if call.code == 1 {
                std::panic::resume_unwind(Box::new("on purpose, and without a message"));
            }
            Ok(())
        }))
        .unwrap();
    server.start_looper().unwrap();
    server.start_looper().unwrap();
    let service = world.process().context_manager();
    let error = service.transact(1, &Parcel::new()).unwrap_err();
    assert!(matches!(error, Error::DeadObject { .. }), "{error}");
    service.ping(Stack::Binder).unwrap();
}

#[test]
fn concurrent_callers_each_get_their_own_reply() {
    let mut world = World::new();
    world.manager(function(|_, data, reply| Ok(reply.write_bytes(data.read_bytes()?)?)), 3);
    let client = world.process();
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let service = client.context_manager();
            scope.spawn(move || {
                for call in 0..200usize {
                    let bytes = vec![thread; call * 37 % 9000];
                    let reply = service.call(1, |parcel| parcel.write_bytes(&bytes)).unwrap();
                    assert_eq!(reply.reader().unwrap().read_bytes().unwrap(), bytes);
                }
            });
        }
    });
}

#[test]
fn bytes_copied_by_ended_threads_stay_counted() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = world.process();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let service = client.context_manager();
                service.call(1, |parcel| parcel.write_bytes(&[0; 100])).map(drop).unwrap();
            });
        });
    }
    assert_eq!(client.copied_bytes(), 2000);
}
