//! Descriptors to send and to receive. This file knows no case.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::actor::Actor;
use crate::message::Message;

/// A pipe whose write end is sent. The read end shows when no process has the write end open.
pub(crate) struct Pipe {
    read: OwnedFd,
    write: Option<OwnedFd>,
}

impl Pipe {
    pub(crate) fn new() -> Self {
        let (read, write) = std::io::pipe().expect("a pipe");
        Self { read: read.into(), write: Some(write.into()) }
    }

    pub(crate) fn number(&self) -> u32 {
        self.write.as_ref().expect("not closed yet").as_raw_fd().cast_unsigned()
    }

    /// Closes this process's own.
    pub(crate) fn close(&mut self) {
        self.write = None;
    }

    /// Returns true if a process has the write end open. Waits a while for processes that are about
    /// to close it.
    pub(crate) fn is_open(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if self.is_closed_by_now() {
                return false;
            }
        }
        true
    }

    pub(crate) fn is_closed_by_now(&self) -> bool {
        let mut watched = [PollFd::new(&self.read, PollFlags::IN)];
        let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        poll(&mut watched, Some(&soon)).expect("a poll") == 1
    }

    /// Whether `number` is one of this pipe's write ends.
    pub(crate) fn is_at(&self, number: u32) -> bool {
        let status = |number: u32| {
            let status = std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
            Some(std::os::unix::fs::MetadataExt::ino(&status))
        };
        status(number).is_some() && status(number) == status(self.read.as_raw_fd().cast_unsigned())
    }
}

pub(crate) fn object(fd: u32) -> Vec<u8> {
    FdObject { kind: BINDER_TYPE_FD, flags: 0x7f, fd, pad: 9, cookie: 0xc00c }.to_bytes().into()
}

/// `pad` bytes, then a PTR object with the descriptors behind 4 bytes, then their array.
pub(crate) fn with_array(message: Message, fds: &[u32]) -> Message {
    let numbers = std::iter::once(&0x11).chain(fds).flat_map(|fd| fd.to_ne_bytes()).collect();
    let parent = message.offsets.len() as u64;
    let array =
        FdArrayObject { kind: BINDER_TYPE_FDA, count: fds.len() as u64, parent, parent_offset: 4, pad: 3 };
    // The root of a tree must not be at offset 0.
    message.plain(&[0; 8]).buffer(numbers).object(&array.to_bytes())
}

/// The descriptors of the PTR object at `at` of a received transaction.
pub(crate) fn array_in(actor: &Actor, received: &TransactionData, at: usize) -> Vec<u32> {
    let bytes = actor.bytes(received);
    let object = BufferObject::from_bytes(&bytes[at..]).expect("an object");
    let numbers = actor.driver.received(object.buffer, object.length).expect("inside the area");
    numbers[4..].chunks(4).map(u32::take).collect()
}

pub(crate) fn object_in(actor: &Actor, received: &TransactionData, at: usize) -> FdObject {
    FdObject::from_bytes(&actor.bytes(received)[at..]).expect("an object")
}

/// Takes over a descriptor that arrived.
pub(crate) fn take(actor: &Actor, fd: u32) -> OwnedFd {
    let taken = actor.driver.take_fd(fd).expect("the driver has opened it");
    assert_eq!(taken.as_raw_fd().unsigned_abs(), fd);
    taken
}
