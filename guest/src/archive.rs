//! The cpio format that the kernel unpacks its first file system from ("newc",
//! `Documentation/driver-api/early-userspace/ buffer-format.rst` in the kernel's sources): written
//! for the guest, and read back from it. Opens no files.

use std::fmt::Write as _;

const TRAILER: &str = "TRAILER!!!";
const HEADER: usize = 110;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder; its content is empty.
    Folder,
    /// A file.
    File,
    /// A file that may be executed.
    Program,
    /// The character device with these numbers; its content is empty.
    Device(u32, u32),
}

/// An archive while it is written.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    entries: u32,
}

impl Writer {
    /// Appends an entry. Append its folder first.
    ///
    /// # Panics
    /// If the content is larger than the format's limit of 4 GiB.
    pub fn add(&mut self, path: &str, kind: Kind, content: &[u8]) {
        let (mode, device) = match kind {
            Kind::Folder => (0o040_755, (0, 0)),
            Kind::File => (0o100_644, (0, 0)),
            Kind::Program => (0o100_755, (0, 0)),
            Kind::Device(major, minor) => (0o020_600, (major, minor)),
        };
        self.entries += 1;
        self.put(path, [self.entries, mode, 1, device.0, device.1], content);
    }

    /// The finished archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.put(TRAILER, [0, 0, 1, 0, 0], &[]);
        self.bytes
    }

    fn put(&mut self, path: &str, [inode, mode, links, major, minor]: [u32; 5], content: &[u8]) {
        let size = u32::try_from(content.len()).expect("less than 4 GiB");
        let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, path.len() as u32 + 1, 0];
        let mut header = String::from("070701");
        for field in fields {
            let _ = write!(header, "{field:08x}");
        }
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The files in an archive, with their contents; `None` if the archive is incomplete.
#[must_use]
pub fn files(archive: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let mut found = Vec::new();
    let mut at = 0_usize;
    loop {
        let header = archive.get(at..at.checked_add(HEADER)?)?;
        if !header.starts_with(b"070701") {
            return None;
        }
        let field = |index: usize| {
            let text = std::str::from_utf8(header.get(6 + 8 * index..14 + 8 * index)?).ok()?;
            usize::from_str_radix(text, 16).ok()
        };
        let (mode, size, name) = (field(1)?, field(6)?, field(11)?);
        let path = archive.get(at + HEADER..(at + HEADER).checked_add(name)?.checked_sub(1)?)?;
        let path = std::str::from_utf8(path).ok()?.to_owned();
        let content = (at + HEADER + name).next_multiple_of(4);
        let end = content.checked_add(size)?;
        if path == TRAILER {
            return Some(found);
        }
        if mode & 0o170_000 == 0o100_000 {
            found.push((path, archive.get(content..end)?));
        }
        at = end.checked_next_multiple_of(4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_archive_reads_back_and_half_an_archive_is_refused() {
        let mut writer = Writer::default();
        writer.add("folder", Kind::Folder, b"");
        writer.add("folder/a", Kind::File, b"12345");
        writer.add("console", Kind::Device(5, 1), b"");
        writer.add("folder/run", Kind::Program, b"");
        let archive = writer.finish();
        let read = files(&archive).expect("a whole archive");
        assert_eq!(read, [("folder/a".to_owned(), &b"12345"[..]), ("folder/run".to_owned(), &b""[..])]);
        for end in 0..archive.len() - 16 {
            assert_eq!(files(&archive[..end]), None, "cut at {end}");
        }
        assert_eq!(files(&[b'0'; 400]), None);
    }

    #[test]
    fn one_initial_ram_disk_can_contain_several_archives() {
        let mut first = Writer::default();
        first.add("a", Kind::File, b"x");
        // The kernel reads concatenated archives if each starts at a multiple of four bytes.
        assert_eq!(first.finish().len() % 4, 0);
    }
}
