//! Tests that need a process of their own, because a seccomp filter cannot be removed.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use std::os::fd::{AsFd as _, OwnedFd};

use roundtrip_skips::{Need, skip};

use crate::lock::{Guard, Scratch};
use crate::records::{Id, Process, TAG, Thread, process, thread};
use crate::region::Region;
use crate::seccomp;
use crate::sleep::{Slept, sleep};
use crate::sleep_word::GOES_TO_SECCOMP;
use crate::wakers::{WakeUp, own_listener};

/// A limit on waits that should end; only a failing test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the rest of the test with this name in a new process, which executes this test program for
/// that test only.
pub(crate) fn alone(test: &str, act: impl FnOnce()) {
    const NAMES_IT: &str = "BINDER_EMULATOR_TEST_ALONE";
    if std::env::var(NAMES_IT).is_ok_and(|name| name == test) {
        return act();
    }
    let name = test.split_once("::").map_or(test, |(_, name)| name);
    let output = Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", name, "--nocapture"])
        .env(NAMES_IT, test)
        .output()
        .expect("this program can be started again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A context whose only process is this one, and whose threads can sleep in seccomp.
pub(crate) struct InSeccomp {
    pub(crate) region: Arc<Region>,
    pub(crate) listener: Arc<OwnedFd>,
}

impl InSeccomp {
    pub(crate) const SLOT: u64 = 7;
    pub(crate) const GENERATION: u64 = 3;

    /// `None`, and the test is skipped, where a process cannot have a listener.
    pub(crate) fn new() -> Option<Self> {
        let listener = match own_listener(WakeUp::NoNewPrivileges) {
            Ok(listener) => listener,
            Err(why) => {
                refused(&why);
                return None;
            }
        };
        let region = Arc::new(Region::create().expect("memory"));
        region.words()[TAG].store(0xc1, Relaxed);
        region.wakers().set_context(0xc1);
        let mut scratch = Scratch::default();
        Guard::lock(&region, &mut scratch).set(Self::slot(), process::GENERATION, Self::GENERATION);
        region.wakers().learn(Self::slot(), Self::GENERATION, Arc::clone(&listener));
        region.wakers().start_seccomp(Self::slot(), Self::GENERATION);
        Some(Self { region, listener })
    }

    pub(crate) fn slot() -> Id<Process> {
        Id::new(Self::SLOT).expect("a slot")
    }

    /// A thread that sleeps in seccomp, with a pending notification. The
    /// channel gets the result of its sleep.
    pub(crate) fn sleeper(&self) -> (Id<Thread>, Receiver<Slept>) {
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&self.region, &mut scratch);
        let own = guard.alloc::<Thread>().expect("a record");
        guard.set(own, thread::PROCESS, Some(Self::slot()));
        drop(guard);
        let region = Arc::clone(&self.region);
        let (sender, slept) = channel();
        std::thread::spawn(move || {
            assert!(region.wakers().enter());
            region.notification_id(own.index()).store(0, Relaxed);
            region.sleep_word(own.index()).set_out(GOES_TO_SECCOMP);
            let _ = sender.send(sleep(&region, own, true));
        });
        self.wait_for_notification();
        (own, slept)
    }

    /// Waits for a notification that was not received yet.
    pub(crate) fn wait_for_notification(&self) {
        let is_there =
            (0..PATIENCE.as_secs()).any(|_| seccomp::is_pending(self.listener.as_fd(), 999_999_999));
        assert!(is_there, "the thread does not enter seccomp");
    }
}

/// Skips a test if the machine is the reason that a process can have no listener.
pub(crate) fn refused(why: &str) {
    let reasons = ["no seccomp user notification", "another seccomp", "its own seccomp filter"];
    let is_old = why == "it needs Linux 6.6" && release() < (6, 6);
    assert!(is_old || reasons.iter().any(|reason| why.contains(reason)), "{why}");
    skip(Need::Machine, why);
}

/// The kernel's release as (major, minor).
fn release() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().expect("a major version"), numbers.next().expect("a minor version"))
}
