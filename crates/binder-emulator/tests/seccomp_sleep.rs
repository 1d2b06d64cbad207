//! A thread that sleeps in seccomp for a synchronous wakeup, and the events that end this sleep. A
//! separate program, because a process cannot remove its seccomp filter.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use roundtrip_binder_conformance::signals;
use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, Errno, Error, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};
use roundtrip_skips::{Need, skip};

const PATIENCE: Duration = Duration::from_secs(20);

/// A thread that serves until the context ends.
struct Looper {
    tid: i32,
    /// Reads that ended with an error.
    errors: Receiver<Error>,
    thread: JoinHandle<()>,
}

impl Looper {
    fn start(driver: Arc<Emulated>) -> Self {
        let (tell_tid, tid) = channel();
        let (error_sender, errors) = channel();
        let thread = std::thread::spawn(move || {
            tell_tid.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a test that waits");
            let (mut commands, mut returns) = (Commands::default(), Returns::default());
            commands.push(Command::EnterLooper);
            loop {
                if let Err(error) = driver.write_read(&mut commands, &[], Some(&mut returns)) {
                    let goes_on = error.errno() == Some(Errno::INTR);
                    error_sender.send(error).expect("a test that waits");
                    if goes_on {
                        continue;
                    }
                    return;
                }
                for item in &mut returns {
                    if let Return::Transaction(call) = item {
                        commands.push(Command::FreeBuffer(call.buffer));
                        commands.push(Command::Reply(TransactionData::new(1, b"")));
                    }
                }
            }
        });
        Self { tid: tid.recv_timeout(PATIENCE).expect("a thread"), errors, thread }
    }

    /// Whether it is in the system call that the filter suspends.
    fn is_in_seccomp(&self) -> bool {
        let call = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.tid));
        let number = call.ok().and_then(|call| call.split(' ').next()?.parse().ok());
        number == Some(libc::SYS_getppid)
    }

    /// Calls it until it sleeps in seccomp, which it does after a futex has woken it on another
    /// CPU.
    fn call_until_in_seccomp(&self, client: &Emulated) {
        let begin = Instant::now();
        loop {
            call(client);
            for _ in 0..10 {
                if self.is_in_seccomp() {
                    return;
                }
                std::thread::sleep(Duration::from_micros(100));
            }
            assert!(begin.elapsed() < PATIENCE, "it never sleeps in seccomp");
        }
    }

    fn error(&self) -> Error {
        self.errors.recv_timeout(PATIENCE).expect("an error")
    }
}

fn call(driver: &Emulated) {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::Transaction(TransactionData::new(1, b"x")));
    let answer = roundtrip_binder_driver::call(driver, &mut commands, &[b"x"], &mut returns)
        .expect("a living context");
    let Answer::Reply(reply) = answer else { panic!("{answer:?}") };
    commands.push(Command::FreeBuffer(reply.buffer));
    driver.write_read(&mut commands, &[], None).expect("a living context");
}

#[test]
fn calls_signals_and_the_end_of_the_context_wake_a_thread_in_seccomp() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return skip(Need::Machine, "there is one CPU");
    }
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let join = || Emulated::join_with(context.address(), 1 << 20, WakeUp::NoNewPrivileges);
    let (server, client) = (Arc::new(join().expect("the context")), join().expect("the context"));
    let wake_up = server.wake_up();
    if !wake_up.starts_with("on the caller's CPU") {
        // Expected only on an old kernel, or in a sandbox.
        let allowed = [
            "no seccomp user notification",
            "it needs Linux 6.6",
            "another seccomp",
            "its own seccomp filter",
        ];
        assert!(allowed.iter().any(|why| wake_up.contains(why)), "{wake_up}");
        return skip(Need::Machine, "no thread is woken on its caller's CPU here");
    }
    server.become_context_manager(0x100).expect("no manager");
    let looper = Looper::start(server);
    for _ in 0..20 {
        looper.call_until_in_seccomp(&client);
        signals::signal(looper.tid);
        assert_eq!(looper.error().errno(), Some(Errno::INTR));
    }
    // After these signals, the kernel restarts the suspended system call.
    for _ in 0..20 {
        looper.call_until_in_seccomp(&client);
        let before = signals::SIGNALS_HANDLED.load(Relaxed);
        signals::restarting_signal(looper.tid);
        let begin = Instant::now();
        while signals::SIGNALS_HANDLED.load(Relaxed) == before {
            assert!(begin.elapsed() < PATIENCE, "no thread handled the signal");
            std::thread::yield_now();
        }
        call(&client);
    }
    looper.call_until_in_seccomp(&client);
    assert!(looper.errors.try_recv().is_err());
    drop(context);
    assert!(matches!(looper.error(), Error::Ended { .. }));
    looper.thread.join().expect("no panic");
}
