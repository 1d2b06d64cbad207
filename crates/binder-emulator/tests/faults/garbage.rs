//! Garbage in the participants' shared memory: participants may get wrong results or errors, but
//! never crash, and all of them end with their context.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};

use crate::alone::alone;
use crate::message::Message;
use crate::random::Random;
use crate::stepping;

const PEER: &str = "a peer amid garbage";

const AREA: u64 = 128 << 10;

/// The longest wait before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The driver's threads of this process that have panicked.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// In a peer: makes and serves calls until the context has ended, and expects no results. Returns
/// false if this process is not such a peer.
pub(crate) fn play(scenario: &str, address: &str) -> bool {
    if scenario != PEER {
        return false;
    }
    // The context may already be full of garbage, so joining may fail.
    let Ok(driver) = Emulated::join(address, AREA) else { return true };
    let driver = Arc::new(driver);
    let _ = driver.become_context_manager(0x100);
    let serving = std::thread::spawn({
        let driver = Arc::clone(&driver);
        move || act(&driver, true)
    });
    act(&driver, false);
    serving.join().expect("no panic");
    true
}

fn act(driver: &Emulated, serves: bool) {
    let (mut commands, mut returns) = (Commands::default(), Returns::with_room(1024));
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let fd = std::os::fd::AsFd::as_fd(&reader);
    let calls = [
        Message::plain(b"plain"),
        Message::plain(&[1; 5000]),
        Message::default().node(1).weak_node(2),
        Message::default().node(3).descriptor(fd).array(&[fd]),
    ];
    let as_sent: Vec<Vec<u8>> = calls.iter().map(|call| call.memory().concat()).collect();
    // All received data is in one area of this length, at an unknown address.
    let mut window: Option<(u64, u64)> = None;
    if serves {
        commands.push(Command::EnterLooper);
    }
    for call in calls.iter().cycle() {
        if !serves {
            commands.push(Command::TransactionSg(call.describe(0, 1, u32::from(call.memory().len() > 2))));
        }
        // If a call is lost, only this thread waits for it. Others continue.
        match driver.write_read(&mut commands, &call.memory(), Some(&mut returns)) {
            Ok(()) => {}
            Err(error) if error.errno() == Some(Errno::NODEV) => break,
            Err(_) => commands.clear(),
        }
        for item in returns.by_ref() {
            match item {
                Return::Transaction(transaction) | Return::Reply(transaction) => {
                    if let Some(bytes) = driver.received(transaction.buffer, transaction.data_size) {
                        std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
                        let (begin, end) = (transaction.buffer, transaction.buffer + transaction.data_size);
                        let (first, last) = window.unwrap_or((begin, end));
                        window = Some((first.min(begin), last.max(end)));
                    }
                    commands.push(Command::FreeBuffer(transaction.buffer));
                    if matches!(item, Return::Transaction(_)) {
                        commands.push(Command::Reply(TransactionData::default()));
                    }
                }
                Return::Increfs(node) => commands.push(Command::IncrefsDone(node)),
                Return::Acquire(node) => commands.push(Command::AcquireDone(node)),
                _ => {}
            }
        }
    }
    let (first, last) = window.unwrap_or_default();
    assert!(last - first <= AREA, "what was received lies between {first:#x} and {last:#x}");
    let after: Vec<Vec<u8>> = calls.iter().map(|call| call.memory().concat()).collect();
    assert!(as_sent == after, "another process has written to this process's own memory");
}

/// The memory of the only context in this process.
pub(crate) fn memory() -> File {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = descriptors.map(|entry| entry.expect("an entry").path());
    let memory = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:roundtrip-binder"))
    };
    let path = paths.into_iter().find(memory).expect("a context");
    File::options().read(true).write(true).open(path).expect("the context's memory")
}

/// The offsets of the pages in use.
fn pages(memory: &mut File) -> Vec<u64> {
    const PAGE: u64 = 4096;
    let mut found = Vec::new();
    let mut at = 0;
    // lseek(2) with SEEK_DATA and SEEK_HOLE.
    while let Ok(data) = rustix::fs::seek(&*memory, rustix::fs::SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&*memory, rustix::fs::SeekFrom::Hole(data)).expect("an end");
        found.extend((data..hole).step_by(PAGE as usize));
        at = hole;
    }
    found
}

/// Writes arbitrary words to arbitrary places.
struct Scribbler {
    memory: File,
    random: Random,
}

impl Scribbler {
    /// Writes some words. The first page, on which everything depends, gets more of them than other
    /// pages.
    fn scribble(&mut self, round: u64) {
        let pages = pages(&mut self.memory);
        for word in 0..1 + self.random.below(32) {
            let first = self.random.below(4) == 0;
            let page = if first { 0 } else { self.one_of(&pages) };
            let at = page + 8 * if page == 0 { (round + word) % 32 } else { self.random.below(512) };
            let garbage = self.garbage(&pages);
            self.memory.write_all_at(&garbage.to_ne_bytes(), at).expect("inside");
        }
    }

