//! Writes and reads a parcel with the values of a typical interface: numbers, a name, bytes.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use roundtrip_binder::Parcel;

const BYTES: [u8; 256] = [7; 256];

fn write(parcel: &mut Parcel) -> Result<(), roundtrip_binder::Error> {
    parcel.write_interface_token("android.example.IExample")?;
    parcel.write_i32(black_box(-2));
    parcel.write_u64(black_box(1 << 40));
    parcel.write_bool(true);
    parcel.write_string16("the name of something")?;
    parcel.write_bytes(&BYTES[..])
}

fn read(parcel: &Parcel) -> Result<u64, roundtrip_binder::Error> {
    let mut reader = parcel.reader();
    reader.check_interface("android.example.IExample").expect("the same interface");
    let sum = u64::from(reader.read_i32()?.unsigned_abs()) + reader.read_u64()?;
    assert!(reader.read_bool()?);
    let text = reader.read_string16()?;
    Ok(sum + text.len() as u64 + reader.read_bytes()?.len() as u64)
}

fn parcel(criterion: &mut Criterion) {
    let mut parcel = Parcel::new();
    write(&mut parcel).expect("short texts");
    let mut group = criterion.benchmark_group("parcel");
    group.throughput(Throughput::Bytes(parcel.data().len() as u64));
    group.bench_function("write", |bencher| {
        bencher.iter(|| {
            let mut parcel = Parcel::new();
            write(&mut parcel).expect("short texts");
            parcel
        });
    });
    group.bench_function("read", |bencher| {
        bencher.iter(|| read(black_box(&parcel)).expect("what was written"))
    });
    group.finish();
}

criterion_group!(benches, parcel);
criterion_main!(benches);
