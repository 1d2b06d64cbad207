#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! A process's inbox: the sockets that hold descriptors for it, and the messages in them.
//!
//! One message is a label (16 bytes) with up to 253 descriptors, the kernel's limit for one message
//! (`SCM_MAX_FD`). `descriptors.rs` decides who may write or read, and when.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair, sockopt,
};

use crate::lock::Guard;
use crate::records::{Id, Transaction, transaction};

/// The most descriptors in one message: the kernel's `SCM_MAX_FD`.
const MOST_AT_ONCE: usize = 253;
/// The size that inboxes ask for; the system gives at most `net.core.wmem_max`.
const INBOX_BYTES: usize = 4 << 20;
/// More messages than an inbox ever holds. Ends the search in an inbox that a participant keeps
/// filling.
const MOST_MESSAGES: usize = 1 << 14;

/// Which transaction a message's descriptors belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// The transaction's number, unique in the context over its whole life.
    pub(crate) number: u64,
    /// Its record's index.
    pub(crate) record: u32,
    /// Which of the transaction's messages this is.
    part: u32,
}

impl Label {
    pub(crate) fn of(number: u64, t: Id<Transaction>) -> Self {
        Self { number, record: t.index() as u32, part: 0 }
    }

    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.number.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.record.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.part.to_ne_bytes());
        bytes
    }

    /// `None` if the bytes are not a label.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (record, rest) = rest.split_first_chunk()?;
        let part = rest.try_into().ok()?;
        Some(Self {
            number: u64::from_ne_bytes(*number),
            record: u32::from_ne_bytes(*record),
            part: u32::from_ne_bytes(part),
        })
    }

    /// Whether its transaction will still be delivered. Needs the lock.
    fn is_awaited(self, guard: &Guard<'_>) -> bool {
        let t = Id::<Transaction>::new(self.record.into());
        self.number != 0 && t.is_some_and(|t| guard.get(t, transaction::FDS_NUMBER) == self.number)
    }
}

/// The write end of another process's inbox.
#[derive(Debug)]
pub(crate) struct Outbox(OwnedFd);

impl Outbox {
    pub(crate) fn of(write: OwnedFd) -> Self {
        Self(write)
    }

    /// Sends descriptors, in as many messages as needed.
    pub(crate) fn post(&self, label: Label, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        for (part, fds) in (0..).zip(fds.chunks(MOST_AT_ONCE)) {
            send(self.0.as_fd(), Label { part, ..label }, fds)?;
        }
        Ok(())
    }
}

/// Both ends of an inbox.
#[derive(Debug)]
pub(crate) struct Inbox {
    read: OwnedFd,
    write: OwnedFd,
}

impl Inbox {
    pub(crate) fn new() -> Result<Self, Errno> {
        let (read, write) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_send_buffer_size(&write, INBOX_BYTES)?;
        Ok(Self { read, write })
    }

    pub(crate) fn of(read: OwnedFd, write: OwnedFd) -> Self {
        Self { read, write }
    }

    /// The read end and the write end, to hand to others.
    pub(crate) fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.read.as_fd(), self.write.as_fd()]
    }

    /// Takes the `count` descriptors of a transaction out, in order. Called under the context's
    /// lock.
    ///
    /// # Errors
    /// EMFILE when this process has too many open; EBADMSG when they are missing. Those already
    /// taken are closed then.
    pub(crate) fn take(&self, guard: &Guard<'_>, label: Label, count: usize) -> Result<Vec<OwnedFd>, Errno> {
        let mut taken = Vec::new();
        self.search(guard, |front| {
            if front.number != label.number {
                return Ok(Found::Other);
            }
            let (fds, whole) = receive(self.read.as_fd())?;
            taken.extend(fds);
            if !whole {
                return Err(Errno::MFILE);
            }
            Ok(if taken.len() < count { Found::Part } else { Found::All })
        })?;
        if taken.len() == count { Ok(taken) } else { Err(Errno::BADMSG) }
    }

    /// Drops the messages that no process will take. Called under the context's lock.
    pub(crate) fn sweep(&self, guard: &Guard<'_>) {
        // If the inbox cannot be searched any further, the rest stays until its process ends.
        let _ = self.search(guard, |_| Ok(Found::Other));
    }

    /// Shows `look` each message's label once, drops the messages that no process will take, and
    /// leaves the others in their order.
    fn search(
        &self,
        guard: &Guard<'_>,
        mut look: impl FnMut(Label) -> Result<Found, Errno>,
    ) -> Result<(), Errno> {
        let mut first_kept = None;
        for _ in 0..MOST_MESSAGES {
            let Some(front) = self.front()? else { return Ok(()) };
            let Some(label) = front.filter(|label| label.is_awaited(guard)) else {
                self.drop_front();
                continue;
            };
            if first_kept == Some(label) {
                return Ok(());
            }
            match look(label)? {
                Found::All => return Ok(()),
                Found::Part => {}
                Found::Other => {
                    first_kept = first_kept.or(Some(label));
                    let (fds, _) = receive(self.read.as_fd())?;
                    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                    send(self.write.as_fd(), label, &fds)?;
                }
            }
        }
        Ok(())
    }

    /// The first message's label. `None` if there is no message, `Some(None)` if it has no label.
    fn front(&self) -> Result<Option<Option<Label>>, Errno> {
        let mut bytes = [0; 17];
        // No room for descriptors: the kernel opens none.
        match recv(&self.read, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, length)) => Ok(Some(Label::from_bytes(&bytes[..length]))),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Drops the first message, and with it the kernel's references to its files.
    fn drop_front(&self) {
        let _ = recv(&self.read, &mut [0; 1][..], RecvFlags::DONTWAIT);
    }
}

