//! Version 7: options point to sections, which may be compressed.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::bytes::{Bytes, Found, MOST_BYTES};
use super::v6;
use super::{Noting, Parts};
use crate::MOST_UNPACKED_BYTES;
use crate::collect::MOST_CPUS;
use crate::compressed::{Method, unpack};

/// The maximum number of option sections in a chain. Each section points to the next.
const MOST_SECTIONS: usize = 1000;

/// The most bytes of compressed pages that are in memory at once, unpacked. trace-cmd compresses
/// ten pages at a time.
const MOST_CHUNK_BYTES: usize = 16 << 20;

/// The bytes before a chunk of compressed pages: its two lengths.
const CHUNK_HEADER_BYTES: u64 = 8;

struct Reader<'a> {
    file: Bytes<'a>,
    method: Option<Method>,
    /// How many bytes the file's parts may still expand to.
    budget: Rc<Cell<usize>>,
    parts: Parts<'a>,
    /// Whether the buffer of the top instance was read.
    top: bool,
    /// How many bytes of the file its sections had so far.
    sections: u64,
    /// The same of compressed pages.
    taken: Rc<Cell<u64>>,
}

/// The part of the file after the page size.
pub(super) fn read(mut bytes: Bytes<'_>) -> Found<Parts<'_>> {
    let method = match bytes.text()?.as_str() {
        "none" => None,
        "zstd" => Some(Method::Zstd),
        "zlib" => Some(Method::Zlib),
        other => return Err(format!("it is compressed with {other:.20}, which this program does not read")),
    };
    bytes.text()?;
    let mut next = bytes.u64()?;
    let budget = Rc::new(Cell::new(MOST_UNPACKED_BYTES));
    let mut reader = Reader {
        file: bytes,
        method,
        budget,
        parts: Parts::default(),
        top: false,
        sections: 0,
        taken: Rc::default(),
    };
    // Pages are read last, because they depend on the other contents.
    let mut buffers = Vec::new();
    for _ in 0..MOST_SECTIONS {
        if next == 0 {
            break;
        }
        let options = reader.section(next, 0)?;
        next = reader.options(&options, &mut buffers)?;
    }
    // The top instance's buffer, which has no name. Without one, the first buffer.
    let top = buffers.iter().position(|(named, _)| !named).unwrap_or(0);
    reader.parts.other_buffers = buffers.len().saturating_sub(1);
    if let Some((_, data)) = buffers.get(top) {
        reader.buffer(data)?;
    }
    if !reader.top {
        return Err("it contains no recording of events: make one with `trace-cmd record -e`".to_owned());
    }
    Ok(reader.parts)
}

impl<'a> Reader<'a> {
    /// The contents of a section.
    fn section(&mut self, offset: u64, wanted: u16) -> Found<Cow<'a, [u8]>> {
        let mut place = self.file.at(offset)?;
        let (id, flags) = (place.u16()?, place.u16()?);
        place.u32()?;
        let length = place.u64()?;
        if id != wanted {
            return Err(format!("at byte {offset}: section {id} in place of {wanted}"));
        }
        if flags & 1 == 0 {
            self.spend(offset, length)?;
            return place.take(length);
        }
        let (packed, _unpacked) = (place.u32()?, place.u32()?);
        self.spend(offset, packed.into())?;
        let bytes = place.take(packed.into())?;
        self.unpack(&bytes, offset).map(Cow::Owned)
    }

    /// Counts the bytes of a section. Sections do not overlap, so all of them are no longer than
    /// the file: a file whose options point to one section many times would take forever.
    fn spend(&mut self, offset: u64, length: u64) -> Found<()> {
        self.sections = self.sections.saturating_add(length);
        if self.sections > self.file.length() {
            return Err(format!("at byte {offset}: its sections overlap"));
        }
        Ok(())
    }

    fn unpack(&mut self, bytes: &[u8], offset: u64) -> Found<Vec<u8>> {
        let method = self
            .method
            .ok_or_else(|| format!("at byte {offset}: compressed, but the file names no method"))?;
        unpacked(method, bytes, &self.budget, MOST_BYTES).map_err(|what| format!("at byte {offset}: {what}"))
    }

    /// Reads an option section and the sections that it points to. Returns the position of the next
    /// option section.
    fn options(&mut self, section: &[u8], buffers: &mut Vec<(bool, Vec<u8>)>) -> Found<u64> {
        let mut options = Bytes::memory(section);
        while !options.is_empty() {
            let (id, length) = (options.u16()?, options.u32()?);
            let data = options.take(length.into())?;
            let offset = || Bytes::memory(&data).u64();
            match id {
                0 => return offset(),
                3 => {
                    let mut buffer = Bytes::memory(&data);
                    buffer.u64()?;
                    buffers.push((!buffer.text()?.is_empty(), data.to_vec()));
                }
                16 => v6::headers(&mut Bytes::memory(&self.section(offset()?, id)?), &mut self.parts)?,
                17 => v6::ftrace_events(&mut Bytes::memory(&self.section(offset()?, id)?), &mut self.parts)?,
                18 => v6::event_formats(&mut Bytes::memory(&self.section(offset()?, id)?), &mut self.parts)?,
                19 => self.parts.kallsyms = self.long_text(offset()?, id, false)?,
                20 => self.parts.printk = self.long_text(offset()?, id, false)?,
                21 => self.parts.cmdlines = self.long_text(offset()?, id, true)?,
                // Since trace-cmd 3.2.
                23 => match self.long_text(offset()?, id, true) {
                    Ok(tgids) => self.parts.tgids = tgids,
                    Err(what) => self.parts.damaged(format!("in the processes of threads: {what}")),
                },
                _ => v6::option(id, &data, &mut self.parts),
            }
        }
        Ok(0)
    }

    fn long_text(&mut self, offset: u64, id: u16, wide: bool) -> Found<String> {
        Bytes::memory(&self.section(offset, id)?).long_text(wide)
    }

    /// The pages of one buffer.
    fn buffer(&mut self, data: &[u8]) -> Found<()> {
        let mut option = Bytes::memory(data);
        let section = option.u64()?;
        option.text()?;
        let clock = option.text()?;
        option.u32()?;
        let cpus = option.u32()?;
        // The flags show whether the pages are compressed.
        let mut place = self.file.at(section)?;
        let (_, flags) = (place.u16()?, place.u16()?);
        for _ in 0..cpus.min(MOST_CPUS) {
            let (cpu, offset, length) = (option.u32()?, option.u64()?, option.u64()?);
            if cpu >= MOST_CPUS || length == 0 {
                continue;
            }
            self.pages(offset, length, flags & 1 != 0, cpu);
        }
        if !clock.is_empty() {
            self.parts.clock = Some(clock);
        }
        self.top = true;
        Ok(())
    }

    /// The pages of one CPU, as far as the file contains them.
    fn pages(&mut self, offset: u64, length: u64, packed: bool, cpu: u32) {
        let place = match self.file.at(offset) {
            Ok(place) => place,
            Err(what) => return self.parts.damaged(format!("in the pages of CPU {cpu}: {what}")),
        };
        if !packed {
            return self.parts.pages(cpu, &place, length);
        }
        let (method, budget, taken) = (self.method, Rc::clone(&self.budget), Rc::clone(&self.taken));
        let chunk = io::Cursor::default();
        let reader = Chunks { place, taken, offset, method, budget, left: None, chunk };
        self.parts.cpus.insert(cpu, Box::new(Noting { reader, cpu, cut: Rc::clone(&self.parts.cut) }));
    }
}

