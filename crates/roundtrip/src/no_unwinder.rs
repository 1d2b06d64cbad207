//! The unwinder of a binary without unwind tables (see `build.rs`): it finds no frame, as any
//! unwinder would there. Said here, the optimiser of the whole binary knows it too, and leaves out
//! what the standard library would do with frames: a real unwinder, and a reader of debugging
//! information, which is stripped anyway. Together they were a twelfth of the binary.
#![allow(unsafe_code, reason = "the standard library finds these functions by their names alone")]

use std::ffi::{c_int, c_void};

/// `_URC_END_OF_STACK` (Itanium C++ ABI: Exception Handling, 1.2).
const END_OF_STACK: c_int = 5;

/// Calls `trace` for each frame that it finds: for none.
// SAFETY: name and signature are the ABI's, and the binary does not link if anything else in it has
// the name.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_trace: *const c_void, _argument: *mut c_void) -> c_int {
    END_OF_STACK
}

/// What only code that unwinds calls. Panics abort, so none does, but the standard library's refers
/// to it.
macro_rules! never_called {
    ($($name:ident)+) => {$(
        // SAFETY: as above; the signature does not matter to who does not call.
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
