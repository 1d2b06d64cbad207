//! The packings around a recording, outermost first, and a reader through all of them. What comes
//! out is limited.

use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use lzma_rust2::XzReader;

use super::input::{Input, Limits, Part, Source};
use super::undone::Undone;
use super::unpacked::Unpacked;
use super::utf16::Utf16;
use super::zstd::Zstd;
use crate::error::{Error, Result};

/// How many bytes are read of a file at once.
const CHUNK_BYTES: usize = 1 << 16;

/// What a file may always unpack to, whatever its size.
const LITTLE_BYTES: u64 = 16 << 20;

/// The most memory that a decoder of xz may use, in KiB. The highest level takes 65 MiB.
const XZ_KILOBYTES: u32 = 128 << 10;

/// One packing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Gzip,
    Zlib,
    Xz,
    Zstd,
    /// A member of a zip archive.
    Deflate,
    /// UTF-16 text, with the lower byte first or not.
    Utf16 {
        little: bool,
    },
    /// Bytes before the packed ones.
    Skip(u64),
    /// Line ends that a terminal or a shell put into packed bytes: this text for each line feed.
    LineEnds(&'static [u8]),
}

impl Layer {
    fn name(&self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zlib | Self::Skip(_) | Self::LineEnds(_) => "atrace's compressed text",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Deflate => "zip",
            Self::Utf16 { .. } => "UTF-16",
        }
    }

    /// Whether its contents are longer than itself.
    fn packs(&self) -> bool {
        !matches!(self, Self::Skip(_) | Self::LineEnds(_) | Self::Utf16 { .. })
    }
}

/// A part of a file, with its packings.
#[derive(Clone)]
pub(super) struct Chain<'a> {
    input: Input<'a>,
    limits: Limits,
    from: u64,
    to: u64,
    layers: Vec<Layer>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(input: Input<'a>, limits: Limits) -> Self {
        Self { input, limits, from: 0, to: input.length(), layers: Vec::new() }
    }

    /// A part of the same file, with its packing.
    pub(super) fn member(&self, (from, to): (u64, u64), layer: Option<Layer>) -> Self {
        let end = self.input.length();
        Self {
            from: from.min(end),
            to: to.clamp(from.min(end), end),
            layers: layer.into_iter().collect(),
            ..self.clone()
        }
    }

    pub(super) fn input(&self) -> Input<'a> {
        self.input
    }

    /// The length of the part in the file.
    pub(super) fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Adds the innermost packing.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn push(&mut self, layer: Layer) -> Result<()> {
        let most = self.limits.nesting;
        if layer.packs() && self.layers.iter().filter(|layer| layer.packs()).count() >= most {
            return Err(Error::TooLarge {
                what: format!("it is packed more than {most} times: unpack it, and give what is inside"),
            });
        }
        self.layers.push(layer);
        Ok(())
    }

    pub(super) fn is_plain(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether the text was encoded again, as PowerShell's `>` does with everything.
    pub(super) fn re_encoded(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Utf16 { .. }))
    }

    /// The bytes in any order, and why the rest cannot be unpacked if it cannot.
    ///
    /// # Errors
    /// If they exceed the limits.
    pub(super) fn source(&self) -> Result<(Source<'a>, Option<String>)> {
        if self.is_plain() {
            return Ok((Source::part(self.input, self.from, self.to), None));
        }
        let chain = self.clone();
        let (unpacked, error) = Unpacked::new(Box::new(move || chain.reader()));
        let damage = error.map(|error| failure(&error)).transpose()?;
        Ok((Source::Packed(Rc::new(unpacked)), damage))
    }

    /// A reader from the start.
    pub(super) fn reader(&self) -> Box<dyn BufRead + 'a> {
        let part = Part::new(self.input, self.from, self.to);
        let mut reader: Box<dyn BufRead + 'a> = Box::new(BufReader::with_capacity(CHUNK_BYTES, part));
        for layer in &self.layers {
            reader = self.through(reader, layer);
        }
        reader
    }

    fn through(&self, reader: Box<dyn BufRead + 'a>, layer: &Layer) -> Box<dyn BufRead + 'a> {
        match *layer {
            Layer::Gzip => self.limited(MultiGzDecoder::new(reader)),
            Layer::Zlib => self.limited(ZlibDecoder::new(reader)),
            Layer::Deflate => self.limited(DeflateDecoder::new(reader)),
            Layer::Xz => self.limited(XzReader::new_mem_limit(reader, true, XZ_KILOBYTES)),
            Layer::Zstd => self.limited(Zstd::new(reader)),
            Layer::Utf16 { little } => self.limited(Utf16::new(reader, little)),
            Layer::LineEnds(line_end) => self.limited(Undone::new(reader, line_end)),
            Layer::Skip(bytes) => Box::new(Skipped { reader, left: bytes }),
        }
    }

    fn limited(&self, inner: impl Read + 'a) -> Box<dyn BufRead + 'a> {
        let Limits { unpacked_bytes, ratio, .. } = self.limits;
        let by_ratio = self.length().saturating_mul(ratio).max(LITTLE_BYTES);
        let most = unpacked_bytes.min(by_ratio);
        let times = (by_ratio < unpacked_bytes).then_some(ratio);
        let limited = Limited { inner, left: most, exceeded: Exceeded { most, times } };
        Box::new(BufReader::with_capacity(CHUNK_BYTES, limited))
    }

    /// The first bytes.
    ///
    /// # Errors
    /// If they cannot be unpacked.
    pub(super) fn head(&self, bytes: u64) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        match self.reader().take(bytes).read_to_end(&mut head) {
            Err(error) if head.is_empty() => {
                let form = self.layers.last().map_or("file", Layer::name);
                Err(Error::Unreadable { form, what: failure(&error)? })
            }
            _ => Ok(head),
        }
    }

    /// The text that took the place of each line feed in the bytes from this one on, if something
    /// replaced them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn undone(&self, at: u64) -> Result<Option<&'static [u8]>> {
        let head = self.head(at + (1 << 20))?;
        let packed = usize::try_from(at).ok().and_then(|at| head.get(at..)).unwrap_or_default();
        Ok(super::undone::line_end(packed))
    }
}

