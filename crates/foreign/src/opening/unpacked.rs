//! A packed recording that is read in any order, although packed bytes only come out one after the
//! other: for a part before the current one, they are unpacked again from the start. Must not know
//! what the bytes are.

use std::cell::RefCell;
use std::io::{self, BufRead, Read as _};

/// How many bytes are unpacked at once. As many before them are kept.
const CHUNK_BYTES: usize = 1 << 16;

/// How often all bytes may come out. The parts of a file are read nearly in order.
const MAX_TIMES: u64 = 16;

/// Unpacks the bytes from the start.
type Open<'a> = Box<dyn Fn() -> Box<dyn BufRead + 'a> + 'a>;

/// The bytes of a packed recording.
pub(crate) struct Unpacked<'a> {
    open: Open<'a>,
    length: u64,
    state: RefCell<State<'a>>,
}

struct State<'a> {
    reader: Box<dyn BufRead + 'a>,
    /// The latest bytes, and where the first of them is.
    window: Vec<u8>,
    begin: u64,
    /// How many bytes came out.
    steps: u64,
}

impl<'a> Unpacked<'a> {
    /// Unpacks everything once to learn its length. Also returns why the rest cannot be unpacked,
    /// if it cannot.
    pub(super) fn new(open: Open<'a>) -> (Self, Option<io::Error>) {
        let mut reader = open();
        let (mut length, mut damage) = (0, None);
        loop {
            match reader.fill_buf().map(<[u8]>::len) {
                Ok(0) => break,
                Ok(bytes) => {
                    length += bytes as u64;
                    reader.consume(bytes);
                }
                Err(error) => {
                    damage = Some(error);
                    break;
                }
            }
        }
        let state = State { reader: open(), window: Vec::new(), begin: 0, steps: 0 };
        (Self { open, length, state: RefCell::new(state) }, damage)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads some of the bytes from a place on; 0 at the end.
    ///
    /// # Errors
    /// If they would have to be unpacked too often.
    pub(super) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let most = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX).min(into.len());
        let mut state = self.state.borrow_mut();
        if most > 0 && at < state.begin {
            let steps = state.steps;
            *state = State { reader: (self.open)(), window: Vec::new(), begin: 0, steps };
        }
        while most > 0 && at >= state.begin + state.window.len() as u64 {
            if state.steps > self.length.saturating_mul(MAX_TIMES) {
                let what = "its parts are in an order for which it would be unpacked too often: unpack it, and give what is inside";
                return Err(io::Error::other(what));
            }
            if !state.fill()? {
                return Ok(0);
            }
        }
        let from = usize::try_from(at.saturating_sub(state.begin)).unwrap_or(usize::MAX);
        let there = state.window.get(from..).unwrap_or_default();
        let length = there.len().min(most);
        into[..length].copy_from_slice(&there[..length]);
        Ok(length)
    }
}

impl State<'_> {
    /// Unpacks the next bytes. `false` if there are none.
    fn fill(&mut self) -> io::Result<bool> {
        let old = self.window.len().saturating_sub(CHUNK_BYTES);
        self.window.drain(..old);
        self.begin += old as u64;
        let kept = self.window.len();
        self.window.resize(kept + CHUNK_BYTES, 0);
        let read = self.reader.read(&mut self.window[kept..]);
        self.window.truncate(kept + read.as_ref().map_or(0, |&read| read));
        let read = read?;
        self.steps += read as u64;
        Ok(read > 0)
    }
}