/// The result of examining a message.
enum Found {
    /// Not the message looked for.
    Other,
    /// It was taken; more follow.
    Part,
    /// It was taken, and was the last one.
    All,
}

fn send(to: BorrowedFd<'_>, label: Label, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let bytes = label.to_bytes();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(to, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
        Ok(_) => Ok(()),
        Err(Errno::AGAIN) => Err(Errno::NOSPC),
        Err(errno) => Err(errno),
    }
}

/// The first message's descriptors, and whether all of them could be opened.
fn receive(from: BorrowedFd<'_>) -> Result<(Vec<OwnedFd>, bool), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut bytes = [0; 16];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    Ok((fds, !received.flags.contains(ReturnFlags::CTRUNC)))
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter, Read as _, Write as _};

    use super::*;
    use crate::lock::Scratch;
    use crate::region::Region;

    /// A context with undelivered transactions under these numbers.
    fn context(awaited: &[u64]) -> (Region, Vec<Label>) {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let label = |&number: &u64| {
            let t = guard.alloc::<Transaction>().expect("a record");
            guard.set(t, transaction::FDS_NUMBER, number);
            Label::of(number, t)
        };
        let labels = awaited.iter().map(label).collect();
        drop(guard);
        (region, labels)
    }

    fn pipes<const N: usize>() -> [(PipeReader, PipeWriter); N] {
        std::array::from_fn(|_| std::io::pipe().expect("a pipe"))
    }

    /// Whether the other end is closed everywhere.
    fn has_ended(reader: &PipeReader) -> bool {
        let mut watched = [rustix::event::PollFd::new(reader, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut watched, Some(&rustix::event::Timespec::default())).expect("a poll") == 1
    }

    #[test]
    fn a_sweep_drops_unawaited_entries_and_keeps_the_others_in_order() {
        let (region, labels) = context(&[7, 8]);
        let inbox = Inbox::new().expect("sockets");
        let outbox = Outbox::of(inbox.write.try_clone().expect("a copy"));
        let [(dead, dead_writer), (first, first_writer), (second, second_writer)] = pipes();
        let stale = Label { number: 6, ..labels[0] };
        outbox.post(stale, &[dead_writer.as_fd()]).expect("room");
        outbox.post(labels[0], &[first_writer.as_fd()]).expect("room");
        send(inbox.write.as_fd(), Label { number: 0, ..stale }, &[dead_writer.as_fd()]).expect("room");
        outbox.post(labels[1], &[second_writer.as_fd()]).expect("room");
        drop((dead_writer, first_writer, second_writer));
        let mut scratch = Scratch::default();
        let guard = Guard::lock(&region, &mut scratch);
        inbox.sweep(&guard);
        assert_eq!([&dead, &first, &second].map(has_ended), [true, false, false]);
        assert_eq!(inbox.front(), Ok(Some(Some(labels[0]))));
        // The later transaction can be taken first.
        let mut taken = inbox.take(&guard, labels[1], 1).expect("one descriptor");
        let mut writer = PipeWriter::from(taken.remove(0));
        writer.write_all(b"2").expect("an open pipe");
        let mut byte = [0];
        (&second).read_exact(&mut byte).expect("what was written");
        assert_eq!(byte, *b"2");
        assert_eq!(inbox.take(&guard, labels[1], 1).unwrap_err(), Errno::BADMSG);
        inbox.take(&guard, labels[0], 1).expect("it is still there");
        assert!(has_ended(&first));
    }

    #[test]
    fn descriptors_that_exceed_one_message_arrive_in_parts() {
        let (region, labels) = context(&[1, 2]);
        let inbox = Inbox::new().expect("sockets");
        let outbox = Outbox::of(inbox.write.try_clone().expect("a copy"));
        let [(reader, writer)] = pipes();
        let many = [writer.as_fd(); 2 * MOST_AT_ONCE + 1];
        outbox.post(labels[0], &many).expect("room");
        outbox.post(labels[1], &many[..1]).expect("room");
        let mut scratch = Scratch::default();
        let guard = Guard::lock(&region, &mut scratch);
        assert_eq!(inbox.take(&guard, labels[1], 1).map(|fds| fds.len()), Ok(1));
        assert_eq!(inbox.take(&guard, labels[0], many.len()).map(|fds| fds.len()), Ok(many.len()));
        assert_eq!(inbox.front(), Ok(None));
        drop(writer);
        assert!(has_ended(&reader));
    }

    #[test]
    fn a_full_inbox_refuses_more_and_keeps_its_entries() {
        let (region, labels) = context(&[1, 2]);
        let inbox = Inbox::new().expect("sockets");
        let outbox = Outbox::of(inbox.write.try_clone().expect("a copy"));
        let [(reader, writer)] = pipes();
        outbox.post(labels[0], &[writer.as_fd()]).expect("room");
        let refused = (0..MOST_MESSAGES).find_map(|_| outbox.post(labels[1], &[writer.as_fd()]).err());
        // Some systems limit a user to fewer in flight.
        assert!(matches!(refused, Some(Errno::NOSPC | Errno::TOOMANYREFS)), "{refused:?}");
        let mut scratch = Scratch::default();
        let guard = Guard::lock(&region, &mut scratch);
        assert_eq!(inbox.take(&guard, labels[0], 1).map(|fds| fds.len()), Ok(1));
        drop((guard, inbox, outbox, writer));
        assert!(has_ended(&reader));
    }
}
