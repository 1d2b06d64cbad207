//! Threads that are real-time and have no rights. Must not know the driver.

use std::sync::{Mutex, PoisonError};

use binder_driver::sched_attr::{self, SchedAttr};
use rustix::process::{Gid, Resource, Rlimit, Uid, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use skips::{Need, skip};

pub(crate) const OTHER: u32 = 0;
pub(crate) const FIFO: u32 = 1;
/// "nobody".
const NOBODY: u32 = 65534;

/// They need the CPUs for themselves.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `act` on a thread at this real-time priority whose user has no rights, and whose process
/// has none to lend to (`RLIMIT_RTPRIO` 0); the test is skipped where that cannot be had.
pub(crate) fn unprivileged(priority: u32, act: impl FnOnce() + Send + 'static) {
    run(priority, true, act);
}

/// As [`unprivileged`], with all rights.
pub(crate) fn as_root(priority: u32, act: impl FnOnce() + Send + 'static) {
    run(priority, false, act);
}

fn run(priority: u32, drop_rights: bool, act: impl FnOnce() + Send + 'static) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = std::thread::spawn(move || {
        let realtime = SchedAttr { policy: FIFO, priority, ..Default::default() };
        if !rustix::process::geteuid().is_root() || sched_attr::set(0, realtime).is_err() {
            return false;
        }
        if drop_rights {
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            setrlimit(Resource::Rtprio, none).expect("a lower limit");
            set_thread_groups(&[]).expect("root");
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_res_gid(group, group, group).expect("root");
            // The thread's capabilities go with it. Threads that it starts are as it is.
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
