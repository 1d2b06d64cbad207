//! Where requests and replies lie in shared memory, for the transports that differ only in how they
//! wake each other: one copy each way. Must not know how the sides take turns, only whose turn each
//! word counts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

use super::shared::{self, Shared};

/// Words in cache lines of their own, so that waiting for one does not slow writing the other.
const REQUEST_WORD: usize = 0;
const REPLY_WORD: usize = 128;
const DATA: usize = 4096;

#[derive(Debug)]
pub(super) struct Area {
    memory: Shared,
    /// Where replies begin.
    replies: usize,
}

fn replies(max_len: usize) -> usize {
    DATA + max_len.next_multiple_of(4096)
}

fn total(max_len: usize) -> usize {
    replies(max_len) + max_len.next_multiple_of(4096)
}

/// The memory for requests and replies up to this length.
pub(super) fn create(max_len: usize) -> io::Result<OwnedFd> {
    shared::create(total(max_len))
}

impl Area {
    pub(super) fn map(fd: impl AsFd, max_len: usize) -> io::Result<Self> {
        Ok(Self { memory: Shared::map(fd, total(max_len))?, replies: replies(max_len) })
    }

    /// Counts requests.
    pub(super) fn request_word(&self) -> &AtomicU32 {
        self.memory.word(REQUEST_WORD)
    }

    /// Counts replies.
    pub(super) fn reply_word(&self) -> &AtomicU32 {
        self.memory.word(REPLY_WORD)
    }

    /// The client's copy.
    pub(super) fn put_request(&self, request: &[u8]) {
        self.memory.write(DATA, request);
    }

    /// The server's copy: it reads the request where it lies.
    pub(super) fn echo(&self, len: usize) {
        self.memory.copy(DATA, self.replies, len);
    }

    /// For checking; the client reads the reply where it lies.
    pub(super) fn get_reply(&self, into: &mut [u8]) {
        self.memory.read(self.replies, into);
    }
}
