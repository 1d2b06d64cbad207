//! A lock that is not released, because its owner was stopped or the word was overwritten and names
//! no real owner.

use std::os::unix::fs::FileExt as _;

use roundtrip_binder_driver::Profile;

use crate::alone::alone;
use crate::garbage::memory;
use crate::world::World;

/// Checks that calls fail, and that all participants and the context's owner get the reason.
fn ends_for_all(mut world: World) {
    let error = world.probe_fails();
    assert!(error.contains("held the lock without progress"), "{error}");
    let ended = world.context.ended().expect("it has ended");
    assert!(error.ends_with(ended), "{error} {ended}");
    world.end();
}

#[test]
fn a_context_ends_if_its_lock_names_an_owner_that_never_took_it() {
    let _turn = alone();
    let mut world = World::new(Profile::Ack, true, false);
    assert!(world.probe());
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let (tid_sender, tid) = std::sync::mpsc::channel();
    let stranger = std::thread::spawn(move || {
        tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a test that waits");
        let _ = wait.recv();
    });
    let tid = tid.recv().expect("a thread");
    memory().write_all_at(&tid.to_ne_bytes(), 0).expect("the lock");
    ends_for_all(world);
    drop(end);
    stranger.join().expect("no panic");
}

#[cfg(target_arch = "x86_64")]
mod stopped {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
    use crate::stepping::{Stepped, Stopped};

    /// A victim that is stopped while it owns the lock.
    fn stopped(world: &World, memory: &File) -> Stepped {
        let mut victim = Stepped::start("call", world.context.address());
        let holds = |victim: &Stepped| {
            let mut owner = [0; 4];
            memory.read_exact_at(&mut owner, 0).expect("the lock");
            i32::from_ne_bytes(owner) == victim.thread()
        };
        let mut held = 0;
        // Some instructions after it took the lock, in the middle of its changes.
        while held < 100 {
            assert_eq!(victim.step(), Stopped::Step, "it takes the lock before it ends");
            held = if holds(&victim) { held + 1 } else { 0 };
        }
        victim
    }

    #[test]
    fn a_lock_owner_that_is_stopped_briefly_loses_nothing() {
        let _turn = alone();
        let mut world = World::new(Profile::Ack, true, false);
        assert!(world.probe());
        let mut victim = stopped(&world, &memory());
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| world.probe());
            // Long enough that the supervisor was asked, and has begun to count.
            std::thread::sleep(Duration::from_millis(1500));
            assert!(!calling.is_finished(), "the call needs the lock");
            assert_eq!(victim.run(), Stopped::Mark, "its own call is answered");
            assert!(calling.join().expect("no panic"), "and the one that waited");
        });
        victim.kill();
        assert!(world.probe());
        assert_eq!(world.context.ended(), None);
        world.end();
    }

    #[test]
    fn a_lock_owner_that_stays_stopped_ends_the_context() {
        let _turn = alone();
        let mut world = World::new(Profile::Ack, true, false);
        assert!(world.probe());
        let mut victim = stopped(&world, &memory());
        ends_for_all(world);
        // It continues, and finds that the context has ended.
        victim.let_run();
        victim.kill();
    }
}
