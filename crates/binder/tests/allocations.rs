//! A call allocates nothing on either side in the steady state.
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written without")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use roundtrip_binder::NodeOptions;
use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_echo::{Benchmark, Echo, Probe, Purpose, Scheduling};
use support::{STACKS, World, proxy};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller meets `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory comes from the system's allocator, through `alloc` above.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for `dealloc` above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct NoClock;

impl Probe for NoClock {
    fn now_ns(&self) -> u64 {
        0
    }
    fn cpu(&self) -> u32 {
        0
    }
    fn scheduling(&self) -> Scheduling {
        Scheduling::default()
    }
}

fn exercise(service: &dyn Benchmark, bytes: &[u8]) {
    let mut length = 0;
    service.send_vec(bytes, &mut |bytes| length = bytes.len()).unwrap();
    assert_eq!(length, bytes.len());
    service.nop().unwrap();
    service.call(bytes, Purpose::Measured).unwrap();
}

// The only test in this file, because the counter covers the whole process.
#[test]
fn calls_allocate_nothing_on_either_side_in_the_steady_state() {
    for stack in STACKS {
        let mut world = World::new();
        let (host, server, client) = (world.server(1), world.server(1), world.process());
        manager::serve(&host, stack).unwrap();
        let name = roundtrip_echo::service_name(stack, "default");
        let service = Arc::new(Echo::new(NoClock)).publish(&server, stack, NodeOptions::from(stack));
        ServiceManager::new(&server, stack).add(&name, &service).unwrap();
        let found = ServiceManager::new(&client, stack).get(&name).unwrap();
        let service = roundtrip_echo::connect(proxy(&found), stack);
        let bytes = vec![1; 65536];
        // Buffers grow during the first windows, here and in the test harness. An allocation in
        // each call would show in every window.
        let window = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..100 {
                exercise(&*service, &bytes);
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        let windows: Vec<u64> = (0..10).map(|_| window()).collect();
        assert!(windows.contains(&0), "{stack}: {windows:?} allocations in 100 rounds each");
    }
}
