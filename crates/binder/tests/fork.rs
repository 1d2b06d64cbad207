//! A forked child that uses its parent's driver.
#![allow(unsafe_code, reason = "fork(2)")]

mod support;

use roundtrip_binder::{Error, Parcel, Stack};
use support::{World, function};

/// Runs `work` in a forked child. Returns the child's wait status, 0 if `work` returned true.
fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs only `work`, whose calls end at the fork guard, and exits without
    // running the parent's destructors. glibc's and musl's fork leave the allocator usable.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let status = if work() { 0 } else { 1 };
        // SAFETY: ends this process.
        unsafe { libc::_exit(status) };
    }
    let mut status = -1;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

#[test]
fn calls_of_a_forked_child_are_refused_and_the_parent_is_not_affected() {
    let mut world = World::new();
    world.manager(function(|_, _, _| Ok(())), 1);
    let client = world.process();
    let service = client.context_manager();
    service.ping(Stack::Binder).unwrap();
    // Compare the driver's state of the client only: the server's thread may still be returning
    // from its call.
    let known =
        |world: &World| world.state().split_once("proc 2").map(|(_, client)| client.to_owned()).unwrap();
    let before = known(&world);
    let status = in_child(|| {
        let called = matches!(service.transact(1, &Parcel::new()), Err(Error::Forked));
        let oneway = matches!(service.transact_oneway(1, &Parcel::new()), Err(Error::Forked));
        let set = matches!(client.set_max_threads(1), Err(Error::Forked));
        let linked = matches!(service.link_to_death(|| ()), Err(Error::Forked));
        drop(service.clone());
        client.stop();
        called && oneway && set && linked
    });
    assert_eq!(status, 0, "the child's calls are refused");
    assert_eq!(known(&world), before);
    service.ping(Stack::Binder).unwrap();
}
