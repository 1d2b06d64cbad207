#![allow(unsafe_code)]
//! Makes a linear mapping of a whole block device, as dmsetup(8) does, and lets it fail. This file
//! does not know the device's contents.
//!
//! Unsafe: the device mapper's interface is an ioctl (include/uapi/linux/dm-ioctl.h).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// `struct dm_ioctl`, as bytes.
const HEADER: usize = 312;
/// The header, `struct dm_target_spec`, and the target's parameters.
const MESSAGE: usize = HEADER + 40 + 64;
const NAME: &[u8] = b"scratch";
const CONTROL: &str = "/dev/mapper/control";

const CREATE: Opcode = opcode::read_write::<[u8; HEADER]>(0xfd, 3);
const RESUME: Opcode = opcode::read_write::<[u8; HEADER]>(0xfd, 6);
const LOAD: Opcode = opcode::read_write::<[u8; HEADER]>(0xfd, 9);

/// Maps a whole block device linearly and returns the mapped device's path.
///
/// # Errors
/// If the kernel has no device mapper, or refuses.
pub fn map(device: &Path) -> io::Result<PathBuf> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    call::<CREATE>(&control, &mut message(0))?;
    set_failing(device, false)?;
    Ok("/dev/dm-0".into())
}

/// Lets every read and write of the mapped device fail with EIO from now on, or no longer.
///
/// # Errors
/// If [`map`] has not mapped this device, or the kernel refuses.
pub fn set_failing(device: &Path, fails: bool) -> io::Result<()> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    let (kind, parameters) =
        if fails { ("error", String::new()) } else { ("linear", format!("{} 0", device.display())) };
    load(&control, device, kind, &parameters)
}

/// Loads and activates a table with one target of this kind, as large as the device.
fn load(control: &File, device: &Path, kind: &str, parameters: &str) -> io::Result<()> {
    let name = device.file_name().unwrap_or_default();
    let size = fs::read_to_string(Path::new("/sys/class/block").join(name).join("size"))?;
    let sectors: u64 = size.trim().parse().map_err(io::Error::other)?;
    let mut load = message(1);
    let target = &mut load[HEADER..];
    target[8..16].copy_from_slice(&sectors.to_le_bytes());
    target[24..24 + kind.len()].copy_from_slice(kind.as_bytes());
    target[40..40 + parameters.len()].copy_from_slice(parameters.as_bytes());
    call::<LOAD>(control, &mut load)?;
    call::<RESUME>(control, &mut message(0))
}

/// A request for our device, with this many targets.
fn message(targets: u32) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    // The interface's version, the message's length, where the targets begin, and how many they
    // are.
    for (at, value) in [(0, 4), (12, MESSAGE as u32), (16, HEADER as u32), (20, targets)] {
        message[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    message[48..48 + NAME.len()].copy_from_slice(NAME);
    message
}

fn call<const OPCODE: Opcode>(control: &File, message: &mut [u8; MESSAGE]) -> io::Result<()> {
    // SAFETY: the kernel reads and writes as many bytes as the message says that it has, all of
    // them ours.
    unsafe { ioctl(control, Updater::<OPCODE, _>::new(message)) }?;
    Ok(())
}
