//! A call and its reply over the emulated driver, between two threads of this process with separate
//! driver instances: the driver's own work, and two context switches or wake-ups.

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use roundtrip_binder_driver::uapi::TransactionData;
use roundtrip_binder_driver::{Answer, Command, Commands, Driver, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};

const SIZES: [usize; 3] = [4, 4 << 10, 64 << 10];

/// Echoes calls until the context ends.
fn serve(driver: &dyn Driver) -> Result<(), roundtrip_binder_driver::Error> {
    driver.become_context_manager(0)?;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    let mut reply = Vec::new();
    loop {
        driver.write_read(&mut commands, &[&reply], Some(&mut returns))?;
        for item in &mut returns {
            let Return::Transaction(call) = item else { continue };
            reply.clear();
            assert!(driver.append_received(call.buffer, call.data_size, &mut reply), "inside the area");
            commands.push(Command::FreeBuffer(call.buffer));
            commands.push(Command::Reply(TransactionData::new(1, &reply)));
        }
    }
}

fn call(criterion: &mut Criterion) {
    let context = Context::create(Profile::Ack).expect("a context");
    let join = || Emulated::join(context.address(), 1 << 20).expect("the context");
    let (server, client) = (Arc::new(join()), join());
    let serving = std::thread::spawn(move || serve(&*server));
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    let mut echo = |request: &[u8]| {
        commands.push(Command::Transaction(TransactionData::new(1, request)));
        match roundtrip_binder_driver::call(&client, &mut commands, &[request], &mut returns) {
            Ok(Answer::Reply(reply)) => {
                commands.push(Command::FreeBuffer(reply.buffer));
                reply.data_size
            }
            // The server is not the context manager yet.
            Ok(_) => 0,
            Err(error) => panic!("{error}"),
        }
    };
    while echo(&[0; 4]) != 4 {
        std::thread::yield_now();
    }
    let mut group = criterion.benchmark_group("call");
    for size in SIZES {
        let request = vec![7; size];
        group.throughput(Throughput::Bytes(2 * size as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &request, |bencher, request| {
            bencher.iter(|| assert_eq!(echo(request), request.len() as u64));
        });
    }
    group.finish();
    drop(context);
    serving.join().expect("no panic").expect_err("the context has ended");
}

criterion_group!(benches, call);
criterion_main!(benches);
