//! Overwrites words in the memory of a context, between the commands and reads of two of its
//! processes. Every call must still return, with a result or an error, and the context must end.
//! The word of the lock is not overwritten: waiting for it takes real time
//! (`tests/faults/stuck.rs`).

#![no_main]

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use libfuzzer_sys::fuzz_target;
use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};

const AREA: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// The input, byte by byte; zeroes after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|_| self.byte()))
    }
}

fn descriptors() -> BTreeSet<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The memory of the only context.
fn memory() -> File {
    let is_memory = |number: &RawFd| {
        std::fs::read_link(format!("/proc/self/fd/{number}"))
            .is_ok_and(|to| to.to_string_lossy().contains("memfd:roundtrip-binder"))
    };
    let number = descriptors().into_iter().find(is_memory).expect("a context");
    File::options().read(true).write(true).open(format!("/proc/self/fd/{number}")).expect("its memory")
}

/// The offsets of the pages of control words that are in use.
fn pages(memory: &File) -> Vec<u64> {
    let end = memory.metadata().expect("a file").size() as i64;
    let seek = |from: i64, whence| {
        // SAFETY: the descriptor is open; no memory is passed.
        unsafe { libc::lseek(memory.as_raw_fd(), from, whence) }
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < end && found.len() < 256 {
        let data = seek(at, libc::SEEK_DATA);
        if data < 0 {
            break;
        }
        at = seek(data, libc::SEEK_HOLE);
        found.extend((data as u64..at as u64).step_by(PAGE as usize));
    }
    found
}

fn overwrite(memory: &File, input: &mut Input<'_>) {
    let pages = pages(memory);
    let place = |input: &mut Input<'_>| {
        let page = pages[usize::from(input.byte()) % pages.len()];
        page + 8 * (u64::from(input.byte()) | u64::from(input.byte() & 1) << 8)
    };
    let at = place(input);
    let word = match input.byte() % 4 {
        0 => u64::from(input.byte()),
        1 => u64::MAX - u64::from(input.byte()),
        2 => {
            let mut word = [0; 8];
            memory.read_exact_at(&mut word, place(input)).expect("inside");
            u64::from_ne_bytes(word)
        }
        _ => input.word(),
    };
    if at != 0 {
        memory.write_all_at(&word.to_ne_bytes(), at).expect("inside");
    }
}

