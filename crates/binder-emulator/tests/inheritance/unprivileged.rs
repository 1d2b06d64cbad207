//! Real-time threads without privileges. This file does not know the driver.

use std::sync::{Mutex, PoisonError};

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_skips::{Need, skip};
use rustix::process::{Gid, Resource, Rlimit, Uid, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

pub(crate) const OTHER: u32 = 0;
pub(crate) const FIFO: u32 = 1;
/// The user "nobody".
const NOBODY: u32 = 65534;

/// Locked during each test, because it needs all CPUs.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `act` on a thread with this real-time priority, whose user is not privileged and whose
/// process may set no real-time priority (`RLIMIT_RTPRIO` 0). Skips the test where that is not
/// possible.
pub(crate) fn unprivileged(priority: u32, act: impl FnOnce() + Send + 'static) {
    run(priority, true, act);
}

/// As [`unprivileged`], with all privileges.
pub(crate) fn as_root(priority: u32, act: impl FnOnce() + Send + 'static) {
    run(priority, false, act);
}

fn run(priority: u32, drop_privileges: bool, act: impl FnOnce() + Send + 'static) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = std::thread::spawn(move || {
        let realtime = SchedAttr { policy: FIFO, priority, ..Default::default() };
        if !rustix::process::geteuid().is_root() || sched_attr::set(0, realtime).is_err() {
            return false;
        }
        if drop_privileges {
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            setrlimit(Resource::Rtprio, none).expect("a lower limit");
            set_thread_groups(&[]).expect("root");
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_res_gid(group, group, group).expect("root");
            // This also drops the thread's capabilities. Threads that it starts inherit this.
            set_thread_res_uid(user, user, user).expect("root");
            assert!(sched_attr::set(0, SchedAttr { priority: priority + 1, ..realtime }).is_err());
        }
        act();
        true
    });
    match thread.join() {
        Ok(true) => {}
        Ok(false) => skip(Need::Root, "this user has no real-time threads"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
