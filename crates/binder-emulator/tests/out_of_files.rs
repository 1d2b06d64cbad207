//! A supervisor or a joiner that can open no more files: joining fails with one line that names the
//! limit, and does not wait forever. A separate program, because the limit applies to the whole
//! process.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, PoisonError};

use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_FD, BR_FAILED_REPLY, FLAT_BINDER_FLAG_ACCEPTS_FDS, FdObject, TF_ACCEPT_FDS, TF_ONE_WAY,
    TransactionData,
};
use roundtrip_binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Locked during each test, because the limit applies to the whole process.
static TURN: Mutex<()> = Mutex::new(());

fn limit(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).expect("a lower limit");
}

/// Opens files until this process can open no more.
fn open_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn joining_without_free_descriptors_fails_with_a_line_that_names_the_limit() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    limit(64);
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let mut told_by_the_supervisor = false;
    for free in 0..16 {
        let mut files = open_all();
        files.truncate(files.len().saturating_sub(free));
        let Err(error) = Emulated::join(context.address(), 4096) else { continue };
        drop(files);
        let text = error.to_string();
        assert!(text.contains("ulimit -n"), "with {free} free: {text}");
        told_by_the_supervisor |= text.contains("its supervisor cannot open more files");
    }
    assert!(told_by_the_supervisor, "its own descriptors never ran out");
    drop(Emulated::join(context.address(), 4096).expect("a running supervisor"));
}

/// One side of a call, whose reads never wait.
struct Side(Emulated);

impl Side {
    fn join(context: &Context) -> Self {
        let driver = Emulated::join(context.address(), 1 << 16).expect("the context");
        driver.set_nonblocking(true);
        let side = Self(driver);
        side.write_read(None, true);
        side
    }

    /// Writes a command, and reads if `reads`. Returns what it read.
    fn write_read(&self, command: Option<Command>, reads: bool) -> Vec<Return> {
        let (mut commands, mut returns) = (Commands::default(), Returns::default());
        command.into_iter().for_each(|command| commands.push(command));
        // EAGAIN: there was nothing to read.
        let _ = self.0.write_read(&mut commands, &[], reads.then_some(&mut returns));
        returns.filter(|item| *item != Return::Noop).collect()
    }

    /// Sends a descriptor.
    fn send(&self, file: &File, flags: u32, command: fn(TransactionData) -> Command) {
        let fd =
            FdObject { kind: BINDER_TYPE_FD, fd: file.as_raw_fd().cast_unsigned(), ..Default::default() };
        let (bytes, offsets) = (fd.to_bytes(), [0_u8; 8]);
        let data = TransactionData {
            flags,
            offsets: offsets.as_ptr() as u64,
            offsets_size: 8,
            ..TransactionData::new(1, &bytes)
        };
        let mut commands = Commands::default();
        commands.push(command(data));
        self.0.write_read(&mut commands, &[&bytes, &offsets], None).expect("a living context");
    }

    fn read(&self) -> Vec<Return> {
        self.write_read(None, true)
    }

    fn free(&self, buffer: u64) {
        self.write_read(Some(Command::FreeBuffer(buffer)), false);
    }

    /// Reads, and returns the buffer of the last transaction or reply.
    fn receive(&self) -> u64 {
        match self.read().pop() {
            Some(Return::Transaction(data) | Return::Reply(data)) => data.buffer,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn descriptors_that_the_receiver_cannot_open_fail_the_call_and_leak_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    limit(64);
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Side::join(&context);
    server.0.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no manager");
    server.write_read(Some(Command::EnterLooper), false);
    let client = Side::join(&context);
    let whole = [&server, &client].map(|side| side.0.free_area_bytes());
    let file = File::open("/dev/null").expect("a file");
    // After this, both have requested their own inboxes and each other's.
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    server.free(server.receive());
    server.send(&file, 0, Command::Reply);
    client.free(client.receive());
    assert_eq!(server.read(), [Return::TransactionComplete]);

    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    let files = open_all();
    assert_eq!(server.read(), []);
    assert_eq!(client.read(), [Return::TransactionComplete, Return::FailedReply]);
    drop(files);

    // Two oneway calls: the first is lost without an error, and the second is delivered.
    for _ in 0..2 {
        client.send(&file, TF_ONE_WAY, Command::Transaction);
        assert_eq!(client.read(), [Return::TransactionComplete]);
    }
    let files = open_all();
    assert_eq!(server.read(), []);
    drop(files);
    assert_eq!(client.read(), []);

    // A reply: its receiver gets the error, and nothing else in that read.
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    server.free(server.receive());
    server.send(&file, 0, Command::Reply);
    assert_eq!(server.read(), [Return::TransactionComplete]);
    client.send(&file, TF_ONE_WAY, Command::Transaction);
    let files = open_all();
    let returns = client.read();
    drop(files);
    assert_eq!(returns, [Return::TransactionComplete, Return::FailedReply]);
    assert_eq!(client.read(), [Return::TransactionComplete]);
    server.free(server.receive());
    assert_eq!([&server, &client].map(|side| side.0.free_area_bytes()), whole);
    assert_eq!(context.usage().expect("its size").transactions, 0);
}

#[test]
fn a_descriptor_without_an_inbox_fails_its_call_and_the_next_one_arrives() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    limit(64);
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Side::join(&context);
    server.0.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no manager");
    server.write_read(Some(Command::EnterLooper), false);
    let client = Side::join(&context);
    let whole = [&server, &client].map(|side| side.0.free_area_bytes());
    let file = File::open("/dev/null").expect("a file");

    // Its supervisor cannot create the inbox that the sender requests.
    let files = open_all();
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    assert_eq!(client.read(), [Return::FailedReply]);
    let why = client.0.extended_error().expect("an answer");
    assert_eq!((why.command, why.param), (BR_FAILED_REPLY, -Errno::MFILE.raw_os_error()));
    drop(files);
    assert_eq!(server.read(), []);

    // The inbox exists, but its owner cannot open it.
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    let files = open_all();
    assert_eq!(server.read(), []);
    drop(files);
    assert_eq!(client.read(), [Return::TransactionComplete, Return::FailedReply]);

    // Of two waiting calls, the first is lost, and the inbox is requested again for the second.
    client.send(&file, TF_ONE_WAY, Command::Transaction);
    let files = open_all();
    assert_eq!(server.read(), []);
    drop(files);
    client.send(&file, TF_ONE_WAY, Command::Transaction);
    assert_eq!(client.read(), [Return::TransactionComplete; 2]);
    server.free(server.receive());
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    server.free(server.receive());
    server.send(&file, 0, Command::Reply);
    client.free(client.receive());
    assert_eq!([&server, &client].map(|side| side.0.free_area_bytes()), whole);
    assert_eq!(context.usage().expect("its size").transactions, 0);
}

#[test]
fn a_request_for_the_inbox_of_a_closed_process_reports_it_dead() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    limit(64);
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let client = Side::join(&context);
    let file = File::open("/dev/null").expect("a file");
    let server = Side::join(&context);
    server.0.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no manager");
    client.write_read(Some(Command::Acquire(0)), false);
    drop(server);
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    assert_eq!(client.read(), [Return::DeadReply]);
    // The next process with its slot gets a new inbox.
    let server = Side::join(&context);
    server.0.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("the last one has closed");
    server.write_read(Some(Command::EnterLooper), false);
    client.send(&file, TF_ACCEPT_FDS, Command::Transaction);
    server.free(server.receive());
    server.send(&file, 0, Command::Reply);
    client.free(client.receive());
}
