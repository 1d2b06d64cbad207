//! Builds the binaries for devices, checks that they are static and support large pages, and prints
//! their sizes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use object::LittleEndian;
use object::elf::{FileHeader32, FileHeader64, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader as _};

use crate::install::TARGETS;
use crate::outcome::Outcome;
use crate::shell::{cargo, say, target_dir};

/// Builds one binary per target into `target/dist`.
pub(crate) fn build() -> Result<Outcome> {
    let folder = target_dir().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    // Without the readers of other tools' recordings: they are used on a laptop, and would make the
    // binary too large. Both targets in parallel, because linking a binary uses only one CPU.
    let mut build = vec!["build", "--release", "--package", "roundtrip", "--no-default-features"];
    build.extend(TARGETS.iter().flat_map(|target| ["--target", target]));
    cargo(&build)?;
    let mut too_large = Vec::new();
    for target in TARGETS {
        let built = target_dir().join(target).join("release/roundtrip");
        let bytes = fs::read(&built).with_context(|| format!("read {}", built.display()))?;
        let segments = segments(&bytes).with_context(|| format!("{} is not an ELF file", built.display()))?;
        check(&segments).with_context(|| built.display().to_string())?;
        let arch = target.split('-').next().unwrap_or(target);
        let copy = folder.join(format!("roundtrip-{arch}"));
        fs::copy(&built, &copy).with_context(|| format!("write {}", copy.display()))?;
        let kilobytes = bytes.len() as f64 / 1000.0;
        say(&format!("{kilobytes:>8.1} kB  {}", copy.display()));
        if bytes.len() >= MOST_BYTES {
            too_large.push(format!("{} has {kilobytes} kB", copy.display()));
        }
    }
    if !too_large.is_empty() {
        bail!(
            "{}; a binary for phones must stay below {} kB; `cargo xtask sizes` shows what takes up the space",
            too_large.join(", "),
            MOST_BYTES / 1000
        );
    }
    Ok(Outcome::Passed)
}

/// The limit on the size of a device's binary.
const MOST_BYTES: usize = 4_800_000;
/// Android's largest page size, 16 KiB. Segments of a binary must not share a page.
const PAGE_BYTES: u64 = 16 << 10;

/// Rejects a binary that would not start on every device.
fn check(segments: &[Segment]) -> Result<()> {
    if segments.iter().any(|segment| segment.kind == PT_INTERP) {
        bail!("it is not static: it requests a dynamic linker");
    }
    let loaded = || segments.iter().filter(|segment| segment.kind == PT_LOAD);
    if loaded().next().is_none() {
        bail!("it has no loadable segment");
    }
    if let Some(segment) = loaded().find(|segment| segment.align < PAGE_BYTES) {
        bail!("a segment is aligned to {} bytes, but pages can have {PAGE_BYTES}", segment.align);
    }
    Ok(())
}

/// The relevant fields of an ELF file's program header (`elf(5)`).
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    align: u64,
}

/// Rejects a file that is not a static program.
pub(crate) fn check_file(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    let segments = segments(&bytes).with_context(|| format!("{} is not an ELF file", program.display()))?;
    check(&segments).with_context(|| program.display().to_string())
}

/// The program headers of a little-endian ELF file; `None` for other files.
fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    segments_of::<FileHeader64<LittleEndian>>(file)
        .or_else(|| segments_of::<FileHeader32<LittleEndian>>(file))
}

fn segments_of<H: FileHeader<Endian = LittleEndian>>(file: &[u8]) -> Option<Vec<Segment>> {
    let header = H::parse(file).ok()?;
    let segments = header.program_headers(header.endian().ok()?, file).ok()?;
    let segment = |segment: &H::ProgramHeader| Segment {
        kind: segment.p_type(LittleEndian),
        align: segment.p_align(LittleEndian).into(),
    };
    Some(segments.iter().map(segment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_dynamic_and_text_is_not_an_elf_file() {
        let own = fs::read("/proc/self/exe").expect("readable");
        let found = segments(&own).expect("an ELF file");
        // The test runs on the host's target, which links dynamically unless it is musl.
        assert_eq!(found.iter().any(|segment| segment.kind == PT_INTERP), cfg!(not(target_env = "musl")));
        assert!(found.iter().any(|segment| segment.kind == PT_LOAD && segment.align >= 4096));
        assert!(segments(b"#!/bin/sh\n").is_none());
        assert!(segments(&own[..60]).is_none());
    }

    #[test]
    fn binaries_that_would_not_start_on_every_device_are_refused() {
        let load = |align| Segment { kind: PT_LOAD, align };
        let refused = |segments: &[Segment]| check(segments).map_err(|error| error.to_string());
        assert_eq!(refused(&[load(PAGE_BYTES), load(64 << 10)]), Ok(()));
        assert!(refused(&[load(PAGE_BYTES), load(4096)]).unwrap_err().contains("4096 bytes"));
        assert!(refused(&[Segment { kind: PT_INTERP, align: 1 }]).unwrap_err().contains("not static"));
        assert!(refused(&[]).is_err());
    }
}
