//! The threads that the driver itself starts. A separate program, so that all of them belong to one
//! context.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use roundtrip_binder_conformance::signals;
use roundtrip_binder_driver::{Driver, Profile};
use roundtrip_binder_emulator::{Context, Emulated};

const PATIENCE: Duration = Duration::from_secs(20);

/// The ids of the supervisor's thread and of the thread that waits for the context's end.
fn own_threads() -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").expect("a /proc") {
        let path = entry.expect("a thread").path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        if ["binder-super", "binder-watch"].contains(&name.trim_end()) {
            found.push(path.file_name().expect("a name").to_string_lossy().parse().expect("a number"));
        }
    }
    found
}

#[test]
fn signals_to_the_drivers_own_threads_have_no_effect() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let join = || Emulated::join(context.address(), 1 << 16).expect("the context");
    let joined = join();
    let begin = Instant::now();
    // The threads set their names when they first run.
    let threads = loop {
        let threads = own_threads();
        if threads.len() == 2 {
            break threads;
        }
        assert!(begin.elapsed() < PATIENCE, "{threads:?}");
        std::thread::yield_now();
    };
    for send in [signals::signal, signals::restarting_signal].repeat(3) {
        for &tid in &threads {
            let before = signals::SIGNALS_HANDLED.load(Relaxed);
            send(tid);
            let begin = Instant::now();
            while signals::SIGNALS_HANDLED.load(Relaxed) == before {
                assert!(begin.elapsed() < PATIENCE, "no thread handled the signal");
                std::thread::yield_now();
            }
        }
    }
    let other = join();
    assert_ne!(other.number(), joined.number());
    joined.become_context_manager(0x100).expect("a running context");
}
