//! Properties of the wire protocol and of the driver under arbitrary sequences of commands.

use proptest::prelude::*;
use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Error, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};

fn transaction() -> impl Strategy<Value = TransactionData> {
    (any::<[u64; 6]>(), any::<[u32; 4]>()).prop_map(|(long, short)| TransactionData {
        target: long[0],
        cookie: long[1],
        code: short[0],
        flags: short[1],
        sender_pid: short[2] as i32,
        sender_euid: short[3],
        data_size: long[2],
        offsets_size: long[3],
        buffer: long[4],
        offsets: long[5],
    })
}

fn command() -> impl Strategy<Value = Command> {
    let node = any::<(u64, u64)>().prop_map(|(ptr, cookie)| PtrCookie { ptr, cookie });
    let handle = any::<(u32, u64)>().prop_map(|(handle, cookie)| HandleCookie { handle, cookie });
    prop_oneof![
        transaction().prop_map(Command::Transaction),
        transaction().prop_map(Command::Reply),
        any::<u64>().prop_map(Command::FreeBuffer),
        any::<u32>().prop_map(Command::Increfs),
        any::<u32>().prop_map(Command::Acquire),
        any::<u32>().prop_map(Command::Release),
        any::<u32>().prop_map(Command::Decrefs),
        node.clone().prop_map(Command::IncrefsDone),
        node.prop_map(Command::AcquireDone),
        Just(Command::RegisterLooper),
        Just(Command::EnterLooper),
        Just(Command::ExitLooper),
        handle.clone().prop_map(Command::RequestDeathNotification),
        handle.clone().prop_map(Command::ClearDeathNotification),
        handle.clone().prop_map(Command::RequestFreezeNotification),
        handle.prop_map(Command::ClearFreezeNotification),
        any::<u64>().prop_map(Command::FreezeNotificationDone),
        any::<u64>().prop_map(Command::DeadBinderDone),
    ]
}

/// What one client and one server do. Each uses only what its process can know.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call with this many bytes; served, and its buffers freed.
    Call(usize),
    /// A oneway call with this many bytes; read, and freed.
    Oneway(usize),
    /// A oneway call that is not read yet.
    Queue(usize),
    /// The client sends a node, and the server keeps a handle to it.
    Give(u64),
    /// The server drops the handle.
    Drop(u32),
    /// The client's references on the manager.
    Acquire,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6000_usize).prop_map(Step::Call),
        (0..3000_usize).prop_map(Step::Oneway),
        (0..3000_usize).prop_map(Step::Queue),
        (1..6_u64).prop_map(Step::Give),
        (1..6_u32).prop_map(Step::Drop),
        Just(Step::Acquire),
        Just(Step::Release),
    ]
}

const AREA: u64 = 64 << 10;

/// One process, driven from the test's only thread: reads never wait.
struct Peer {
    driver: Emulated,
    returns: Returns,
}

impl Peer {
    fn join(context: &Context) -> Self {
        let driver = Emulated::join(context.address(), AREA).expect("room in the context");
        Self { driver, returns: Returns::with_room(4096) }
    }

    fn write(&mut self, commands: &[Command], memory: &[&[u8]]) {
        let mut queued = Commands::default();
        commands.iter().for_each(|&command| queued.push(command));
        self.driver.write_read(&mut queued, memory, None).expect("known commands");
    }

    /// Reads everything that is pending.
    fn read(&mut self) -> Vec<Return> {
        let mut all = Vec::new();
        loop {
            self.driver.interrupt();
            self.driver.write_read(&mut Commands::default(), &[], Some(&mut self.returns)).expect("a read");
            let before = all.len();
            all.extend(
                self.returns.by_ref().filter(|item| !matches!(item, Return::Noop | Return::SpawnLooper)),
            );
            if all.len() == before {
                return all;
            }
        }
    }

    /// Reads everything, sends the acknowledgements, replies to calls, and frees every buffer.
    /// Returns the transactions.
    fn settle(&mut self) -> Vec<TransactionData> {
        let mut transactions = Vec::new();
        loop {
            let items = self.read();
            if items.is_empty() {
                return transactions;
            }
            for item in items {
                match item {
                    Return::Transaction(data) => {
                        transactions.push(data);
                        self.write(&[Command::FreeBuffer(data.buffer)], &[]);
                        if data.flags & TF_ONE_WAY == 0 {
                            self.write(&[Command::Reply(TransactionData::default())], &[]);
                        }
                    }
                    Return::Reply(data) => self.write(&[Command::FreeBuffer(data.buffer)], &[]),
                    Return::Increfs(node) => self.write(&[Command::IncrefsDone(node)], &[]),
                    Return::Acquire(node) => self.write(&[Command::AcquireDone(node)], &[]),
                    _ => {}
                }
            }
        }
    }
}