/// Reads once without waiting, replies to calls, and frees received buffers.
fn read(driver: &Emulated, returns: &mut Returns) {
    let mut commands = Commands::default();
    if driver.write_read(&mut commands, &[], Some(returns)).is_err() {
        return;
    }
    for item in returns.by_ref() {
        match item {
            Return::Transaction(data) | Return::Reply(data) => {
                let bytes = driver.received(data.buffer, data.data_size).unwrap_or_default();
                std::hint::black_box(bytes.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
                commands.push(Command::FreeBuffer(data.buffer));
                if data.flags & TF_ONE_WAY == 0 && matches!(item, Return::Transaction(_)) {
                    commands.push(Command::Reply(TransactionData::default()));
                }
            }
            Return::Increfs(node) => commands.push(Command::IncrefsDone(node)),
            Return::Acquire(node) => commands.push(Command::AcquireDone(node)),
            Return::DeadBinder(cookie) => commands.push(Command::DeadBinderDone(cookie)),
            _ => {}
        }
    }
    let _ = driver.write_read(&mut commands, &[], None);
}

/// A call with all kinds of objects, or with some.
fn call(driver: &Emulated, input: &mut Input<'_>) {
    let what = input.byte();
    let file = File::open("/dev/null").expect("a file");
    let fd = file.as_raw_fd().cast_unsigned();
    let numbers = fd.to_ne_bytes();
    let mut data = vec![7; 8 * usize::from(input.byte() % 4)];
    if what & 2 != 0 {
        data.resize(5000, 1);
    }
    let mut offsets = Vec::new();
    let mut put = |object: &[u8]| {
        offsets.extend((data.len() as u64).to_ne_bytes());
        data.extend(object);
    };
    if what & 4 != 0 {
        let node =
            FlatBinderObject { kind: BINDER_TYPE_BINDER, binder: u64::from(what), flags: 0x100, cookie: 0 };
        put(&node.to_bytes());
        put(&FlatBinderObject { kind: BINDER_TYPE_WEAK_BINDER, ..node }.to_bytes());
    }
    let mut buffers_size = 0;
    if what & 8 != 0 {
        put(&FdObject { kind: BINDER_TYPE_FD, fd, ..Default::default() }.to_bytes());
        let parent = if what & 4 != 0 { 3 } else { 1 };
        let buffer = numbers.as_ptr() as u64;
        put(&BufferObject { kind: BINDER_TYPE_PTR, buffer, length: 4, ..Default::default() }.to_bytes());
        put(&FdArrayObject { kind: BINDER_TYPE_FDA, count: 1, parent, ..Default::default() }.to_bytes());
        buffers_size = 8;
    }
    let mut commands = Commands::default();
    commands.push(Command::TransactionSg(TransactionDataSg {
        target: u64::from(what >> 5),
        flags: if what & 1 != 0 { TF_ONE_WAY } else { TF_ACCEPT_FDS },
        data_size: data.len() as u64,
        buffer: data.as_ptr() as u64,
        offsets_size: offsets.len() as u64,
        offsets: offsets.as_ptr() as u64,
        buffers_size,
        ..Default::default()
    }));
    let _ = driver.write_read(&mut commands, &[&data, &offsets, &numbers], None);
}

/// A command about handles, nodes or buffers.
fn command(driver: &Emulated, input: &mut Input<'_>) {
    let (kind, number) = (input.byte(), input.byte());
    let handle = u32::from(number % 8);
    let named = PtrCookie { ptr: u64::from(number), cookie: 0 };
    let asked = HandleCookie { handle, cookie: u64::from(number) };
    let mut commands = Commands::default();
    commands.push(match kind % 14 {
        0 => Command::Increfs(handle),
        1 => Command::Acquire(handle),
        2 => Command::Release(handle),
        3 => Command::Decrefs(handle),
        4 => Command::IncrefsDone(named),
        5 => Command::AcquireDone(named),
        6 => Command::RegisterLooper,
        7 => Command::EnterLooper,
        8 => Command::ExitLooper,
        9 => Command::RequestDeathNotification(asked),
        10 => Command::ClearDeathNotification(asked),
        11 => Command::DeadBinderDone(asked.cookie),
        12 => Command::FreeBuffer(input.word()),
        _ => Command::Reply(TransactionData::default()),
    });
    let _ = driver.write_read(&mut commands, &[], None);
}

fn join(context: &Context) -> Option<Emulated> {
    let driver = Emulated::join_with(context.address(), AREA, WakeUp::Futex).ok()?;
    driver.set_nonblocking(true);
    Some(driver)
}

fn play(input: &mut Input<'_>) {
    let context = Context::create(Profile::Ack).expect("a context");
    let memory = memory();
    let mut joined = [join(&context), join(&context)];
    let mut returns = Returns::with_room(1024);
    if let Some(manager) = &joined[0] {
        manager.become_context_manager(0x100).expect("no manager yet");
    }
    while !input.0.is_empty() {
        let what = input.byte();
        let who = usize::from(what & 1);
        let Some(driver) = &joined[who] else {
            joined[who] = join(&context);
            if joined[who].is_none() {
                return;
            }
            continue;
        };
        match what >> 1 & 15 {
            0..=4 => overwrite(&memory, input),
            5..=7 => call(driver, input),
            8 | 9 => read(driver, &mut returns),
            10 => command(driver, input),
            11 => {
                let _ = driver.become_context_manager(0x100);
                let _ = driver.node_after(0);
                let _ = driver.node_counts(1);
                let _ = (driver.extended_error(), driver.limits());
            }
            12 => driver.interrupt(),
            13 => driver.exit_thread(),
            14 => {
                let _ = driver.set_frozen(std::process::id(), what & 32 != 0, 0);
                let _ = driver.frozen_info(std::process::id());
                std::hint::black_box((context.state(), driver.state(), driver.free_area_bytes()));
                std::hint::black_box(context.usage().expect("its size"));
            }
            _ => joined[who] = None,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let before = descriptors();
    play(&mut Input(input));
    // Close the descriptors that the driver delivered and no participant took.
    for &left in descriptors().difference(&before) {
        if std::fs::read_link(format!("/proc/self/fd/{left}")).is_ok_and(|to| to.as_os_str() == "/dev/null") {
            // SAFETY: the driver opened it for a participant that has closed.
            drop(unsafe { OwnedFd::from_raw_fd(left) });
        }
    }
});
