//! Both service managers, and the benchmark service registered with them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{STACKS, World, proxy};
use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_binder::{Error, NodeOptions, Stack};
use roundtrip_echo::{Benchmark, Echo, Probe, Purpose, Scheduling};

const PATIENCE: Duration = Duration::from_secs(10);

struct Fixed;

impl Probe for Fixed {
    fn now_ns(&self) -> u64 {
        12_345
    }
    fn cpu(&self) -> u32 {
        3
    }
    fn scheduling(&self) -> Scheduling {
        Scheduling { pid: 1, tid: 2, policy: 1, priority: 99, nice: -5 }
    }
}

/// Makes a world with a service manager and the benchmark service registered under each name.
fn world_with(stack: Stack, names: &[&str]) -> World {
    let mut world = World::new();
    let host = world.server(1);
    manager::serve(&host, stack).unwrap();
    let server = world.server(1);
    for name in names {
        let service = Arc::new(Echo::new(Fixed)).publish(&server, stack, NodeOptions::from(stack));
        ServiceManager::new(&server, stack)
            .add(&roundtrip_echo::service_name(stack, name), &service)
            .unwrap();
    }
    world
}

#[test]
fn services_are_added_listed_and_found() {
    for stack in STACKS {
        let mut world = world_with(stack, &["b", "a"]);
        let manager = ServiceManager::new(&world.process(), stack);
        let names = ["a", "b"].map(|instance| roundtrip_echo::service_name(stack, instance));
        assert_eq!(manager.list().unwrap(), names);
        let found = proxy(&manager.get(&names[0]).unwrap());
        found.ping(stack).unwrap();
        assert!(names[0].starts_with(&found.interface_descriptor(stack).unwrap()));
    }
}

#[test]
fn an_unregistered_name_is_reported() {
    for stack in STACKS {
        let mut world = world_with(stack, &[]);
        let manager = ServiceManager::new(&world.process(), stack);
        let name = roundtrip_echo::service_name(stack, "missing");
        let error = manager.get(&name).unwrap_err();
        assert_eq!(error.to_string(), format!("no service is registered as '{name}'"));
        let error = manager.wait(&name, Duration::from_millis(5)).unwrap_err();
        assert!(matches!(error, Error::WaitedTooLong { .. }), "{error}");
        assert!(matches!(manager.get("not a name"), Err(Error::Name { .. })));
    }
}

#[test]
fn waiting_ends_when_the_service_is_registered_even_before_there_is_a_manager() {
    for stack in STACKS {
        let mut world = World::new();
        let (host, server, client) = (world.server(1), world.server(1), world.process());
        let name = roundtrip_echo::service_name(stack, "late");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ServiceManager::new(&client, stack).wait(&name, PATIENCE).map(drop));
            std::thread::sleep(Duration::from_millis(5));
            manager::serve(&host, stack).unwrap();
            let service = Arc::new(Echo::new(Fixed)).publish(&server, stack, NodeOptions::from(stack));
            ServiceManager::new(&server, stack).add(&name, &service).unwrap();
            waiting.join().unwrap().unwrap();
        });
    }
}

#[test]
fn a_second_registration_replaces_the_first() {
    for stack in STACKS {
        let mut world = world_with(stack, &["same"]);
        let (server, client) = (world.server(1), world.process());
        let name = roundtrip_echo::service_name(stack, "same");
        let clients = ServiceManager::new(&client, stack);
        let first = clients.get(&name).unwrap();
        let service = Arc::new(Echo::new(Fixed)).publish(&server, stack, NodeOptions::from(stack));
        ServiceManager::new(&server, stack).add(&name, &service).unwrap();
        let second = clients.get(&name).unwrap();
        assert!(!second.same(&first));
        proxy(&second).ping(stack).unwrap();
        assert_eq!(clients.list().unwrap(), [name]);
    }
}

#[test]
fn a_service_that_dies_loses_its_name() {
    for stack in STACKS {
        let mut world = world_with(stack, &["stays"]);
        let server = world.server(1);
        let service = Arc::new(Echo::new(Fixed)).publish(&server, stack, NodeOptions::from(stack));
        let name = roundtrip_echo::service_name(stack, "goes");
        ServiceManager::new(&server, stack).add(&name, &service).unwrap();
        let manager = ServiceManager::new(&world.process(), stack);
        assert_eq!(manager.list().unwrap().len(), 2);
        world.forget(&server);
        server.stop();
        drop((service, server));
        let start = Instant::now();
        while manager.list().unwrap().len() == 2 {
            assert!(start.elapsed() < PATIENCE, "it is still registered");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(manager.list().unwrap(), [roundtrip_echo::service_name(stack, "stays")]);
    }
}

#[test]
fn a_context_has_at_most_one_manager() {
    let mut world = world_with(Stack::Binder, &[]);
    let error = manager::serve(&world.process(), Stack::Binder).unwrap_err();
    assert!(error.to_string().contains("already has a context manager"), "{error}");
}

#[test]
fn the_benchmark_service_behaves_the_same_over_each_stack_and_in_process() {
    let exercise = |service: &dyn Benchmark| {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut echoed = Vec::new();
        service.send_vec(&bytes, &mut |bytes| bytes.append_to(&mut echoed)).unwrap();
        assert_eq!(echoed, bytes);
        service.nop().unwrap();
        let report = service.call(&bytes, Purpose::Measured).unwrap();
        assert_eq!((report.received_ns, report.replied_ns, report.cpu), (12_345, 12_345, 3));
        assert_eq!(report.scheduling, Some(Fixed.scheduling()));
        assert_eq!(service.call(&[], Purpose::WarmUp).unwrap().scheduling, Some(Fixed.scheduling()));
        assert_eq!(service.call(&[], Purpose::Plain).unwrap().scheduling, None);
        service.server_copied_bytes().unwrap()
    };
    assert_eq!(exercise(&Echo::new(Fixed)), 0);
    for stack in STACKS {
        let mut world = world_with(stack, &["default"]);
        let client = world.process();
        let manager = ServiceManager::new(&client, stack);
        let found = proxy(&manager.get(&roundtrip_echo::service_name(stack, "default")).unwrap());
        let before = client.copied_bytes();
        let service = roundtrip_echo::connect(found, stack);
        // Registering names also copied bytes, so compare differences.
        let served = service.server_copied_bytes().unwrap();
        let copied = exercise(&*service) - served;
        let sent = client.copied_bytes() - before;
        match stack {
            Stack::Binder => assert_eq!((sent, copied), (512, 256), "once into each parcel"),
            Stack::Hwbinder => assert_eq!((sent, copied), (0, 0), "never"),
        }
    }
}
