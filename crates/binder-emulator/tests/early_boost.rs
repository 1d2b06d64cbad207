//! A real-time call arrives after its server has replied but before the server waits again. The
//! server must inherit the caller's priority immediately. Otherwise a thread that runs above the
//! server's own priority could delay the caller.

use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};
use roundtrip_skips::{Need, skip};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const FIFO: u32 = 1;
const OTHER: u32 = 0;
/// The flags of a node that accepts descriptors and whose server inherits real-time priorities
/// (`FLAT_BINDER_FLAG_INHERIT_RT`).
const INHERITS: u32 = 0x900;
/// The environment variable with the context that the server process joins.
const ADDRESS: &str = "ROUNDTRIP_TEST_CONTEXT";

/// Serves one call after each message: reads it and replies, without waiting for another call.
fn serve(driver: &Emulated, go: &Receiver<()>, answered: &Sender<u32>) {
    let mut returns = Returns::default();
    let mut commands = Commands::default();
    commands.push(Command::EnterLooper);
    while go.recv().is_ok() {
        let mut call = None;
        while call.is_none() {
            driver.write_read(&mut commands, &[], Some(&mut returns)).expect("a living context");
            call = returns.find_map(|item| match item {
                Return::Transaction(call) => Some(call),
                _ => None,
            });
        }
        commands.push(Command::Reply(TransactionData::new(1, b"")));
        driver.write_read(&mut commands, &[b""], None).expect("a living context");
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        answered.send(tid).expect("a test that waits");
    }
    // Waits until the context ends.
    while driver.write_read(&mut commands, &[], Some(&mut returns)).is_ok() {}
}

fn call(driver: &Emulated) {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::Transaction(TransactionData::new(1, b"x")));
    let answer = roundtrip_binder_driver::call(driver, &mut commands, &[b"x"], &mut returns)
        .expect("a living context");
    assert!(matches!(answer, Answer::Reply(_)), "{answer:?}");
}

/// Waits until thread `tid` runs at this policy and real-time priority.
fn wait_until(tid: u32, policy: u32, priority: u32) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let now = sched_attr::get(tid).expect("a living thread");
        if (now.policy, now.priority) == (policy, priority) {
            return;
        }
        assert!(Instant::now() < until, "policy {policy} at {priority} was expected, it runs at {now:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_server_that_is_about_to_wait_inherits_the_next_callers_priority() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Arc::new(Emulated::join(context.address(), 1 << 20).expect("the context"));
    server.become_context_manager(INHERITS).expect("a context without a manager");
    let client = Emulated::join(context.address(), 1 << 20).expect("the context");
    let (go, may_go) = channel();
    let (answered, answers) = channel();
    let serving = std::thread::spawn({
        let server = Arc::clone(&server);
        move || serve(&server, &may_go, &answered)
    });
    let realtime = SchedAttr { policy: FIFO, priority: 7, ..Default::default() };
    let calling = std::thread::spawn(move || {
        if let Err(refused) = sched_attr::set(0, realtime) {
            // Without the permission there is no inheritance to test.
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
            return false;
        }
        call(&client);
        call(&client);
        true
    });
    go.send(()).expect("a server");
    let Ok(tid) = answers.recv_timeout(Duration::from_secs(20)) else {
        assert!(!calling.join().expect("a caller"), "the server did not answer");
        return skip(Need::Root, "this user has no real-time threads");
    };
    // The second call finds no waiting thread: the server has replied to the first, and waits for
    // this test.
    wait_until(tid, FIFO, 7);
    go.send(()).expect("a server");
    answers.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert!(calling.join().expect("a caller"));
    drop(go);
    wait_until(tid, OTHER, 0);
    drop(context);
    serving.join().expect("a server that ends with its context");
}

/// A process with one looper, which a test can stop: this test binary, started again.
struct Server(Child);

impl Server {
    fn start(context: &Context) -> Self {
        let child = Process::new(std::env::current_exe().expect("this test's path"))
            .args(["--exact", "server_process", "--ignored"])
            .env(ADDRESS, context.address())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test can be started again");
        Self(child)
    }

    /// Returns when all its threads have stopped.
    fn stop(&self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP).expect("a living child");
        let (_, status) =
            waitpid(Some(pid), WaitOptions::UNTRACED).expect("a child").expect("its state has changed");
        assert!(status.stopped(), "{status:?}");
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("a living child");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the server process of another test, which starts it"]
fn server_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let driver = Emulated::join_with(&address, 1 << 20, WakeUp::Futex).expect("the context");
    driver.become_context_manager(INHERITS).expect("a context without a manager");
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    while driver.write_read(&mut commands, &[b""], Some(&mut returns)).is_ok() {
        for item in &mut returns {
            if let Return::Transaction(call) = item {
                commands.push(Command::FreeBuffer(call.buffer));
                commands.push(Command::Reply(TransactionData::new(1, b"")));
            }
        }
    }
}

/// Waits until the context's state has a line that begins with `begin` and contains `part`. Returns
/// the rest of the line.
fn wait_for_line(context: &Context, begin: &str, part: &str) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let state = context.state();
        let mut lines = state.lines().filter_map(|line| line.strip_prefix(begin));
        if let Some(rest) = lines.find(|rest| rest.contains(part)) {
            return rest.to_owned();
        }
        assert!(Instant::now() < until, "no line begins with '{begin}' and contains '{part}':\n{state}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_looper_with_a_queued_call_is_not_boosted_for_a_later_call() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Server::start(&context);
    let join = || Emulated::join_with(context.address(), 1 << 20, WakeUp::Futex).expect("the context");
    let (ordinary, realtime) = (join(), join());
    // Entered (0x02) and asleep (0x10).
    let looper = wait_for_line(&context, "  thread ", ": l 12 ");
    let tid: u32 = looper.split(':').next().and_then(|tid| tid.parse().ok()).expect("a thread's id");
    server.stop();
    let first = std::thread::spawn(move || call(&ordinary));
    // It is queued for the looper, which is stopped and cannot take it.
    wait_for_line(&context, "    pending transaction", "");
    let second = std::thread::spawn(move || {
        let policy = SchedAttr { policy: FIFO, priority: 7, ..Default::default() };
        if let Err(refused) = sched_attr::set(0, policy) {
            assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
            return false;
        }
        call(&realtime);
        true
    });
    // The second is queued for the process.
    while !second.is_finished() && !context.state().contains("\n  pending transaction") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = sched_attr::get(tid).expect("a living thread");
    server.go_on();
    first.join().expect("a caller");
    if !second.join().expect("a caller") {
        return skip(Need::Root, "this user has no real-time threads");
    }
    assert_eq!(
        (now.policy, now.priority),
        (OTHER, 0),
        "it would serve the ordinary call at the other's priority"
    );
}
