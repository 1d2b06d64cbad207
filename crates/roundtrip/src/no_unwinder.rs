//! The unwinder of a binary without unwind tables (see `build.rs`). It finds no frames, like any
//! unwinder without tables. Because it is defined here, the optimiser knows this and removes what
//! the standard library would do with frames: a real unwinder, and a reader of debugging
//! information, which is stripped anyway. Together they were a twelfth of the binary.
#![allow(unsafe_code, reason = "the standard library finds these functions by their names alone")]

use std::ffi::{c_int, c_void};

/// `_URC_END_OF_STACK` (Itanium C++ ABI: Exception Handling, 1.2).
const END_OF_STACK: c_int = 5;

/// Calls `trace` for each frame, of which there are none.
// SAFETY: name and signature are those of the ABI. The binary does not link if it contains the name
// twice.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_trace: *const c_void, _argument: *mut c_void) -> c_int {
    END_OF_STACK
}

/// Functions that only unwinding code calls. Panics abort, so nothing does, but the standard
/// library refers to them.
macro_rules! never_called {
    ($($name:ident)+) => {$(
        // SAFETY: as above. The signature does not matter, because nothing calls it.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ! {
            std::process::abort()
        }
    )+};
}

never_called! {
    _Unwind_Resume
    _Unwind_GetDataRelBase
    _Unwind_GetIP
    _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData
    _Unwind_GetRegionStart
    _Unwind_GetTextRelBase
    _Unwind_SetGR
    _Unwind_SetIP
}
