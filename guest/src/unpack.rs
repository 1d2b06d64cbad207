//! Unpacks the ELF kernel inside a bzImage, which QEMU boots in half the time. This file does not
//! know where the image comes from.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// Unpacks the ELF kernel inside a bzImage, which boots in half the time, to `to`. False when QEMU
/// must boot the file as it is: no bzImage, a compression that no program here knows, or an ELF
/// file without an entry for QEMU.
pub(crate) fn unpack(image: &[u8], to: &Path) -> Result<bool> {
    let Some(payload) = payload(image) else { return Ok(false) };
    let program: &[&str] = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', ..] => &["xz", "-dc", "--single-stream"],
        [0x28, 0xb5, 0x2f, 0xfd, ..] => &["zstd", "-dcq"],
        [0x1f, 0x8b, ..] => &["gzip", "-dcq"],
        [b'B', b'Z', b'h', ..] => &["bzip2", "-dcq"],
        _ => return Ok(false),
    };
    let Some(elf) = filter(program, payload)? else { return Ok(false) };
    if !starts_in_pvh(&elf) {
        return Ok(false);
    }
    write_whole(to, &elf)?;
    Ok(true)
}

/// The compressed kernel in a bzImage: `Documentation/arch/x86/boot.rst`, `payload_offset` and
/// `payload_length`.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let start = (sectors + 1) * 512 + number(0x248)?;
    image.get(start..start.checked_add(number(0x24c)?)?)
}

/// Passes bytes through a program; `None` when it is not installed or gives nothing. What follows
/// the compressed data (its length, at the end of a payload) makes some of them complain, so their
/// status says nothing.
fn filter(program: &[&str], input: &[u8]) -> Result<Option<Vec<u8>>> {
    let child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return Ok(None) };
    let mut stdin = child.stdin.take().context("a pipe to the program")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output()
    })
    .with_context(|| format!("run {}", program[0]))?;
    Ok((!output.stdout.is_empty()).then_some(output.stdout))
}

/// Whether an ELF kernel has the note that tells QEMU where to start (XEN_ELFNOTE_PHYS32_ENTRY,
/// number 18).
fn starts_in_pvh(elf: &[u8]) -> bool {
    const NOTE: [u8; 16] = [4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0, b'X', b'e', b'n', 0];
    const NOTE_64: [u8; 16] = [4, 0, 0, 0, 8, 0, 0, 0, 18, 0, 0, 0, b'X', b'e', b'n', 0];
    elf.starts_with(b"\x7fELF\x02") && elf.windows(16).any(|window| window == NOTE || window == NOTE_64)
}

/// Writes a file atomically.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let half = path.with_extension(format!("half-{}", std::process::id()));
    fs::write(&half, bytes).with_context(|| format!("write {}", half.display()))?;
    fs::rename(&half, path).with_context(|| format!("rename {} to {}", half.display(), path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_bzimage_is_found_and_other_bytes_have_none() {
        let mut image = vec![0; 4096];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&8_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&5_u32.to_le_bytes());
        image[1536 + 8..1536 + 13].copy_from_slice(b"hello");
        assert_eq!(payload(&image), Some(&b"hello"[..]));
        image[0x24c..0x250].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(payload(&image), None);
        assert_eq!(payload(b"MZ"), None);
    }

    #[test]
    fn a_kernel_without_an_entry_for_qemu_is_booted_unchanged() {
        assert!(!starts_in_pvh(b"\x7fELF\x02 and no note"));
    }
}
