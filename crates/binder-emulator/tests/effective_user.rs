//! A server sees the effective user that its caller has when it calls, not when it joined. A
//! separate program, because it changes the user of a thread: a context belongs to one user.

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Command, Commands, Driver as _, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};
use roundtrip_skips::{Need, skip};
use rustix::process::{Uid, getuid};
use rustix::thread::set_thread_res_uid;

/// Sends a oneway call with the calling thread's present user.
fn send(driver: &Emulated) {
    let data =
        TransactionData { flags: roundtrip_binder_driver::uapi::TF_ONE_WAY, ..TransactionData::new(1, &[]) };
    write(driver, Command::Transaction(data));
}

fn write(driver: &Emulated, command: Command) {
    let mut commands = Commands::default();
    commands.push(command);
    driver.write_read(&mut commands, &[], None).expect("a valid command");
}

/// The user that the driver reports for the sender of the next call or reply.
fn next_sender(driver: &Emulated) -> u32 {
    let mut returns = Returns::default();
    loop {
        driver.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("a read");
        for item in returns.by_ref() {
            if let Return::Transaction(data) | Return::Reply(data) = item {
                write(driver, Command::FreeBuffer(data.buffer));
                return data.sender_euid;
            }
        }
    }
}

#[test]
fn a_server_sees_its_callers_current_user() {
    if !getuid().is_root() {
        return skip(Need::Root, "becomes another user");
    }
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let server = Emulated::join(context.address(), 4096).expect("a server");
    server.become_context_manager(0).expect("no manager yet");
    write(&server, Command::EnterLooper);
    let client = Emulated::join(context.address(), 4096).expect("a client");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(&client);
            let (root, other) = (Uid::ROOT, Uid::from_raw(65534));
            set_thread_res_uid(root, other, root).expect("another effective user");
            send(&client);
            client.exit_thread();
        });
    });
    assert_eq!([next_sender(&server), next_sender(&server)], [0, 65534]);
}

#[test]
fn a_reply_has_its_senders_user_at_its_last_call_or_when_it_joined() {
    if !getuid().is_root() {
        return skip(Need::Root, "becomes another user");
    }
    let (root, other) = (Uid::ROOT, Uid::from_raw(65534));
    let becomes = |user| set_thread_res_uid(root, user, root).expect("another effective user");
    // One thread is caller and server, so it receives the replies.
    let replier = |calls_before: bool| {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        let join = || Emulated::join(context.address(), 4096).expect("a context of this user");
        let (first, server, client) = (join(), join(), join());
        first.become_context_manager(0).expect("no manager yet");
        if calls_before {
            becomes(other);
            send(&server);
            becomes(root);
        }
        drop(first);
        server.become_context_manager(0).expect("the first has gone");
        write(&server, Command::EnterLooper);
        write(&client, Command::Transaction(TransactionData::new(1, &[])));
        next_sender(&server);
        becomes(if calls_before { root } else { other });
        write(&server, Command::Reply(TransactionData::new(0, &[])));
        becomes(root);
        let sender = next_sender(&client);
        client.exit_thread();
        server.exit_thread();
        sender
    };
    let senders =
        std::thread::scope(|scope| scope.spawn(|| [replier(false), replier(true)]).join().expect("no panic"));
    assert_eq!(senders, [0, 65534]);
}

#[test]
fn another_user_cannot_join() {
    if !getuid().is_root() {
        return skip(Need::Root, "becomes another user");
    }
    let context = Context::create_unlisted(Profile::Ack).expect("a context");
    let refused = std::thread::scope(|scope| {
        let joining = scope.spawn(|| {
            let (root, other) = (Uid::ROOT, Uid::from_raw(65534));
            set_thread_res_uid(root, other, root).expect("another effective user");
            Emulated::join(context.address(), 4096).map(drop)
        });
        joining.join().expect("no panic").expect_err("another user's context")
    });
    assert!(refused.to_string().contains("user"), "{refused}");
    Emulated::join(context.address(), 4096).expect("its own user");
}
