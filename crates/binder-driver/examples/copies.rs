#![allow(unsafe_code, clippy::print_stdout, clippy::print_stderr)] // Calls the copies of raw memory that it compares, and prints.
//! Compares the C library's copy with `roundtrip_binder_driver::copy`, for different offsets of
//! source and destination within their pages. Reports the minimum of many timings, to reduce the
//! influence of other load.
//!
//! `cargo run --release -p roundtrip-binder-driver --example copies [BYTES...]`

use std::time::Instant;

use roundtrip_binder_driver::copy;

/// A copy function: source, destination, length.
type Copy = unsafe fn(*const u8, *mut u8, usize);

/// The offsets within a page: multiples of vector and cache line sizes, and values in between.
const OFFSETS: [usize; 14] = [0, 1, 8, 16, 24, 32, 48, 63, 64, 128, 512, 2048, 4032, 4080];

/// The number of timings for each pair of offsets, and the number of copies in each timing.
const TIMINGS: usize = 200;
const AT_ONCE: u32 = 4;

unsafe fn library(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller upholds `Copy`'s contract.
    unsafe { std::ptr::copy(from, to, length) }
}

unsafe fn ours(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller upholds `Copy`'s contract.
    unsafe { copy::raw(from, to, length) }
}

/// Allocates memory for `length` bytes at any offset within a page. Also returns the index of the
/// first page boundary.
fn pages(length: usize) -> (Vec<u8>, usize) {
    let memory = vec![1_u8; length + 3 * 4096];
    let start = memory.as_ptr().align_offset(4096);
    (memory, start)
}

fn main() {
    let asked: Result<Vec<usize>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let lengths = match asked {
        Ok(lengths) if lengths.is_empty() => {
            vec![4, 256, 1024, 2048, 4096, 16_384, 65_536, 262_144, 1_000_000]
        }
        Ok(lengths) => lengths,
        Err(error) => {
            eprintln!("copies: {error}: give lengths in bytes");
            std::process::exit(2);
        }
    };
    println!("{:>8}  copy        fastest    slowest  slowest/fastest  slowest from, to", "bytes");
    for length in lengths {
        let (from, from_start) = pages(length);
        let (mut to, to_start) = pages(length);
        for (name, copy) in [("C library", library as Copy), ("ours", ours)] {
            let mut all = Vec::new();
            for source in OFFSETS {
                for target in OFFSETS {
                    let (from, to) = (&from[from_start + source..], &mut to[to_start + target..]);
                    assert!(from.len() >= length && to.len() >= length);
                    let mut least_ns = f64::INFINITY;
                    for _ in 0..TIMINGS {
                        let start = Instant::now();
                        for _ in 0..AT_ONCE {
                            // SAFETY: both are at least `length` long, as just checked, and do not
                            // overlap.
                            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), length) };
                        }
                        least_ns = least_ns.min(start.elapsed().as_nanos() as f64 / f64::from(AT_ONCE));
                    }
                    all.push((least_ns, source, target));
                }
            }
            all.sort_by(|one, other| one.0.total_cmp(&other.0));
            if let [fastest, .., slowest] = all[..] {
                println!(
                    "{length:>8}  {name:<9} {:>8.0} ns {:>7.0} ns  {:>15.2}  {}, {}",
                    fastest.0,
                    slowest.0,
                    slowest.0 / fastest.0,
                    slowest.1,
                    slowest.2
                );
            }
        }
    }
}
