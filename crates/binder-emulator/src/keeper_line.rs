//! A participant's end of its connection to the keeper: what can be asked for, and how. Must not know what for.

use std::io::{IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};

/// What a participant asks the keeper for: two bytes, this and a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Request {
    /// Both ends of its own inbox. Answered by one byte and two descriptors.
    Inbox = 1,
    /// The end of another's inbox that is written to. Answered by one byte and a descriptor, or none.
    Outbox = 2,
    /// To drop what nobody will take out of an inbox. Not answered.
    Sweep = 3,
    /// The listener of another's traps (`trap.rs`). Answered by one byte and a descriptor, or none.
    Listener = 4,
    /// To keep the listener of its own traps, which comes along. Not answered.
    HandOver = 5,
    /// To look after threads that are claimed and could not be woken (`lock/wake.rs`). Not answered.
    Help = 6,
    /// To look at the lock too: nothing happens in it. Not answered.
    Stuck = 7,
}

impl Request {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        use Request::*;
        [Inbox, Outbox, Sweep, Listener, HandOver, Help, Stuck]
            .into_iter()
            .find(|&request| request as u8 == byte)
    }
}

/// To ask the keeper. Held while an answer is due.
pub(crate) type ToKeeper = Arc<Mutex<UnixStream>>;

/// Asks the keeper for descriptors. Must not be called under the context's lock: the keeper may be waiting for that.
pub(crate) fn ask(keeper: &Mutex<UnixStream>, request: Request, slot: u8) -> Result<Vec<OwnedFd>, Errno> {
    let mut keeper = locked(keeper);
    keeper.write_all(&[request as u8, slot]).map_err(|_| Errno::NODEV)?;
    answer(&keeper)
}

/// Asks the keeper to look after threads that are claimed ([`Request::Help`]).
pub(crate) fn ask_for_help(keeper: &Mutex<UnixStream>) {
    // One that does not read has requests enough; it looks by itself as long as it has not answered them.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = send(&*locked(keeper), &[Request::Help as u8, 0], flags);
}

/// Tells the keeper that nothing happens in the lock ([`Request::Stuck`]). Says nothing where another thread waits for an answer: the
/// keeper is at it, or waits for the lock itself.
pub(crate) fn say_stuck(keeper: &Mutex<UnixStream>) {
    if let Ok(keeper) = keeper.try_lock() {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&*keeper, &[Request::Stuck as u8, 0], flags);
    }
}

/// Hands this process's listener to the keeper.
pub(crate) fn hand_over(keeper: &Mutex<UnixStream>, listener: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let listeners = [listener];
    ancillary.push(SendAncillaryMessage::ScmRights(&listeners));
    let request = [Request::HandOver as u8, 0];
    sendmsg(&*locked(keeper), &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Whatever a panicking thread left in it is whole.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keeper's answer.
fn answer(keeper: &UnixStream) -> Result<Vec<OwnedFd>, Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let received =
        rustix::io::retry_on_intr(|| recvmsg(keeper, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC))?;
    if received.bytes == 0 {
        return Err(Errno::NODEV);
    }
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
        _ => None,
    };
    Ok(ancillary.drain().filter_map(rights).flatten().collect())
}
