#![allow(unsafe_code)]
//! Copies bytes at a speed that does not depend on their offsets within their pages. This file does
//! not know what the bytes are.
//!
//! The C library copies more than about 2 KiB with `rep movsb` if the CPU reports that as fast. On
//! some CPUs (AMD family 25) `rep movsb` is several times slower when the destination's offset
//! within its page is slightly larger than the source's. Long copies on x86-64 therefore use plain
//! vector instructions here. Other architectures use the C library, which has no such problem
//! there.
//! `cargo run --release -p roundtrip-binder-driver --example copies` compares both.

/// The minimum length, in bytes, for the vector loop. It is below the length at which the C library
/// may use a string instruction. At this length, the loop is as fast as the C library.
const LONG: usize = 1024;

/// Copies `length` bytes. The result is unspecified if source and destination overlap, or if
/// another process writes to the source meanwhile.
///
/// # Safety
/// `from` must be readable and `to` writable for `length` bytes, and no Rust reference may cover
/// the written bytes.
#[inline]
pub unsafe fn raw(from: *const u8, to: *mut u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    if length >= LONG {
        // SAFETY: the caller upholds this function's contract.
        return unsafe { vectors::copy(from, to, length) };
    }
    // SAFETY: the caller upholds this function's contract.
    unsafe { std::ptr::copy(from, to, length) }
}

/// Appends bytes.
#[inline]
pub fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() < LONG {
        return to.extend_from_slice(bytes);
    }
    // SAFETY: a slice is readable.
    unsafe { append_raw(to, bytes.as_ptr(), bytes.len()) }
}

/// Appends bytes from memory that other processes may write to.
///
/// # Safety
/// `from` must be readable for `length` bytes.
pub unsafe fn append_raw(to: &mut Vec<u8>, from: *const u8, length: usize) {
    to.reserve(length);
    let end = to.len() + length;
    // SAFETY: the caller upholds this function's contract for `from`. `reserve` made room for these
    // bytes, nothing refers to that room, and `raw` initialises it.
    unsafe {
        raw(from, to.as_mut_ptr().add(to.len()), length);
        to.set_len(end);
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::asm;

    /// Like [`super::raw`]. Written in assembly, because the compiler turns a copy loop into a call
    /// to the C library.
    #[inline(never)]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
        let done = if std::is_x86_feature_detected!("avx") {
            // SAFETY: the caller upholds this function's contract, and the CPU has AVX.
            unsafe { wide(from, to, length) }
        } else {
            // SAFETY: the caller upholds this function's contract.
            unsafe { narrow(from, to, length) }
        };
        // SAFETY: this is the rest of the same two ranges.
        unsafe { std::ptr::copy(from.add(done), to.add(done), length - done) }
    }

    /// Defines a function that copies whole blocks of four registers and returns the number of
    /// bytes copied. `$move` loads or stores one register, `$register` is the start of its name,
    /// `$bytes` its size, and `$end` an instruction at the end.
    macro_rules! by_blocks {
        ($(#[$doc:meta])* $name:ident: $move:literal, $register:literal, $bytes:literal, $end:literal) => {
            $(#[$doc])*
            unsafe fn $name(from: *const u8, to: *mut u8, length: usize) -> usize {
                let blocks = length / (4 * $bytes);
                if blocks > 0 {
                    // SAFETY: reads and writes `blocks` blocks, which are within `length`. The
                    // upper register halves are clear at the end, as the calling convention
                    // requires.
                    unsafe {
                        asm!(
                            "2:",
                            concat!($move, " ", $register, "0, [{from}]"),
                            concat!($move, " ", $register, "1, [{from} + ", $bytes, "]"),
                            concat!($move, " ", $register, "2, [{from} + 2 * ", $bytes, "]"),
                            concat!($move, " ", $register, "3, [{from} + 3 * ", $bytes, "]"),
                            concat!($move, " [{to}], ", $register, "0"),
                            concat!($move, " [{to} + ", $bytes, "], ", $register, "1"),
                            concat!($move, " [{to} + 2 * ", $bytes, "], ", $register, "2"),
                            concat!($move, " [{to} + 3 * ", $bytes, "], ", $register, "3"),
                            concat!("add {from}, 4 * ", $bytes),
                            concat!("add {to}, 4 * ", $bytes),
                            "dec {blocks}",
                            "jnz 2b",
                            $end,
                            from = inout(reg) from => _,
                            to = inout(reg) to => _,
                            blocks = inout(reg) blocks => _,
                            // All vector registers, because vzeroupper clears their upper halves.
                            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                            options(nostack),
                        );
                    }
                }
                blocks * 4 * $bytes
            }
        };
    }
    by_blocks! {
        /// For CPUs with AVX.
        wide: "vmovups", "ymm", 32, "vzeroupper"
    }
    by_blocks! {
        /// For every x86-64 CPU.
        narrow: "movups", "xmm", 16, ""
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_copy_without_avx_is_correct() {
            let from: Vec<u8> = (0..5000_u32).map(|at| (at * 7) as u8).collect();
            for length in [0, 1, 63, 64, 65, 1000, 4096, 5000] {
                let mut to = vec![0xee; from.len()];
                // SAFETY: both are at least that long.
                let done = unsafe { narrow(from.as_ptr(), to.as_mut_ptr(), length) };
                assert_eq!(done, length / 64 * 64);
                assert_eq!(to[..done], from[..done], "{length}");
                assert!(to[done..].iter().all(|&byte| byte == 0xee), "{length}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 12] = [0, 1, 4, 127, 1023, 1024, 1025, 1151, 1152, 4096, 65_536, 70_001];

    #[test]
    fn a_copy_writes_exactly_its_bytes_at_any_offsets() {
        let from: Vec<u8> = (0..80_000_u32).map(|at| (at % 251) as u8).collect();
        for length in LENGTHS {
            for (source, target) in [(0, 0), (0, 1), (1, 0), (16, 48), (4095, 33), (7, 4090)] {
                let mut to = vec![0xee; 80_000];
                let place = &mut to[target..target + length];
                // SAFETY: both are this long.
                unsafe { raw(from[source..source + length].as_ptr(), place.as_mut_ptr(), length) };
                assert_eq!(to[target..target + length], from[source..source + length], "{length}");
                let around = to[..target].iter().chain(&to[target + length..]);
                assert!(around.copied().all(|byte| byte == 0xee), "{length} from {source} to {target}");
            }
        }
    }

    #[test]
    fn appended_bytes_follow_the_earlier_ones() {
        let bytes: Vec<u8> = (0..70_001_u32).map(|at| at as u8).collect();
        for length in LENGTHS {
            let mut to = b"before".to_vec();
            append(&mut to, &bytes[..length]);
            assert_eq!((&to[..6], &to[6..]), (&b"before"[..], &bytes[..length]));
        }
    }
}
