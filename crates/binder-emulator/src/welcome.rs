#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! What the supervisor and a participant exchange when their connection begins and ends. One byte
//! says how it went; two descriptors, the context's memory and the registry, come with a welcome.
//! `supervisor_line.rs` has the requests in between.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::records::{Id, Process, Record};
use crate::region::{End, Region};

pub(crate) const WELCOME: u8 = 1;
pub(crate) const DENIED: u8 = 2;
pub(crate) const FULL: u8 = 3;
pub(crate) const NO_FILES: u8 = 5;
/// The last byte of a connection that ends because the lock's owner made no progress.
pub(crate) const STUCK: u8 = 4;

pub(crate) fn send_region(connection: &UnixStream, region: &Region, slot: Id<Process>) -> io::Result<()> {
    send_with(connection, &[WELCOME, slot.index() as u8], &[region.file(), region.registry().file()])
}

pub(crate) fn send_with(
    connection: &UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(connection, &[IoSlice::new(message)], &mut ancillary, flags)?;
    Ok(())
}

pub(crate) fn receive_with(
    connection: &UnixStream,
    message: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let received = recvmsg(
        connection.as_fd(),
        &mut [IoSliceMut::new(message)],
        &mut ancillary,
        flags | RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().collect()))
}

/// Why the supervisor has ended a connection.
pub(crate) fn farewell(connection: &UnixStream) -> End {
    let mut bytes = [0; 64];
    match rustix::net::recv(connection, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((_, length)) if bytes[..length].last() == Some(&STUCK) => End::Stuck,
        _ => End::Gone,
    }
}

const _: () = assert!(Process::COUNT <= 256, "a slot travels as one byte");

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_byte_is_the_reason_of_a_closed_connection() {
        for (bytes, end) in [
            (&[][..], End::Gone),
            (&[0], End::Gone),
            (&[STUCK], End::Stuck),
            (&[0, 0, STUCK], End::Stuck),
            (&[STUCK, 0], End::Gone),
        ] {
            let (own, mut supervisor) = UnixStream::pair().expect("sockets");
            supervisor.write_all(bytes).expect("room");
            drop(supervisor);
            assert_eq!(farewell(&own), end, "{bytes:?}");
        }
        let (own, _supervisor) = UnixStream::pair().expect("sockets");
        assert_eq!(farewell(&own), End::Gone, "it says nothing");
    }

    #[test]
    fn a_participant_that_does_not_read_delays_no_other() {
        let (own, _other) = UnixStream::pair().expect("sockets");
        let (done, returned) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let refused = (0..1 << 20).find_map(|_| send_with(&own, &[0; 1000], &[]).err());
            done.send(refused.map(|error| error.kind())).expect("a test that waits");
        });
        let refused = returned.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(refused, Ok(Some(io::ErrorKind::WouldBlock)));
    }
}
