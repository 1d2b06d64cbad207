//! The smallest server and client over the raw protocol: echoes four bytes, and prints what a round
//! trip took.
//!
//! `cargo run --release -p roundtrip-binder-emulator --example echo [CALLS] [futex]`; `futex` does
//! without waking on the caller's CPU.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated, WakeUp};

fn serve(driver: &dyn Driver) -> Result<(), roundtrip_binder_driver::Error> {
    driver.become_context_manager(0x100)?;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let mut reply = Vec::new();
    loop {
        driver.write_read(&mut commands, &[&reply], Some(&mut returns))?;
        for item in &mut returns {
            let Return::Transaction(call) = item else { continue };
            reply.clear();
            // Others may change the area, so copy the data before using it.
            let _ = driver.append_received(call.buffer, call.data_size, &mut reply);
            commands.push(Command::FreeBuffer(call.buffer));
            commands.push(Command::Reply(TransactionData::new(1, &reply)));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: usize = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let context = Context::create(Profile::Ack)?;
    let wake_up = match std::env::args().nth(2).as_deref() {
        Some("futex") => WakeUp::Futex,
        _ => WakeUp::Auto,
    };
    let server = Arc::new(Emulated::join_with(context.address(), 1 << 20, wake_up)?);
    let client = Emulated::join_with(context.address(), 1 << 20, wake_up)?;
    // Ends with an error when the context is dropped.
    std::thread::spawn(move || serve(&*server));
    while client.write_read(&mut Commands::default(), &[], None).is_err() {}
    std::thread::sleep(std::time::Duration::from_millis(50));

    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    let request = *b"ping";
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        commands.push(Command::Transaction(TransactionData::new(1, &request)));
        match roundtrip_binder_driver::call(&client, &mut commands, &[&request], &mut returns)? {
            Answer::Reply(reply) => {
                assert_eq!(client.received(reply.buffer, reply.data_size).as_deref(), Some(&request[..]));
                // Goes along with the next call.
                commands.push(Command::FreeBuffer(reply.buffer));
            }
            other => return Err(format!("the call ended with {other:?}").into()),
        }
        times.push(start.elapsed());
    }
    let mean = times.iter().sum::<std::time::Duration>() / calls as u32;
    times.sort_unstable();
    let (median, p99) = (times[calls / 2], times[calls * 99 / 100]);
    let woken = client.wake_up();
    writeln!(std::io::stdout(), "median {median:?} mean {mean:?} p99 {p99:?}, threads woken {woken}")?;
    Ok(())
}