    /// Writes until it is stopped.
    fn go_on(mut self) -> (Arc<AtomicBool>, JoinHandle<()>) {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for round in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                self.scribble(round);
            }
        });
        (stop, thread)
    }

    fn one_of(&mut self, pages: &[u64]) -> u64 {
        pages[self.random.below(pages.len() as u64) as usize]
    }

    /// A word that is likely to be harmful: a small number, a copy of another word, or any value.
    fn garbage(&mut self, pages: &[u64]) -> u64 {
        match self.random.below(5) {
            0 => 0,
            1 => self.random.below(64),
            2 => u64::MAX - self.random.below(2),
            3 => self.random.next() << 11 | self.random.next() >> 30,
            _ => {
                let mut word = [0; 8];
                let at = self.one_of(pages) + 8 * self.random.below(512);
                self.memory.read_exact_at(&mut word, at).expect("inside");
                u64::from_ne_bytes(word)
            }
        }
    }
}

/// The state of each thread of a process: its name, its state, and its system call with the
/// arguments.
fn threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("/proc");
    let state_of = |task: std::path::PathBuf| {
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let state =
            read("status").lines().find(|line| line.starts_with("State")).unwrap_or_default().to_owned();
        format!("{} {state} {}", read("comm").trim_end(), read("syscall"))
    };
    tasks.map(|task| state_of(task.expect("a thread").path())).collect()
}

fn ended(peer: &mut Child, round: u64) {
    let begin = Instant::now();
    loop {
        if let Some(status) = peer.try_wait().expect("a child") {
            let mut said = String::new();
            let _ = peer.stderr.take().expect("a pipe").read_to_string(&mut said);
            assert!(status.success(), "round {round}: a peer ended with {status}:\n{said}");
            return;
        }
        if begin.elapsed() > PATIENCE {
            let threads = threads(peer.id());
            let _ = peer.kill();
            panic!("round {round}: a peer goes on without its context:\n{threads}");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn scribble(rounds: u64, seed: u64) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name().is_some_and(|name| name.starts_with("binder-")) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        before(panic);
    }));
    let mut random = Random::from(seed);
    for round in 0..rounds {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        let start = || {
            stepping::start(PEER, context.address())
                .arg("--nocapture")
                .stderr(Stdio::piped())
                .spawn()
                .expect("a peer")
        };
        let mut peers = [start(), start()];
        std::thread::sleep(Duration::from_millis(10 + random.below(10)));
        let scribbler = Scribbler { memory: memory(), random: Random::from(random.next()) };
        // Writes continuously, or once.
        let scribbling = match random.below(4) {
            0 => Some(scribbler.go_on()),
            _ => {
                let mut scribbler = scribbler;
                scribbler.scribble(round);
                None
            }
        };
        std::thread::sleep(Duration::from_millis(random.below(10)));
        // Kills a process, so that the supervisor also reads the garbage.
        let killed = random.below(2) == 0;
        if killed {
            peers[1].kill().expect("a child");
            peers[1].wait().expect("its end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let looks = context.state().len() + context.usage().map_or(0, |usage| usage.work as usize);
        std::hint::black_box(looks);
        if let Some((stop, thread)) = scribbling {
            stop.store(true, Ordering::Relaxed);
            thread.join().expect("no panic");
        }
        drop(context);
        ended(&mut peers[0], round);
        if !killed {
            ended(&mut peers[1], round);
        }
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "round {round}: a thread of the driver panicked");
    }
}

#[test]
fn garbage_in_shared_memory_crashes_and_blocks_no_participant() {
    let _turn = alone();
    scribble(15, 3);
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn much_garbage_in_shared_memory_crashes_and_blocks_no_participant() {
    let _turn = alone();
    let given = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    scribble(given("ROUNDS").unwrap_or(2000), given("SEED").unwrap_or(4));
}

#[test]
fn only_descriptors_that_the_driver_delivered_can_be_taken() {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let _turn = alone();
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let driver = Emulated::join(context.address(), AREA).expect("a receiver");
    driver.become_context_manager(0x100).expect("no manager yet");
    let sender = Emulated::join(context.address(), AREA).expect("a sender");
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let own = reader.as_raw_fd().unsigned_abs();
    let message = Message::default().descriptor(reader.as_fd());
    let (mut commands, mut returns) = (Commands::default(), Returns::with_room(1024));
    commands.push(Command::TransactionSg(message.describe(0, 1, roundtrip_binder_driver::uapi::TF_ONE_WAY)));
    sender.write_read(&mut commands, &message.memory(), Some(&mut returns)).expect("it is taken");
    commands.push(Command::EnterLooper);
    let transaction = loop {
        driver.write_read(&mut commands, &[], Some(&mut returns)).expect("a transaction");
        let items = returns.by_ref();
        let transaction = items.find_map(|item| {
            if let Return::Transaction(transaction) = item { Some(transaction) } else { None }
        });
        if let Some(transaction) = transaction {
            break transaction;
        }
    };
    let data = driver.received(transaction.buffer, transaction.data_size).expect("inside the area");
    let brought = roundtrip_binder_driver::uapi::FdObject::from_bytes(&data).expect("an object").fd;
    drop(driver.duplicate_fd(brought).expect("the driver has opened it"));
    for foreign in [own, u32::MAX] {
        assert_eq!(driver.duplicate_fd(foreign).err(), Some(roundtrip_binder_driver::Errno::BADF));
        assert!(driver.take_fd(foreign).is_none());
    }
    let taken = driver.take_fd(brought).expect("the driver has opened it");
    assert_eq!(taken.as_raw_fd().unsigned_abs(), brought);
    assert!(driver.take_fd(brought).is_none() && driver.duplicate_fd(brought).is_err());
}
