#![allow(unsafe_code)]
//! Processes killed at a random moment while descriptors travel to and from them: none stays open anywhere.
//!
//! The victims are this test binary itself, started again with the one ignored test below. Unsafe: descriptors that the
//! driver has opened for this process come as numbers.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use binder_driver::emulated::{Context, Emulated};
use binder_driver::uapi::*;
use binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const ADDRESS: &str = "ROUNDTRIP_TEST_CONTEXT";
const AREA: u64 = 256 << 10;
const KILLS: u64 = 100;

/// Replies with a descriptor of the test's pipe.
const GIVE: u32 = 1;
/// Comes with descriptors, and is answered with one.
const EXCHANGE: u32 = 2;
/// Oneway, with a descriptor.
const DROP: u32 = 3;
/// Comes with a node, which is sent oneway calls with descriptors.
const SEND_ME: u32 = 4;

/// Data with one descriptor, an array of two in a buffer of its own, and perhaps a node.
struct Sent {
    data: Vec<u8>,
    offsets: Vec<u8>,
    array: Vec<u8>,
}

impl Sent {
    fn with(fd: u32, node: Option<u64>) -> Self {
        let array: Vec<u8> = [fd, fd].iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        let mut sent = Self { data: Vec::new(), offsets: Vec::new(), array };
        let (buffer, length) = (sent.array.as_ptr() as u64, 8);
        sent.push(&FdObject { kind: BINDER_TYPE_FD, fd, ..Default::default() }.to_bytes());
        sent.push(&BufferObject { kind: BINDER_TYPE_PTR, buffer, length, ..Default::default() }.to_bytes());
        sent.push(
            &FdArrayObject { kind: BINDER_TYPE_FDA, count: 2, parent: 1, ..Default::default() }.to_bytes(),
        );
        if let Some(binder) = node {
            let flags = FLAT_BINDER_FLAG_ACCEPTS_FDS;
            sent.push(&FlatBinderObject { kind: BINDER_TYPE_BINDER, flags, binder, cookie: 0 }.to_bytes());
        }
        sent
    }

    fn push(&mut self, object: &[u8]) {
        self.offsets.extend((self.data.len() as u64).to_ne_bytes());
        self.data.extend(object);
    }

    fn describe(&self, target: u32, code: u32, flags: u32) -> TransactionDataSg {
        TransactionDataSg {
            target: target.into(),
            code,
            flags,
            data_size: self.data.len() as u64,
            buffer: self.data.as_ptr() as u64,
            offsets_size: self.offsets.len() as u64,
            offsets: self.offsets.as_ptr() as u64,
            buffers_size: 8,
            ..Default::default()
        }
    }

    fn memory(&self) -> [&[u8]; 3] {
        [&self.data, &self.offsets, &self.array]
    }
}

/// The single descriptor that came with a transaction; those of the array end with its buffer.
fn received(driver: &Emulated, data: &TransactionData) -> OwnedFd {
    let bytes = driver.received(data.buffer, data.data_size).expect("inside the area");
    let fd = FdObject::from_bytes(bytes).expect("a descriptor").fd.cast_signed();
    // SAFETY: the driver has opened it for this process, and nothing else in it knows the number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Calls the context manager; gives the descriptor of the reply.
fn call(driver: &Emulated, sent: &Sent, code: u32, flags: u32) -> Option<OwnedFd> {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::TransactionSg(sent.describe(0, code, flags)));
    loop {
        driver.write_read(&mut commands, &sent.memory(), Some(&mut returns)).expect("a driver");
        for item in &mut returns {
            match item {
                Return::Reply(reply) => {
                    let fd = (reply.offsets_size > 0).then(|| received(driver, &reply));
                    commands.push(Command::FreeBuffer(reply.buffer));
                    driver.write_read(&mut commands, &[], None).expect("a driver");
                    return fd;
                }
                Return::TransactionComplete if flags & TF_ONE_WAY != 0 => return None,
                Return::DeadReply | Return::FailedReply => panic!("{item:?}"),
                _ => {}
            }
        }
    }
}

