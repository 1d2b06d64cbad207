//! Processes killed at a random moment: the others go on, and nothing of the dead one stays.
//!
//! The victims are this test binary itself, started again with the one ignored test below.

use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binder_driver::emulated::{Context, Emulated};
use binder_driver::uapi::TransactionData;
use binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};

const ADDRESS: &str = "ROUNDTRIP_TEST_CONTEXT";
const KILLS: u64 = 150;

fn data(bytes: &[u8]) -> TransactionData {
    TransactionData {
        code: 1,
        data_size: bytes.len() as u64,
        buffer: bytes.as_ptr() as u64,
        ..Default::default()
    }
}

/// Calls the context manager once with `bytes`, and expects them back.
fn call(driver: &Emulated, bytes: &[u8]) -> Result<(), String> {
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::Transaction(data(bytes)));
    loop {
        driver.write_read(&mut commands, &[bytes], Some(&mut returns)).map_err(|error| error.to_string())?;
        for item in &mut returns {
            match item {
                Return::Reply(reply) => {
                    let same = driver.received(reply.buffer, reply.data_size) == Some(bytes);
                    commands.push(Command::FreeBuffer(reply.buffer));
                    driver.write_read(&mut commands, &[], None).map_err(|error| error.to_string())?;
                    return if same { Ok(()) } else { Err("the reply differs".into()) };
                }
                Return::DeadReply | Return::FailedReply => return Err(format!("{item:?}")),
                _ => {}
            }
        }
    }
}

fn serve(driver: &Emulated, ready: &AtomicBool) -> Errno {
    driver.become_context_manager(0x100).expect("no context manager yet");
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let mut reply = Vec::new();
    loop {
        ready.store(true, Ordering::Release);
        if let Err(error) = driver.write_read(&mut commands, &[&reply], Some(&mut returns)) {
            return error.errno().expect("an errno");
        }
        for item in &mut returns {
            if let Return::Transaction(call) = item {
                reply = driver.received(call.buffer, call.data_size).expect("inside the area").to_vec();
                commands.push(Command::FreeBuffer(call.buffer));
                commands.push(Command::Reply(data(&reply)));
            }
        }
    }
}

#[test]
#[ignore = "a victim: started by the other test"]
fn victim() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let driver = Emulated::join(&address, 1 << 20).expect("the context");
    // Sizes on both sides of the limit up to which data is copied under the lock.
    let bytes: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    for size in [4, 5000, 64, 70_000, 0, 4095].into_iter().cycle() {
        call(&driver, &bytes[..size]).expect("an echo");
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

#[test]
fn a_killed_client_leaves_the_others_working_and_no_buffer_behind() {
    let context = Context::create(Profile::Ack).expect("a context");
    let server = Arc::new(Emulated::join(context.address(), 1 << 20).expect("a server"));
    let ready = Arc::new(AtomicBool::new(false));
    let serving = std::thread::spawn({
        let (server, ready) = (Arc::clone(&server), Arc::clone(&ready));
        move || serve(&server, &ready)
    });
    while !ready.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let survivor = Emulated::join(context.address(), 1 << 20).expect("a survivor");
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for kill in 0..KILLS {
        let mut victim = start_victim(context.address());
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // From before it joins to well into its calls.
        std::thread::sleep(Duration::from_micros(random % 12_000));
        victim.kill().expect("a living victim");
        victim.wait().expect("its end");
        call(&survivor, b"still served").unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        // Requests that it had sent are still served; then its buffers, also half-filled ones, must be free again.
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.free_area_bytes() != 1 << 20 {
            assert!(Instant::now() < deadline, "after kill {kill}: {} bytes free", server.free_area_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(context);
    assert_eq!(serving.join().expect("no panic"), Errno::NODEV);
}