fn describe(bytes: &[u8], flags: u32) -> TransactionData {
    TransactionData { flags, ..TransactionData::new(1, bytes) }
}

/// The client sends a node, and the server takes a reference on its handle, which is returned.
fn give(client: &mut Peer, server: &mut Peer, ptr: u64, held: &mut Vec<u32>) -> u32 {
    let object = FlatBinderObject { kind: BINDER_TYPE_BINDER, flags: 0x100, binder: ptr, cookie: 0 };
    let (object, offset) = (object.to_bytes(), 0_u64.to_ne_bytes());
    let mut data = describe(&object, 0);
    (data.offsets, data.offsets_size) = (offset.as_ptr() as u64, 8);
    // Serve all queued calls first, so that this call's buffer is the last one read.
    server.settle();
    client.settle();
    client.write(&[Command::Transaction(data)], &[&object, &offset]);
    let items = server.read();
    let received = items.iter().find_map(|item| match item {
        Return::Transaction(data) => Some(*data),
        _ => None,
    });
    let received = received.expect("the call that carries the node");
    let data = server.driver.received(received.buffer, 24).expect("inside the area");
    let handle = FlatBinderObject::from_bytes(&data).expect("an object").binder as u32;
    let keep = if held.contains(&handle) { vec![] } else { vec![Command::Acquire(handle)] };
    server.write(&keep, &[]);
    if !held.contains(&handle) {
        held.push(handle);
    }
    server.write(&[Command::FreeBuffer(received.buffer), Command::Reply(TransactionData::default())], &[]);
    server.settle();
    client.settle();
    handle
}

proptest! {
    #[test]
    fn written_commands_read_back(sent in prop::collection::vec(command(), 0..20)) {
        let mut queued = Commands::default();
        sent.iter().for_each(|&command| queued.push(command));
        let mut read = Vec::new();
        while let Some((command, size)) = Command::parse(queued.pending()) {
            read.push(command);
            queued.consume(size);
        }
        prop_assert_eq!(read, sent);
        prop_assert!(queued.is_empty());
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic_and_never_beyond_their_end(bytes: Vec<u8>) {
        for parsed in [Command::parse(&bytes).map(|(_, size)| size), Return::parse(&bytes).map(|(_, size)| size)] {
            prop_assert!(parsed.is_none_or(|size| (4..=bytes.len()).contains(&size)));
        }
    }

    #[test]
    fn areas_and_handles_are_empty_after_any_sequence_of_two_processes(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        let (mut server, mut client) = (Peer::join(&context), Peer::join(&context));
        server.driver.become_context_manager(0x100).expect("the first");
        server.write(&[Command::EnterLooper], &[]);
        client.write(&[Command::EnterLooper], &[]);
        let bytes: Vec<u8> = (0..6000).map(|i| i as u8).collect();
        let mut held: Vec<u32> = Vec::new();
        for step in steps {
            match step {
                Step::Call(size) | Step::Oneway(size) | Step::Queue(size) => {
                    let flags = if matches!(step, Step::Call(_)) { 0 } else { TF_ONE_WAY };
                    let payload = &bytes[..size];
                    client.write(&[Command::Transaction(describe(payload, flags))], &[payload]);
                    if !matches!(step, Step::Queue(_)) {
                        let served = server.settle();
                        prop_assert!(served.iter().any(|data| data.data_size == size as u64));
                        client.settle();
                    }
                }
                Step::Give(ptr) => {
                    let handle = give(&mut client, &mut server, ptr, &mut held);
                    prop_assert_eq!(server.driver.handle_counts(handle), Some((1, 0)));
                }
                Step::Drop(handle) => {
                    if let Some(at) = held.iter().position(|&other| other == handle) {
                        held.swap_remove(at);
                        server.write(&[Command::Release(handle)], &[]);
                        client.settle();
                        prop_assert_eq!(server.driver.handle_counts(handle), None);
                    }
                }
                Step::Acquire => client.write(&[Command::Acquire(0)], &[]),
                Step::Release => client.write(&[Command::Release(0)], &[]),
            }
        }
        for _ in 0..3 {
            server.settle();
            client.settle();
        }
        prop_assert_eq!(server.driver.free_area_bytes(), AREA);
        prop_assert_eq!(client.driver.free_area_bytes(), AREA);
        for handle in held {
            server.write(&[Command::Release(handle)], &[]);
            prop_assert_eq!(server.driver.handle_counts(handle), None);
        }
    }
}

#[test]
fn a_context_survives_a_process_that_dies_with_many_unread_calls() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let (server, mut client) = (Peer::join(&context), Peer::join(&context));
    let before = context.usage().expect("its size");
    drop(server);
    let crowded = Emulated::join(context.address(), 4 << 20).expect("room in the context");
    crowded.become_context_manager(0x100).expect("the first");
    for _ in 0..20_000 {
        client.write(&[Command::Transaction(describe(&[], TF_ONE_WAY))], &[]);
        client.driver.write_read(&mut Commands::default(), &[], Some(&mut client.returns)).expect("a read");
    }
    drop(crowded);
    let mut server = Peer::join(&context);
    server.driver.become_context_manager(0x100).expect("the last one has gone");
    client.write(&[Command::Transaction(describe(b"served", TF_ONE_WAY))], &[b"served"]);
    assert_eq!(server.settle().len(), 1);
    client.settle();
    let after = context.usage().expect("its size");
    assert_eq!((after.transactions, after.references), (0, before.references));
    assert_eq!(client.driver.free_area_bytes(), AREA);
}

