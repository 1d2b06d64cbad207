//! Servers are told the user that their caller is when it calls, not the one that joined. A program of its own: a context
//! has one user, so the one that changes is the calling thread's alone.

use binder_driver::uapi::TransactionData;
use binder_driver::{Command, Commands, Driver as _, Profile, Return, Returns};
use binder_emulator::{Context, Emulated};
use rustix::process::{Uid, getuid};
use rustix::thread::set_thread_res_uid;
use skips::{Need, skip};

/// Sends a oneway call as the user that the calling thread is now.
fn send(driver: &Emulated) {
    let mut commands = Commands::default();
    let data = TransactionData { flags: binder_driver::uapi::TF_ONE_WAY, ..TransactionData::new(1, &[]) };
    commands.push(Command::Transaction(data));
    driver.write_read(&mut commands, &[], None).expect("a call that is taken");
}

/// The user that the next call's sender is said to be.
fn next_sender(driver: &Emulated) -> u32 {
    let mut returns = Returns::default();
    loop {
        driver.write_read(&mut Commands::default(), &[], Some(&mut returns)).expect("a read");
        for item in returns.by_ref() {
            if let Return::Transaction(data) = item {
                let mut commands = Commands::default();
                commands.push(Command::FreeBuffer(data.buffer));
                driver.write_read(&mut commands, &[], None).expect("a buffer to free");
                return data.sender_euid;
            }
        }
    }
}

#[test]
fn a_server_is_told_the_user_that_its_caller_is_now() {
    if !getuid().is_root() {
        return skip(Need::Root, "becomes another user");
    }
    let context = Context::create(Profile::Ack).expect("a context");
    let server = Emulated::join(context.address(), 4096).expect("a server");
    server.become_context_manager(0).expect("no manager yet");
    let mut commands = Commands::default();
    commands.push(Command::EnterLooper);
    server.write_read(&mut commands, &[], None).expect("a looper");
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
