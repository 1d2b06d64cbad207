//! Undoes what old versions of adb, and terminals, do to the bytes of `atrace -z`: they put a
//! carriage return before every line feed, even in compressed bytes.

use std::io::{self, BufRead, Read};

/// What may stand for a line feed.
const LINE_ENDS: [&[u8]; 2] = [b"\r\n", b"\r\r\n"];

/// The text that stands for each line feed in packed bytes; `None` if line feeds are as they were.
/// In bytes that nothing changed, almost no line feed follows a carriage return.
pub(super) fn line_end(packed: &[u8]) -> Option<&'static [u8]> {
    let feeds = || (0..packed.len()).filter(|&at| packed[at] == b'\n');
    feeds().next()?;
    LINE_ENDS.into_iter().rev().find(|end| feeds().all(|at| packed[..=at].ends_with(end)))
}

/// A reader that replaces each line end by a line feed.
pub(super) struct Undone<R> {
    inner: R,
    line_end: &'static [u8],
    /// How many of the line end's carriage returns were read and not passed on yet.
    held: usize,
    /// Whether something other than a line feed followed them, so that they are passed on.
    release: bool,
}

impl<R: BufRead> Undone<R> {
    pub(super) fn new(inner: R, line_end: &'static [u8]) -> Self {
        Self { inner, line_end, held: 0, release: false }
    }
}

impl<R: BufRead> Read for Undone<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < into.len() {
            if self.release {
                self.held -= 1;
                self.release = self.held > 0;
                into[written] = b'\r';
                written += 1;
                continue;
            }
            let Some(&byte) = self.inner.fill_buf()?.first() else {
                self.release = self.held > 0;
                if self.release {
                    continue;
                }
                break;
            };
            let returns = self.line_end.len() - 1;
            match byte {
                b'\n' => self.held = 0,
                // One too many: the first one stood for itself.
                b'\r' if self.held == returns => {}
                b'\r' => {
                    self.held += 1;
                    self.inner.consume(1);
                    continue;
                }
                _ if self.held > 0 => {
                    self.release = true;
                    continue;
                }
                _ => {}
            }
            into[written] = byte;
            written += 1;
            self.inner.consume(1);
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_end_becomes_the_line_feed_that_it_was() {
        let was: Vec<u8> = (0..=255).chain(*b"\r\r\rx\n\n\r\ny\r").collect();
        for end in LINE_ENDS {
            let mut changed = Vec::new();
            for &byte in &was {
                if byte == b'\n' { changed.extend(end) } else { changed.push(byte) }
            }
            assert_eq!(line_end(&changed), Some(end));
            let mut undone = Vec::new();
            Undone::new(&changed[..], end).read_to_end(&mut undone).unwrap();
            assert_eq!(undone, was, "{end:?}");
        }
    }

    #[test]
    fn bytes_that_nothing_changed_stay() {
        assert_eq!(line_end(b"a\r\nb\nc"), None);
        assert_eq!(line_end(b"abc"), None);
    }
}
