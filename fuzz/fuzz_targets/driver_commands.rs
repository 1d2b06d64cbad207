//! Sends arbitrary commands, well-formed or not, and arbitrary memory to a second process, which
//! may be frozen. The driver must always answer and still serve the second process. When the first
//! process closes, the driver must release everything that it held, including descriptors.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};

const AREA: u64 = 64 << 10;

fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    CONTEXT.get_or_init(|| Context::create(Profile::Ack).expect("a context"))
}

/// Waits until this process has only the descriptors that it had without participants. The
/// supervisor closes its ends of the connections with a short delay. Pipes do not count: when
/// libFuzzer first prints a function's name, the sanitizer starts a symbolizer and keeps one end of
/// two pipes.
fn await_quiet() {
    static QUIET: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let open = || -> Vec<_> {
        let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.filter(|link| !link.to_string_lossy().starts_with("pipe:")).collect()
    };
    let quiet = QUIET.get_or_init(|| {
        std::thread::sleep(Duration::from_millis(300));
        open()
    });
    let begin = Instant::now();
    while open().len() != quiet.len() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?} are open, not {quiet:?}", open());
        std::thread::yield_now();
    }
}

/// Closes received single descriptors. The driver closes those of arrays with their buffer.
fn close_received(driver: &Emulated, data: &TransactionData) {
    let bytes = driver.received(data.buffer, data.data_size).expect("inside the area");
    let offsets = driver.received(data.offsets, data.offsets_size).expect("inside the area");
    for offset in offsets.chunks_exact(8).map(u64::take) {
        let object = usize::try_from(offset).ok().and_then(|at| FdObject::from_bytes(bytes.get(at..)?));
        if let Some(object) = object.filter(|object| object.kind == BINDER_TYPE_FD) {
            drop(driver.take_fd(object.fd).expect("the driver has opened it"));
        }
    }
}

/// Reads without waiting, and frees every received buffer.
fn drain(driver: &Emulated, returns: &mut Returns) {
    for _ in 0..64 {
        driver.interrupt();
        let mut commands = Commands::default();
        driver.write_read(&mut commands, &[], Some(returns)).expect("a read that does not wait");
        let items: Vec<Return> = returns.by_ref().filter(|item| *item != Return::Noop).collect();
        if items.is_empty() {
            return;
        }
        for item in items {
            if let Return::Transaction(data) | Return::Reply(data) = item {
                let bytes = driver.received(data.buffer, data.data_size).expect("inside the area");
                std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
                close_received(driver, &data);
                commands.push(Command::FreeBuffer(data.buffer));
                if data.flags & 1 == 0 && matches!(item, Return::Transaction(_)) {
                    commands.push(Command::Reply(TransactionData::default()));
                }
            }
        }
        driver.write_read(&mut commands, &[], None).expect("buffers that were received");
    }
}

/// A byte below the number of known commands stands for that command's number, and its payload
/// follows. Other bytes stand for themselves. So the input need not guess 32-bit numbers.
fn with_known_numbers(input: &[u8]) -> Vec<u8> {
    const KNOWN: [u32; 17] = [
        BC_TRANSACTION,
        BC_REPLY,
        BC_TRANSACTION_SG,
        BC_REPLY_SG,
        BC_FREE_BUFFER,
        BC_INCREFS,
        BC_ACQUIRE,
        BC_RELEASE,
        BC_DECREFS,
        BC_INCREFS_DONE,
        BC_ACQUIRE_DONE,
        BC_REGISTER_LOOPER,
        BC_ENTER_LOOPER,
        BC_EXIT_LOOPER,
        BC_REQUEST_DEATH_NOTIFICATION,
        BC_CLEAR_DEATH_NOTIFICATION,
        BC_DEAD_BINDER_DONE,
    ];
    let mut commands = Vec::new();
    let mut left = input;
    while let Some((&first, rest)) = left.split_first() {
        left = rest;
        let Some(&number) = KNOWN.get(usize::from(first)) else {
            commands.push(first);
            continue;
        };
        commands.extend(number.to_ne_bytes());
        let (payload, rest) = left.split_at(payload_size(number).min(left.len()));
        commands.extend(payload);
        left = rest;
    }
    commands
}

fuzz_target!(|input: (Vec<u8>, Vec<u8>)| {
    let (bytes, arena) = input;
    play(&bytes, arena);
    await_quiet();
});

fn play(bytes: &[u8], mut arena: Vec<u8>) {
    let server = Emulated::join(context().address(), AREA).expect("a server");
    server.become_context_manager(0x900).expect("the last one has closed");
    let fuzzed = Emulated::join(context().address(), AREA).expect("a participant");
    // Both have this process's pid.
    let freeze = |frozen: bool| fuzzed.set_frozen(std::process::id(), frozen, 0);
    if arena.last().is_some_and(|last| last % 4 == 0) {
        freeze(true).expect("nothing was sent yet");
    }
    let mut returns = Returns::with_room(4096);

    let mut commands = with_known_numbers(bytes);
    // Types of objects that the input need not guess: seven bytes 0x56 and which one.
    const TYPES: [u32; 7] = [
        BINDER_TYPE_BINDER,
        BINDER_TYPE_WEAK_BINDER,
        BINDER_TYPE_HANDLE,
        BINDER_TYPE_WEAK_HANDLE,
        BINDER_TYPE_FD,
        BINDER_TYPE_FDA,
        BINDER_TYPE_PTR,
    ];
    for at in 0..arena.len().saturating_sub(7) {
        if arena[at..at + 7] == [0x56; 7] {
            let kind = u64::from(TYPES[usize::from(arena[at + 7]) % TYPES.len()]);
            arena[at..at + 8].copy_from_slice(&kind.to_ne_bytes());
        }
    }
    // Addresses that the input cannot know: seven bytes 0x55 and an offset stand for a place in the
    // arena.
    let base = arena.as_ptr() as u64;
    for memory in [&mut commands, &mut arena] {
        for at in 0..memory.len().saturating_sub(7) {
            if memory[at..at + 7] == [0x55; 7] {
                let offset = u64::from(memory[at + 7]);
                memory[at..at + 8].copy_from_slice(&(base + offset).to_ne_bytes());
            }
        }
    }
    let mut queued = Commands::default();
    queued.raw(&commands);
    for _ in 0..64 {
        let result = fuzzed.write_read(&mut queued, &[&arena], None);
        let error = fuzzed.extended_error().expect("an answer");
        assert!(error.command == BR_OK || error.id != 0);
        drain(&server, &mut returns);
        drain(&fuzzed, &mut returns);
        if queued.is_empty() || result.is_err() {
            break;
        }
    }
    freeze(false).expect("two that are open");
    drop(fuzzed);
    drain(&server, &mut returns);
    assert_eq!(server.free_area_bytes(), AREA, "a closed process left buffers behind");
}