/// At most `most` bytes come out.
fn unpacked(method: Method, bytes: &[u8], budget: &Cell<usize>, most: usize) -> Found<Vec<u8>> {
    let most = most.min(budget.get());
    let mut left = most;
    let unpacked = unpack(method, bytes, &mut left);
    budget.set(budget.get() - (most - left));
    unpacked
}

/// A reader of a CPU's compressed pages: chunks after their number.
struct Chunks<'a> {
    place: Bytes<'a>,
    /// How many bytes of the file the chunks of all CPUs had so far.
    taken: Rc<Cell<u64>>,
    offset: u64,
    method: Option<Method>,
    budget: Rc<Cell<usize>>,
    /// How many chunks are left; `None` before the first.
    left: Option<u32>,
    chunk: io::Cursor<Vec<u8>>,
}

impl Chunks<'_> {
    /// The next chunk; `None` after the last one.
    fn next(&mut self) -> Found<Option<Vec<u8>>> {
        let left = match self.left {
            Some(left) => left,
            None => self.place.u32()?,
        };
        self.left = Some(left.saturating_sub(1));
        if left == 0 {
            return Ok(None);
        }
        let (packed, _unpacked) = (self.place.u32()?, self.place.u32()?);
        let offset = self.offset;
        // Some versions of trace-cmd store a wrong length of a CPU's pages. But chunks do not
        // overlap, so all of them are no longer than the file.
        self.taken.set(self.taken.get().saturating_add(CHUNK_HEADER_BYTES + u64::from(packed)));
        if self.taken.get() > self.place.length() {
            return Err(format!("at byte {offset}: its compressed pages overlap"));
        }
        if packed as usize > MOST_CHUNK_BYTES {
            return Err(format!("at byte {offset}: {packed} bytes of compressed pages, more than any"));
        }
        let bytes = self.place.take(packed.into())?;
        let method = self
            .method
            .ok_or_else(|| format!("at byte {offset}: compressed, but the file names no method"))?;
        let chunk = unpacked(method, &bytes, &self.budget, MOST_CHUNK_BYTES);
        chunk.map(Some).map_err(|what| format!("at byte {offset}: {what}"))
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.chunk.read(into)? {
                0 if !into.is_empty() => {}
                read => return Ok(read),
            }
            match self.next().map_err(io::Error::other)? {
                None => return Ok(0),
                Some(chunk) => self.chunk = io::Cursor::new(chunk),
            }
        }
    }
}
