//! The smallest server and client over the kernel's driver, without any stack: echoes as many bytes as it is told to, and
//! prints the mean round trip. What a stack costs is what it takes longer.
//!
//! In a guest that counts instructions: `cargo xtask guest --count -- kernel_echo /dev/binder 4 2000`

use std::io::Write;
use std::process::Command as Program;
use std::time::Instant;

use binder_driver::kernel::Kernel;
use binder_driver::uapi::TransactionData;
use binder_driver::{Command, Commands, Driver, Return, Returns};

type Failure = Box<dyn std::error::Error>;

fn data(bytes: &[u8]) -> TransactionData {
    TransactionData {
        code: 1,
        data_size: bytes.len() as u64,
        buffer: bytes.as_ptr() as u64,
        ..Default::default()
    }
}

fn serve(driver: &dyn Driver) -> Result<(), Failure> {
    driver.become_context_manager(0x100)?;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    // What the driver copies from while it sends a reply; the reply's own buffer is given back behind it.
    let mut reply = Vec::new();
    loop {
        driver.write_read(&mut commands, &[&reply], Some(&mut returns))?;
        for item in &mut returns {
            let Return::Transaction(call) = item else { continue };
            reply.clear();
            reply.extend_from_slice(driver.received(call.buffer, call.data_size).unwrap_or_default());
            commands.push(Command::FreeBuffer(call.buffer));
            commands.push(Command::Reply(data(&reply)));
        }
    }
}

/// One call; false when nobody serves yet.
fn call(
    driver: &dyn Driver,
    commands: &mut Commands,
    returns: &mut Returns,
    request: &[u8],
) -> Result<bool, Failure> {
    commands.push(Command::Transaction(data(request)));
    loop {
        driver.write_read(commands, &[request], Some(returns))?;
        for item in &mut *returns {
            match item {
                Return::Reply(reply) => {
                    commands.push(Command::FreeBuffer(reply.buffer));
                    return Ok(true);
                }
                Return::DeadReply => return Ok(false),
                Return::FailedReply => return Err("the driver refuses the call".into()),
                _ => {}
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, device, bytes, calls] = &arguments[..] else {
        return Err("use: kernel_echo DEVICE BYTES CALLS".into());
    };
    let driver = Kernel::open(device, 1 << 20)?;
    let (bytes, calls): (usize, u32) = (bytes.parse()?, calls.parse()?);
    if calls == 0 {
        return serve(&driver);
    }
    let mut server = Program::new(std::env::current_exe()?).args([device, "0", "0"]).spawn()?;
    let request = vec![0x5a; bytes];
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    while !call(&driver, &mut commands, &mut returns, &request)? {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let begin = Instant::now();
    for _ in 0..calls {
        call(&driver, &mut commands, &mut returns, &request)?;
    }
    let mean = begin.elapsed() / calls;
    server.kill()?;
    server.wait()?;
    writeln!(std::io::stdout(), "{bytes} bytes: {} ns", mean.as_nanos())?;
    Ok(())
}
