//! Information that only the emulated driver has: its contexts, and counts for tests.

use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::{TF_ONE_WAY, TransactionData};
use roundtrip_binder_driver::{Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, running};

#[test]
fn a_context_is_listed_once_whatever_the_number_of_participants() {
    let context = Context::create(Profile::Ack).expect("a context");
    let joined: Vec<Emulated> =
        (0..3).map(|_| Emulated::join(context.address(), 1 << 16).expect("the context")).collect();
    let times = |address: &str| {
        let listed = running().expect("/proc/net/unix");
        listed.iter().filter(|name| *name == address).count()
    };
    assert_eq!(times(context.address()), 1);
    let address = context.address().to_owned();
    drop((joined, context));
    assert_eq!(times(&address), 0);
}

#[test]
fn an_unlisted_context_is_found_only_by_its_address() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let _joined = Emulated::join(context.address(), 1 << 16).expect("the context");
    let listed = running().expect("/proc/net/unix");
    assert!(!listed.iter().any(|name| name == context.address()), "{listed:?}");
}

#[test]
fn the_reference_counts_of_a_handle_are_reported() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let join = || Emulated::join(context.address(), 1 << 16).expect("the context");
    let (manager, client) = (join(), join());
    manager.become_context_manager(0x100).expect("a context without a manager");
    assert_eq!(client.handle_counts(0), None);
    let mut commands = Commands::default();
    for command in [Command::Acquire(0), Command::Acquire(0), Command::Acquire(0), Command::Increfs(0)] {
        commands.push(command);
    }
    client.write_read(&mut commands, &[], None).expect("a living context");
    assert_eq!(client.handle_counts(0), Some((3, 1)));
}

#[test]
fn a_process_is_frozen_in_one_context_only() {
    let contexts = [(); 2].map(|()| Context::create_unlisted(Profile::Ack).expect("a context"));
    let join = |context: &Context| Emulated::join(context.address(), 1 << 16).expect("the context");
    let servers = contexts.each_ref().map(join);
    servers.iter().for_each(|server| server.become_context_manager(0x100).expect("the first"));
    let clients = contexts.each_ref().map(join);
    let oneway = TransactionData { flags: TF_ONE_WAY, ..TransactionData::new(1, &[]) };
    clients[0].set_frozen(std::process::id(), true, 0).expect("a process that does nothing");
    let results = clients.each_ref().map(|client| {
        let (mut commands, mut returns) = (Commands::default(), Returns::default());
        commands.push(Command::Transaction(oneway));
        client.write_read(&mut commands, &[], Some(&mut returns)).expect("a read");
        returns.find(|item| *item != Return::Noop)
    });
    assert_eq!(results, [Some(Return::TransactionPendingFrozen), Some(Return::TransactionComplete)]);
}

#[test]
fn the_usage_of_a_context_is_counted() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let usage = || context.usage().expect("its size");
    assert_eq!((usage().processes, usage().threads, usage().buffers), (0, 0, 0));
    let join = || Emulated::join(context.address(), 1 << 16).expect("the context");
    let (manager, client) = (join(), join());
    manager.become_context_manager(0x100).expect("a context without a manager");
    let (mut commands, data) = (Commands::default(), TransactionData::new(1, b"x"));
    commands.push(Command::Acquire(0));
    commands.push(Command::Transaction(data));
    client.write_read(&mut commands, &[b"x"], None).expect("a living context");
    let now = usage();
    assert_eq!((now.processes, now.threads, now.nodes, now.references), (2, 2, 1, 1));
    // Buffers: the free range of each area, and the call. Work: the call and its completion.
    assert_eq!((now.transactions, now.buffers, now.work), (1, 3, 2));
    assert!((1 << 12..1 << 30).contains(&now.memory_bytes), "{now:?}");
}

#[test]
fn an_idle_process_is_frozen_immediately() {
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let join = || Emulated::join(context.address(), 1 << 16).expect("the context");
    let drivers = [join(), join()];
    let begin = Instant::now();
    drivers[0].set_frozen(std::process::id(), true, 60_000).expect("processes that do nothing");
    assert!(begin.elapsed() < Duration::from_secs(20));
}