#[test]
fn an_area_of_more_than_4_mib_is_refused() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    for bytes in [0, (4 << 20) + 1, u64::MAX] {
        let refused = Emulated::join(context.address(), bytes).expect_err("no such area");
        assert!(
            matches!(refused, roundtrip_binder_emulator::Error::Driver(Error::AreaSize { .. })),
            "{bytes}: {refused}"
        );
    }
    Emulated::join(context.address(), 4 << 20).expect("the largest area");
}

#[test]
fn the_256th_process_is_refused_because_the_context_is_full() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    // The supervisor counts each as a participant, although none reads its welcome.
    let joined: Vec<_> =
        (0..255).map(|_| Emulated::connect(context.address()).expect("a connection")).collect();
    let refused = Emulated::join(context.address(), 4096).expect_err("one too many");
    assert!(refused.to_string().contains("the context is full: 255 processes"), "{refused}");
    drop(joined);
}

/// Sends nodes with these `ptr`s in one oneway call. Returns false if the driver refuses them.
fn send_nodes(owner: &Emulated, returns: &mut Returns, ptrs: std::ops::Range<u64>) -> bool {
    let objects =
        ptrs.map(|ptr| FlatBinderObject { kind: BINDER_TYPE_BINDER, binder: ptr, ..Default::default() });
    let data: Vec<u8> = objects.flat_map(FlatBinderObject::to_bytes).collect();
    let offsets: Vec<u8> =
        (0..data.len() as u64).step_by(FlatBinderObject::SIZE).flat_map(u64::to_ne_bytes).collect();
    let mut commands = Commands::default();
    commands.push(Command::Transaction(TransactionData {
        flags: TF_ONE_WAY,
        offsets: offsets.as_ptr().addr() as u64,
        offsets_size: offsets.len() as u64,
        ..TransactionData::new(1, &data)
    }));
    owner.write_read(&mut commands, &[&data, &offsets], Some(returns)).expect("a read");
    loop {
        let accepted = returns.find_map(|item| match item {
            Return::TransactionComplete => Some(true),
            Return::FailedReply => Some(false),
            _ => None,
        });
        if let Some(accepted) = accepted {
            return accepted;
        }
        owner.write_read(&mut commands, &[], Some(returns)).expect("a read");
    }
}

/// Reads one call, takes a reference on each handle in it, and frees its buffer.
fn keep_handles(holder: &Emulated) {
    let (mut commands, mut received) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let data = loop {
        holder.write_read(&mut commands, &[], Some(&mut received)).expect("a read");
        if let Some(Return::Transaction(data)) = received.by_ref().find(|item| *item != Return::Noop) {
            break data;
        }
    };
    let objects = holder.received(data.buffer, data.data_size).expect("its area");
    for object in objects.chunks(FlatBinderObject::SIZE) {
        let object = FlatBinderObject::from_bytes(object).expect("a whole object");
        commands.push(Command::Acquire(object.binder as u32));
    }
    commands.push(Command::FreeBuffer(data.buffer));
    holder.write_read(&mut commands, &[], None).expect("valid commands");
}

#[test]
fn the_16384th_handle_of_a_process_is_refused_until_another_one_ends() {
    const MOST: u64 = 16_383;
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let holder = Emulated::join(context.address(), 1 << 20).expect("room in the context");
    holder.become_context_manager(0x100).expect("the first");
    let owner = Emulated::join(context.address(), 1 << 20).expect("room in the context");
    let mut returns = Returns::with_room(1 << 20);
    for first in (1..=MOST).step_by(1000) {
        let ptrs = first..(first + 1000).min(MOST + 1);
        assert!(send_nodes(&owner, &mut returns, ptrs), "from {first} on");
        keep_handles(&holder);
    }
    assert!(!send_nodes(&owner, &mut returns, MOST + 1..MOST + 2), "the table is full");
    assert_eq!(owner.extended_error().expect("an extended error").param, -12, "ENOMEM");
    let mut commands = Commands::default();
    commands.push(Command::Release(77));
    holder.write_read(&mut commands, &[], None).expect("a valid command");
    assert!(send_nodes(&owner, &mut returns, MOST + 1..MOST + 2), "one handle is free");
}
