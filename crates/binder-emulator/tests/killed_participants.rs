//! Servers and clients with synchronous wakeups, killed and stopped at random moments: the others
//! must continue.
//!
//! The participants are this test binary itself, started again with the one ignored test below. The
//! parent joins without a seccomp filter, because its children would inherit it. So both ways of
//! waking threads are tested together.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, Error, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};
use rustix::process::{Pid, Signal, kill_process};

const ADDRESS: &str = "ROUNDTRIP_TEST_CONTEXT";
const ROLE: &str = "ROUNDTRIP_TEST_ROLE";
/// Set to another number for a long run.
const ROUNDS: &str = "ROUNDTRIP_TEST_ROUNDS";
const CLIENTS: usize = 3;
const LOOPERS: usize = 3;
/// The byte that a participant writes when it is ready, and after each requested call.
const DONE: u8 = 1;

/// Calls the context manager once. Returns false if it is dead or dies.
fn call(driver: &Emulated, bytes: &[u8]) -> bool {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::Transaction(TransactionData::new(1, bytes)));
    match roundtrip_binder_driver::call(driver, &mut commands, &[bytes], &mut returns)
        .expect("a living context")
    {
        Answer::Reply(reply) => {
            assert_eq!(driver.received(reply.buffer, reply.data_size).as_deref(), Some(bytes));
            commands.push(Command::FreeBuffer(reply.buffer));
            driver.write_read(&mut commands, &[], None).expect("a living context");
            true
        }
        Answer::Dead => false,
        other => panic!("{other:?}"),
    }
}

fn call_until_answered(driver: &Emulated, bytes: &[u8]) {
    while !call(driver, bytes) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn serve(driver: &Emulated) {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let mut reply = Vec::new();
    while driver.write_read(&mut commands, &[&reply], Some(&mut returns)).is_ok() {
        for item in &mut returns {
            if let Return::Transaction(call) = item {
                reply = driver.received(call.buffer, call.data_size).expect("inside the area");
                commands.push(Command::FreeBuffer(call.buffer));
                commands.push(Command::Reply(TransactionData::new(1, &reply)));
            }
        }
    }
}

#[test]
#[ignore = "a participant: started by the other test"]
fn participant() {
    let (Ok(address), Ok(role)) = (std::env::var(ADDRESS), std::env::var(ROLE)) else { return };
    if role == "neighbour" {
        return call_beside_contexts_that_end();
    }
    let driver = Emulated::join_with(&address, 1 << 20, WakeUp::NoNewPrivileges).expect("the context");
    let driver = Arc::new(driver);
    let done = || std::io::stdout().write_all(&[DONE]).and_then(|()| std::io::stdout().flush());
    if role == "server" {
        // The supervisor may not have noticed the last one's death yet.
        while let Err(Error::ContextManagerTaken) = driver.become_context_manager(0x100) {
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 1..LOOPERS {
            let driver = Arc::clone(&driver);
            std::thread::spawn(move || serve(&driver));
        }
        done().expect("a parent");
        return serve(&driver);
    }
    let calls = Arc::new(AtomicU64::new(0));
    std::thread::spawn({
        let (driver, calls) = (Arc::clone(&driver), Arc::clone(&calls));
        move || {
            for size in [4, 5000, 64].into_iter().cycle() {
                call_until_answered(&driver, &vec![7; size]);
                calls.fetch_add(1, Relaxed);
            }
        }
    });
    // For each byte from the parent, this thread makes one call and the other thread several. Ends
    // with the parent.
    while done().is_ok() && std::io::stdin().read_exact(&mut [0]).is_ok() {
        let before = calls.load(Relaxed);
        call_until_answered(&driver, b"asked for");
        while calls.load(Relaxed) < before + 2 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Calls in one context, while this process also creates, uses and drops other contexts.
fn call_beside_contexts_that_end() {
    const CONTEXTS: u32 = 200;
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let join = || Emulated::join_with(context.address(), 1 << 20, WakeUp::NoNewPrivileges);
    let (server, client) = (join().expect("the context"), join().expect("the context"));
    server.become_context_manager(0x100).expect("no manager");
    let calls = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || serve(&server));
    std::thread::spawn({
        let calls = Arc::clone(&calls);
        move || {
            loop {
                call_until_answered(&client, b"beside");
                calls.fetch_add(1, Relaxed);
            }
        }
    });
    for _ in 0..CONTEXTS {
        let before = calls.load(Relaxed);
        let other = Context::create_unlisted(Profile::Ack).expect("a context");
        let driver = Emulated::join_with(other.address(), 1 << 20, WakeUp::NoNewPrivileges);
        drop(other);
        drop(driver);
        while calls.load(Relaxed) < before + 2 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    std::io::stdout().write_all(&[DONE]).and_then(|()| std::io::stdout().flush()).expect("a parent");
}

struct Participant {
    child: Child,
    role: &'static str,
    ask: ChildStdin,
    done: Receiver<Instant>,
}

impl Participant {
    fn start(address: &str, role: &'static str) -> Self {
        let mut child = Process::new(std::env::current_exe().expect("this test's path"))
            .args(["--exact", "participant", "--ignored", "--nocapture"])
            .env(ADDRESS, address)
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test can be started again");
        let (ask, mut output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, done) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while output.read_exact(&mut byte).is_ok() {
                // The participant's test harness also writes text to this pipe.
                if byte == [DONE] {
                    let _ = sender.send(Instant::now());
                }
            }
        });
        Self { child, role, ask, done }
    }

    fn wait_until_done(&self, what: &str) {
        let done = self.done.recv_timeout(Duration::from_secs(20));
        done.unwrap_or_else(|_| panic!("{what}: the {} {} hangs or is gone", self.role, self.child.id()));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a living child");
    }

    fn kill(&mut self) {
        self.child.kill().expect("a living child");
        self.child.wait().expect("its end");
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn killed_or_stopped_participants_do_not_keep_others_asleep() {
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(120_u64);
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let mut participants = vec![Participant::start(context.address(), "server")];
    participants.extend((0..CLIENTS).map(|_| Participant::start(context.address(), "client")));
    let own = Emulated::join_with(context.address(), 1 << 20, WakeUp::Futex).expect("the context");
    assert!(own.wake_up().contains("futex"), "{:?}", own.wake_up());
    for participant in &participants {
        participant.wait_until_done("at the start");
    }
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 6_000));
        let chosen = (random >> 20) as usize % participants.len();
        let victim = &mut participants[chosen];
        let what = if (random >> 30).is_multiple_of(4) {
            // Interrupts its waits, which then start again.
            victim.signal(Signal::STOP);
            std::thread::sleep(Duration::from_micros((random >> 40) % 3_000));
            victim.signal(Signal::CONT);
            format!("round {round}, stopped a {}", victim.role)
        } else {
            victim.kill();
            let role = victim.role;
            *victim = Participant::start(context.address(), role);
            victim.wait_until_done("at its start");
            format!("round {round}, killed a {role}")
        };
        for client in participants.iter_mut().filter(|participant| participant.role == "client") {
            client.ask.write_all(&[0]).expect("a living client");
        }
        for client in participants.iter().filter(|participant| participant.role == "client") {
            client.wait_until_done(&what);
        }
        call_until_answered(&own, b"by the parent");
    }
}

#[test]
fn a_context_that_ends_loses_no_wakeup_of_another_context_of_the_process() {
    let neighbour = Participant::start("", "neighbour");
    neighbour.wait_until_done("beside contexts that end");
}
