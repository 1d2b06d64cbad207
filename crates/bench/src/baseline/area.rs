//! The layout of requests and replies in shared memory, for the transports that differ only in how
//! they wake the other side. Each direction costs one copy. Provides one word that counts requests
//! and one that counts replies. Must not know how the sides take turns.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;

use super::shared::{self, Shared};

/// Each word has its own cache line, so that polling one does not slow down writes to the other.
const REQUEST_WORD: usize = 0;
const REPLY_WORD: usize = 128;
const DATA: usize = 4096;

#[derive(Debug)]
pub(super) struct Area {
    memory: Shared,
    /// The offset of replies, in bytes.
    replies: usize,
}

fn replies(max_len: usize) -> usize {
    DATA + max_len.next_multiple_of(4096)
}

fn total(max_len: usize) -> usize {
    replies(max_len) + max_len.next_multiple_of(4096)
}

/// Memory for requests and replies of up to `max_len` bytes.
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

    /// The client copies its request in.
    pub(super) fn put_request(&self, request: &[u8]) {
        self.memory.write(DATA, request);
    }

    /// The server copies the request to the reply, directly within the shared memory.
    pub(super) fn echo(&self, len: usize) {
        self.memory.copy(DATA, self.replies, len);
    }

    /// Copies the reply out, to check it. The client otherwise reads it in place.
    pub(super) fn get_reply(&self, into: &mut [u8]) {
        self.memory.read(self.replies, into);
    }
}
