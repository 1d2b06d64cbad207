//! Counts steps: the loads from memory in the fuzzed code. The compiler calls a function at each
//! load (`-sanitizer-coverage-trace-loads`), which is written in assembly because it would
//! otherwise call itself. Without that option, no steps are counted.

use std::sync::atomic::{AtomicU64, Ordering};

static STEPS: AtomicU64 = AtomicU64::new(0);

/// The functions, one for each size of a load, with these instructions.
macro_rules! count {
    ($($instruction:literal),*) => {
        std::arch::global_asm!(
            ".globl __sanitizer_cov_load1, __sanitizer_cov_load2, __sanitizer_cov_load4",
            ".globl __sanitizer_cov_load8, __sanitizer_cov_load16",
            "__sanitizer_cov_load1:",
            "__sanitizer_cov_load2:",
            "__sanitizer_cov_load4:",
            "__sanitizer_cov_load8:",
            "__sanitizer_cov_load16:",
            $($instruction,)*
            "ret",
            steps = sym STEPS,
        );
    };
}

#[cfg(target_arch = "x86_64")]
count!("inc qword ptr [rip + {steps}]");

#[cfg(target_arch = "aarch64")]
count!(
    "adrp x16, {steps}",
    "ldr x17, [x16, :lo12:{steps}]",
    "add x17, x17, #1",
    "str x17, [x16, :lo12:{steps}]"
);

/// Calls `run`. Panics if that takes more than `each` steps per byte, plus a constant.
pub fn linear<T>(bytes: usize, each: u64, run: impl FnOnce() -> T) -> T {
    const SOME: u64 = 100_000;
    let before = STEPS.load(Ordering::Relaxed);
    let result = run();
    let steps = STEPS.load(Ordering::Relaxed) - before;
    assert!(steps > 0, "built without -sanitizer-coverage-trace-loads: run 'cargo xtask fuzz'");
    assert!(steps <= SOME + each * bytes as u64, "{steps} steps for {bytes} bytes");
    result
}
