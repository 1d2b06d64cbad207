//! Garbage in the memory that participants share: those who meet it get wrong answers or errors, never crash, and all of
//! them end with their context.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binder_driver::emulated::{Context, Emulated};
use binder_driver::uapi::TransactionData;
use binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};

use crate::alone::alone;
use crate::message::Message;
use crate::random::Random;
use crate::stepping;

const PEER: &str = "a peer amid garbage";

/// What is waited for before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The driver's threads of this process that have panicked.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// In a peer: calls and serves whatever comes until the context has gone, and expects nothing. False for what is no such peer.
pub(crate) fn play(scenario: &str, address: &str) -> bool {
    if scenario != PEER {
        return false;
    }
    // Refused when the context is full of garbage already.
    let Ok(driver) = Emulated::join(address, 128 << 10) else { return true };
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
    if serves {
        commands.push(Command::EnterLooper);
    }
    for call in calls.iter().cycle() {
        if !serves {
            commands.push(Command::TransactionSg(call.describe(0, 1, u32::from(call.memory().len() > 2))));
        }
        // A call that is lost is not waited for by this thread alone: others go on.
        match driver.write_read(&mut commands, &call.memory(), Some(&mut returns)) {
            Ok(()) => {}
            Err(error) if error.errno() == Some(Errno::NODEV) => return,
            Err(_) => commands.clear(),
        }
        for item in returns.by_ref() {
            match item {
                Return::Transaction(told) | Return::Reply(told) => {
                    if let Some(bytes) = driver.received(told.buffer, told.data_size) {
                        std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
                    }
                    commands.push(Command::FreeBuffer(told.buffer));
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
}

/// The memory of the only context that this process keeps.
fn memory() -> File {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = descriptors.map(|entry| entry.expect("an entry").path());
    let memory = |path: &std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:roundtrip-binder"))
    };
    let path = paths.into_iter().find(memory).expect("a context");
    File::options().read(true).write(true).open(path).expect("the context's memory")
}

/// The pages that are in use: where each begins.
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

/// A word that may be worse than others: a small number, one that is elsewhere, or anything.
fn garbage(memory: &mut File, pages: &[u64], random: &mut Random) -> u64 {
    match random.below(5) {
        0 => 0,
        1 => random.below(64),
        2 => u64::MAX - random.below(2),
        3 => random.next() << 11 | random.next() >> 30,
        _ => {
            let mut word = [0; 8];
            let at = pages[random.below(pages.len() as u64) as usize] + 8 * random.below(512);
            memory.seek(SeekFrom::Start(at)).expect("inside");
            memory.read_exact(&mut word).expect("inside");
            u64::from_ne_bytes(word)
        }
    }
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
            let _ = peer.kill();
            panic!("round {round}: a peer goes on without its context");
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
        let context = Context::create(Profile::Ack).expect("a context");
        let start = || {
            stepping::start(PEER, context.address())
                .arg("--nocapture")
                .stderr(Stdio::piped())
                .spawn()
                .expect("a peer")
        };
        let mut peers = [start(), start()];
        std::thread::sleep(Duration::from_millis(10 + random.below(10)));
        let mut memory = memory();
        let pages = pages(&mut memory);
        for word in 0..1 + random.below(32) {
            // The first page holds what everything depends on.
            let page =
                if random.below(4) == 0 { 0 } else { pages[random.below(pages.len() as u64) as usize] };
            let at = page + 8 * if page == 0 { (round + word) % 32 } else { random.below(512) };
            let garbage = garbage(&mut memory, &pages, &mut random);
            memory.write_all_at(&garbage.to_ne_bytes(), at).expect("inside");
        }
        std::thread::sleep(Duration::from_millis(random.below(10)));
        // A death amid garbage: the keeper meets it too.
        let killed = random.below(2) == 0;
        if killed {
            peers[1].kill().expect("a child");
            peers[1].wait().expect("its end");
            std::thread::sleep(Duration::from_millis(2));
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
fn garbage_in_shared_memory_crashes_nobody_and_holds_nobody_when_the_context_has_ended() {
    let _turn = alone();
    scribble(15, 3);
}

#[test]
#[ignore = "takes minutes: cargo xtask faults"]
fn much_garbage_in_shared_memory_crashes_nobody_and_holds_nobody_when_the_context_has_ended() {
    let _turn = alone();
    scribble(2000, 4);
}