#[test]
#[ignore = "a victim: started by the other test"]
fn victim() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let driver = Emulated::join(&address, AREA).expect("the context");
    let nothing = Sent { data: Vec::new(), offsets: Vec::new(), array: vec![0; 8] };
    let given = call(&driver, &nothing, GIVE, TF_ACCEPT_FDS).expect("a descriptor");
    let fd = given.as_raw_fd().cast_unsigned();
    // What is sent to this node stays unread.
    call(&driver, &Sent::with(fd, Some(1)), SEND_ME, 0);
    let sent = Sent::with(fd, None);
    loop {
        drop(call(&driver, &sent, EXCHANGE, TF_ACCEPT_FDS));
        call(&driver, &sent, DROP, TF_ONE_WAY);
    }
}

/// The writing end of the pipe that is given away in this round.
type Current = Arc<Mutex<Option<PipeWriter>>>;

/// Returns when the context has gone, with the number of exchanges that were served.
fn serve(driver: &Emulated, current: &Current) -> (Errno, u64) {
    let mut exchanges = 0;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let empty = Sent { data: Vec::new(), offsets: Vec::new(), array: vec![0; 8] };
    loop {
        if let Err(error) = driver.write_read(&mut commands, &[], Some(&mut returns)) {
            return (error.errno().expect("an errno"), exchanges);
        }
        for item in returns.by_ref().collect::<Vec<_>>() {
            let Return::Transaction(data) = item else { continue };
            let current = current.lock().expect("no panic").as_ref().map(|pipe| pipe.as_raw_fd());
            exchanges += u64::from(data.code == EXCHANGE);
            let arrived = (data.code != GIVE).then(|| received(driver, &data));
            let answer = match (data.code, current, &arrived) {
                (GIVE, Some(fd), _) => Some(Sent::with(fd.cast_unsigned(), None)),
                (EXCHANGE, _, Some(fd)) => Some(Sent::with(fd.as_raw_fd().cast_unsigned(), None)),
                _ => None,
            };
            if let (SEND_ME, Some(fd)) = (data.code, &arrived) {
                let bytes = driver.received(data.buffer, data.data_size).expect("inside the area");
                let held = FlatBinderObject::from_bytes(&bytes[96..]).expect("a node").binder as u32;
                let sent = Sent::with(fd.as_raw_fd().cast_unsigned(), None);
                for _ in 0..3 {
                    commands.push(Command::TransactionSg(sent.describe(held, 0, TF_ONE_WAY)));
                    // Refused when the victim has died.
                    let _ = driver.write_read(&mut commands, &sent.memory(), None);
                }
            }
            commands.push(Command::FreeBuffer(data.buffer));
            if data.flags & TF_ONE_WAY == 0 {
                let answer = answer.as_ref().unwrap_or(&empty);
                commands.push(Command::ReplySg(answer.describe(0, 0, 0)));
                let _ = driver.write_read(&mut commands, &answer.memory(), None);
            }
        }
    }
}

fn start_victim(address: &str) -> Child {
    Process::new(std::env::current_exe().expect("this test's path"))
        .args(["--exact", "victim", "--ignored"])
        .env(ADDRESS, address)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test can be started again")
}

/// Whether anybody has the writing end open after a while.
fn stays_open(pipe: &PipeReader) -> bool {
    let mut watched = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).expect("a poll") == 0
}

#[test]
fn a_killed_process_leaves_no_descriptor_open() {
    let context = Context::create(Profile::Mainline).expect("a context");
    let server = Arc::new(Emulated::join(context.address(), AREA).expect("a server"));
    server.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no context manager yet");
    let current = Current::default();
    let serving = std::thread::spawn({
        let (server, current) = (Arc::clone(&server), Arc::clone(&current));
        move || serve(&server, &current)
    });
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for kill in 0..KILLS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        *current.lock().expect("no panic") = Some(writer);
        let mut victim = start_victim(context.address());
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // From before it joins to well into its calls.
        std::thread::sleep(Duration::from_micros(random % 15_000));
        victim.kill().expect("a living victim");
        victim.wait().expect("its end");
        *current.lock().expect("no panic") = None;
        assert!(!stays_open(&reader), "after kill {kill}: the victim's descriptors are still open somewhere");
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.free_area_bytes() != AREA {
            assert!(Instant::now() < deadline, "after kill {kill}: {} bytes free", server.free_area_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(context);
    let (end, exchanges) = serving.join().expect("no panic");
    assert_eq!(end, Errno::NODEV);
    assert!(exchanges > KILLS, "the victims came to {exchanges} exchanges only");
}