/// Skips bytes before the first read.
struct Skipped<R> {
    reader: R,
    left: u64,
}

impl<R: BufRead> Skipped<R> {
    fn skip(&mut self) -> io::Result<()> {
        while self.left > 0 {
            let there = self.reader.fill_buf()?.len();
            if there == 0 {
                break;
            }
            let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(there);
            self.reader.consume(taken);
            self.left -= taken as u64;
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Skipped<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.skip()?;
        self.reader.read(into)
    }
}

impl<R: BufRead> BufRead for Skipped<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.skip()?;
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }
}

/// Fails as soon as more comes out than the limits allow.
struct Limited<R> {
    inner: R,
    left: u64,
    exceeded: Exceeded,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other(self.exceeded))?;
        Ok(read)
    }
}

/// The limit that a file exceeds.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{}", self.text())]
struct Exceeded {
    most: u64,
    /// The limit as a multiple of the file's size, if that is the lower one.
    times: Option<u64>,
}

impl Exceeded {
    fn text(&self) -> String {
        match self.times {
            Some(times) => format!("it unpacks to more than {times} times its size, as no recording does"),
            None => format!("it unpacks to more than {} MiB: record for a shorter time", self.most >> 20),
        }
    }
}

/// Why bytes cannot be read or unpacked.
///
/// # Errors
/// If they exceed the limits.
pub(crate) fn failure(error: &io::Error) -> Result<String> {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Exceeded>()) {
        Some(exceeded) => Err(Error::TooLarge { what: exceeded.to_string() }),
        None if error.kind() == io::ErrorKind::UnexpectedEof => Ok("it is cut off".to_owned()),
        None => Ok(error.to_string()),
    }
}
