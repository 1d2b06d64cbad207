//! Background scheduling: the policy and nice value at which each stack serves a background caller.

use std::sync::{Arc, Barrier};

use crate::support::{World, function};
use roundtrip_binder::{Call, Parcel, ParcelReader, Process, Service, Status};
use roundtrip_skips::{Need, skip};

const SCHED_OTHER: i64 = 0;
const SCHED_BATCH: i64 = 3;

/// The calling thread's policy and nice value, from fields 41 and 19 of proc_pid_stat(5).
fn own_policy_and_nice() -> (i64, i64) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let field = |number: usize| after_name.split(' ').nth(number - 3).unwrap().parse().unwrap();
    (field(41), field(19))
}

/// A service that returns its thread's policy and nice value.
fn observer() -> Service {
    function(|_, _, reply| {
        let (policy, nice) = own_policy_and_nice();
        reply.write_i64(policy);
        reply.write_i64(nice);
        Ok(())
    })
}

/// The policy and nice value of the server's thread while it serves a caller of this nice value.
fn observed(client: &Arc<Process>, nice: i32) -> (i64, i64) {
    let client = client.clone();
    std::thread::spawn(move || {
        rustix::process::setpriority_process(None, nice).unwrap();
        let manager = client.context_manager();
        let reply = manager.call(1, |_| Ok(())).unwrap();
        let mut reader = reply.reader().unwrap();
        (reader.read_i64().unwrap(), reader.read_i64().unwrap())
    })
    .join()
    .unwrap()
}

/// Checks that a thread ran in the foreground. It may have the test's own nice value, which may be
/// above 0.
fn assert_foreground((policy, nice): (i64, i64)) {
    assert!(policy == SCHED_OTHER && nice < 10, "policy {policy}, nice {nice}");
}

const NO_LOWER_NICE: &str = "this user may not lower a nice value again";

fn may_lower_nice() -> bool {
    let own = || rustix::process::getpriority_process(None).unwrap();
    let lower = move || {
        let nice = own();
        rustix::process::setpriority_process(None, nice + 1).unwrap();
        rustix::process::setpriority_process(None, nice).is_ok()
    };
    std::thread::spawn(lower).join().unwrap()
}

#[test]
fn a_binder_thread_runs_as_background_for_a_background_caller_and_only_then() {
    let mut world = World::new();
    let server = world.manager(observer(), 1);
    let client = world.process();
    assert_eq!(observed(&client, 9), (SCHED_OTHER, 9), "not yet in the background");
    if !may_lower_nice() {
        // The thread cannot restore its nice value, so the next call would run with the inherited
        // one.
        return skip(Need::Root, NO_LOWER_NICE);
    }
    assert_eq!(observed(&client, 10), (SCHED_BATCH, 10));
    assert_eq!(observed(&client, 0), (SCHED_OTHER, 0));
    assert_eq!(observed(&client, 19), (SCHED_BATCH, 19));
    server.set_background_scheduling(false);
    assert_eq!(observed(&client, 10).0, SCHED_OTHER);
}

#[test]
fn a_looper_that_starts_during_a_background_call_does_not_stay_in_the_background() {
    if !may_lower_nice() {
        return skip(Need::Root, NO_LOWER_NICE);
    }
    let mut world = World::new();
    let server = world.process();
    server.set_max_threads(1).unwrap();
    // Each call returns only after the other has arrived, so two loopers are needed.
    let meeting = Barrier::new(2);
    let service = move |_: &Call, _: &mut ParcelReader<'_>, reply: &mut Parcel| {
        meeting.wait();
        reply.write_i64(0);
        reply.write_i64(0);
        Ok(())
    };
    server.become_context_manager(function(service)).unwrap();
    server.start_looper().unwrap();
    let client = world.process();
    std::thread::scope(|scope| {
        scope.spawn(|| observed(&client, 15));
        observed(&client, 15);
    });
    let nice = |stat: String| -> Option<i64> {
        let (name, rest) = stat.rsplit_once(") ")?;
        name.contains("(looper-").then(|| rest.split(' ').nth(19 - 3).unwrap().parse().unwrap())
    };
    let loopers = || -> Vec<i64> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats.filter_map(nice).collect()
    };
    let start = std::time::Instant::now();
    while loopers().contains(&15) {
        assert!(start.elapsed().as_secs() < 10, "nice values {:?}", loopers());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_process_without_background_scheduling_inherits_no_background_nice_value() {
    let mut world = World::new();
    let server = world.process();
    server.set_background_scheduling(false);
    server.become_context_manager(observer()).unwrap();
    server.start_looper().unwrap();
    assert_foreground(observed(&world.process(), 15));
}

#[test]
fn a_hwbinder_thread_stays_in_the_foreground() {
    struct Observer;
    impl roundtrip_binder::HwStub for Observer {
        fn descriptor(&self) -> &str {
            "test@1.0::IObserver"
        }
        fn on_transact<'a>(
            &'a self,
            _: &roundtrip_binder::Call,
            _: &mut roundtrip_binder::HwReader<'a>,
            reply: &mut roundtrip_binder::HwParcel<'a>,
        ) -> Result<(), Status> {
            let (policy, nice) = own_policy_and_nice();
            reply.plain().write_i64(policy);
            reply.plain().write_i64(nice);
            Ok(())
        }
    }
    let mut world = World::new();
    world.manager(Service::hwbinder(Observer), 1);
    assert_foreground(observed(&world.process(), 15));
}
