//! A file whose bytes can be read from any place, and the limits on what is read of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use super::unpacked::Unpacked;

/// The limits on a file of unknown origin.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest file, in bytes.
    pub file_bytes: u64,
    /// The most that a file may unpack to, in bytes.
    pub unpacked_bytes: u64,
    /// How many times its own size a file may unpack to, unless that is little.
    pub ratio: u64,
    /// The most members of an archive that are looked at.
    pub members: u64,
    /// The most packings inside each other.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 1 << 30, unpacked_bytes: 1 << 30, ratio: 250, members: 10_000, nesting: 4 }
    }
}

/// What is told about progress: how many bytes of the file were read, and how many there are.
type Progress<'a> = &'a dyn Fn(u64, u64);

#[derive(Clone, Copy)]
enum Bytes<'a> {
    Memory(&'a [u8]),
    File(&'a File),
}

/// A file that another tool made.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: Bytes<'a>,
    length: u64,
    progress: Option<Progress<'a>>,
}

impl<'a> Input<'a> {
    /// A file's bytes.
    #[must_use]
    pub fn memory(bytes: &'a [u8]) -> Self {
        Self { bytes: Bytes::Memory(bytes), length: bytes.len() as u64, progress: None }
    }

    /// An open file, of the length that it has now.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn file(file: &'a File) -> io::Result<Self> {
        Ok(Self { bytes: Bytes::File(file), length: file.metadata()?.len(), progress: None })
    }

    /// Calls a function while the file is read: with the bytes that were read, and the file's
    /// length. A file may be read more than once.
    #[must_use]
    pub fn with_progress(self, progress: Progress<'a>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Tells that so many bytes of the file were read.
    fn done(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress(bytes.min(self.length), self.length);
        }
    }

    /// The bytes of a part, if they are in memory already.
    pub(super) fn in_memory(&self, from: u64, to: u64) -> Option<&'a [u8]> {
        let Bytes::Memory(bytes) = self.bytes else { return None };
        bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}

impl rawzip::ReaderAt for Input<'_> {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let most = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX).min(into.len());
        let into = &mut into[..most];
        match self.bytes {
            Bytes::File(file) => file.read_at(into, at),
            Bytes::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                into.copy_from_slice(&rest[..most]);
                Ok(most)
            }
        }
    }
}

/// A reader of a part of a file.
pub(super) struct Part<'a> {
    input: Input<'a>,
    at: u64,
    to: u64,
}

impl<'a> Part<'a> {
    pub(super) fn new(input: Input<'a>, from: u64, to: u64) -> Self {
        Self { input, at: from, to }
    }
}

impl io::Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.to - self.at).unwrap_or(usize::MAX).min(into.len());
        let read = rawzip::ReaderAt::read_at(&self.input, &mut into[..most], self.at)?;
        self.at += read as u64;
        self.input.done(self.at);
        Ok(read)
    }
}

/// A recording that is read in any order: in memory, a part of a file, or packed.
#[derive(Clone)]
pub(crate) enum Source<'a> {
    Part {
        input: Input<'a>,
        from: u64,
        to: u64,
        /// How many bytes were read.
        done: Rc<Cell<u64>>,
    },
    Packed(Rc<Unpacked<'a>>),
}

impl<'a> Source<'a> {
    pub(super) fn part(input: Input<'a>, from: u64, to: u64) -> Self {
        Self::Part { input, from, to, done: Rc::default() }
    }

    /// Bytes in memory.
    pub(crate) fn memory(bytes: &'a [u8]) -> Self {
        Self::part(Input::memory(bytes), 0, bytes.len() as u64)
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Part { from, to, .. } => to - from,
            Self::Packed(unpacked) => unpacked.length(),
        }
    }

    /// Whether it is read faster in order.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// The bytes from a place on: as many as there are, up to `most`.
    pub(crate) fn read(&self, at: u64, most: u64) -> io::Result<Cow<'a, [u8]>> {
        if let Self::Part { input, from, to, .. } = self {
            let from = from.saturating_add(at).min(*to);
            if let Some(bytes) = input.in_memory(from, from.saturating_add(most).min(*to)) {
                return Ok(Cow::Borrowed(bytes));
            }
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut self.reader(at, most), &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// A reader of the bytes from a place on, up to `most`.
    pub(crate) fn reader(&self, at: u64, most: u64) -> impl io::Read + use<'a> {
        let at = at.min(self.length());
        SourceReader { source: self.clone(), at, to: at.saturating_add(most).min(self.length()) }
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::Packed(unpacked) => unpacked.read_at(into, at),
            Self::Part { input, from, done, .. } => {
                let read = rawzip::ReaderAt::read_at(input, into, from.saturating_add(at))?;
                done.set(done.get() + read as u64);
                input.done(done.get());
                Ok(read)
            }
        }
    }
}

struct SourceReader<'a> {
    source: Source<'a>,
    at: u64,
    to: u64,
}

impl io::Read for SourceReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.to - self.at).unwrap_or(usize::MAX).min(into.len());
        let read = self.source.read_at(&mut into[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
