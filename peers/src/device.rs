//! A binder device, used as in a C program: the kernel's structures over raw memory, one ioctl, and
//! a mapped receive area.
//!
//! Unsafe throughout, because this is the baseline for code with checks: it checks only what a
//! careful C program would check. Fixed to the 64-bit layouts of
//! `include/uapi/linux/android/binder.h`.

use std::ffi::CString;
use std::io::Error;

use crate::Result;

pub(crate) const BC_TRANSACTION: u32 = 0x4040_6300;
pub(crate) const BC_REPLY: u32 = 0x4040_6301;
pub(crate) const BC_FREE_BUFFER: u32 = 0x4008_6303;
pub(crate) const BC_ENTER_LOOPER: u32 = 0x630c;
pub(crate) const BC_TRANSACTION_SG: u32 = 0x4048_6311;
pub(crate) const BC_REPLY_SG: u32 = 0x4048_6312;
pub(crate) const BR_TRANSACTION: u32 = 0x8040_7202;
pub(crate) const BR_REPLY: u32 = 0x8040_7203;
const BR_DEAD_REPLY: u32 = 0x7205;
const BR_FAILED_REPLY: u32 = 0x7211;
const BINDER_WRITE_READ: libc::Ioctl = 0xc030_6201_u32 as libc::Ioctl;
const BINDER_SET_CONTEXT_MGR: libc::Ioctl = 0x4004_6207;

/// Android's receive area: 1 MiB less two pages.
const AREA_BYTES: usize = (1 << 20) - 2 * 4096;

/// `struct binder_transaction_data`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Transaction {
    pub(crate) target: u64,
    pub(crate) cookie: u64,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) sender_pid: i32,
    pub(crate) sender_euid: u32,
    pub(crate) data_size: u64,
    pub(crate) offsets_size: u64,
    pub(crate) buffer: u64,
    pub(crate) offsets: u64,
}

/// Frees the last received buffer and sends: the commands of each ioctl except the first.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct FreeAndSend<T> {
    pub(crate) free: u32,
    pub(crate) buffer: u64,
    pub(crate) send: u32,
    pub(crate) transaction: T,
}

/// Sends data from a received buffer, and frees that buffer.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct SendAndFree<T> {
    pub(crate) send: u32,
    pub(crate) transaction: T,
    pub(crate) free: u32,
    pub(crate) buffer: u64,
}

#[repr(C)]
struct WriteRead {
    write_size: u64,
    write_consumed: u64,
    write_buffer: u64,
    read_size: u64,
    read_consumed: u64,
    read_buffer: u64,
}

/// An open device with its receive area.
pub(crate) struct Device {
    descriptor: i32,
    returns: [u64; 32],
}

/// The result of an exchange.
pub(crate) enum Answer {
    /// The expected transaction or reply.
    Received(Transaction),
    /// There is no context manager, or it has exited.
    Dead,
}

impl Device {
    pub(crate) fn open() -> Result<Device> {
        let path = CString::new(crate::DEVICE)?;
        // SAFETY: a path that ends with its NUL; the area is mapped where the kernel chooses, and
        // never unmapped.
        unsafe {
            let descriptor = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if descriptor < 0 {
                return Err(Error::last_os_error().into());
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
            let area = libc::mmap(std::ptr::null_mut(), AREA_BYTES, libc::PROT_READ, flags, descriptor, 0);
            if area == libc::MAP_FAILED {
                return Err(Error::last_os_error().into());
            }
            Ok(Device { descriptor, returns: [0; 32] })
        }
    }

    pub(crate) fn become_context_manager(&self) -> Result<()> {
        // SAFETY: the argument of this ioctl is a number that is ignored.
        if unsafe { libc::ioctl(self.descriptor, BINDER_SET_CONTEXT_MGR, &0_i32) } < 0 {
            return Err(Error::last_os_error().into());
        }
        Ok(())
    }

    /// Sends commands and waits for `wanted` (BR_TRANSACTION or BR_REPLY). Takes one ioctl unless
    /// other returns arrive first.
    pub(crate) fn exchange<T>(&mut self, commands: &T, wanted: u32) -> Result<Answer> {
        let mut argument = WriteRead {
            write_size: size_of::<T>() as u64,
            write_consumed: 0,
            write_buffer: std::ptr::from_ref(commands) as u64,
            read_size: size_of_val(&self.returns) as u64,
            read_consumed: 0,
            read_buffer: self.returns.as_mut_ptr() as u64,
        };
        loop {
            // SAFETY: the commands and the room for returns live through the call and have the
            // lengths that are given.
            let result = unsafe { libc::ioctl(self.descriptor, BINDER_WRITE_READ, &raw mut argument) };
            if result < 0 {
                return Err(Error::last_os_error().into());
            }
            let mut at = 0;
            while at < argument.read_consumed as usize {
                // SAFETY: the driver wrote whole returns, each a word and as many bytes as the word
                // says.
                unsafe {
                    let here = self.returns.as_ptr().cast::<u8>().add(at);
                    let word = here.cast::<u32>().read_unaligned();
                    at += 4 + (word as usize >> 16 & 0x3fff);
                    if word == wanted {
                        return Ok(Answer::Received(here.add(4).cast::<Transaction>().read_unaligned()));
                    }
                    match word {
                        BR_DEAD_REPLY => return Ok(Answer::Dead),
                        BR_FAILED_REPLY => return Err("the driver refused a transaction".into()),
                        _ => {}
                    }
                }
            }
            argument.read_consumed = 0;
        }
    }
}

/// Received bytes. Valid until their buffer is freed.
pub(crate) fn bytes(address: u64, length: u64) -> &'static [u8] {
    // SAFETY: the driver named them, in the area that is mapped until the process ends.
    unsafe { std::slice::from_raw_parts(address as *const u8, length as usize) }
}
