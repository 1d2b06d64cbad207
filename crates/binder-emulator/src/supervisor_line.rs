//! A participant's end of its connection to the supervisor: what it can request, and how. This file
//! does not know the purpose of a request.

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

/// A participant's request to the supervisor: two bytes, this and a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Request {
    /// Both ends of its own inbox. The answer is one byte and two descriptors.
    Inbox = 1,
    /// The write end of another process's inbox. The answer is one byte and a descriptor, or none.
    Outbox = 2,
    /// To drop messages in an inbox that no process will take. No answer.
    Sweep = 3,
    /// Another process's seccomp listener (`seccomp.rs`). The answer is one byte and a descriptor,
    /// or none.
    Listener = 4,
    /// To keep the sender's own seccomp listener, which is sent along. The answer is one byte: 1 if
    /// it is kept.
    HandOver = 5,
    /// To wake claimed threads that the sender could not wake (`lock/wake.rs`). No answer.
    Help = 6,
    /// To check the lock too, because its owner makes no progress. No answer.
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

/// The connection to the supervisor, locked while an answer is due.
pub(crate) type ToSupervisor = Arc<Mutex<UnixStream>>;

/// Asks the supervisor for descriptors. Must not be called under the context's lock, which the
/// supervisor may be waiting for.
pub(crate) fn ask(supervisor: &Mutex<UnixStream>, request: Request, slot: u8) -> Result<Vec<OwnedFd>, Errno> {
    let mut supervisor = locked(supervisor);
    supervisor.write_all(&[request as u8, slot]).map_err(|_| Errno::NODEV)?;
    answer(&supervisor).map(|(_, descriptors)| descriptors)
}

/// Asks the supervisor to wake claimed threads ([`Request::Help`]).
pub(crate) fn ask_for_help(supervisor: &Mutex<UnixStream>) {
    // If the socket is full, the supervisor already has such requests, and checks until it has
    // handled them.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = send(&*locked(supervisor), &[Request::Help as u8, 0], flags);
}

/// Reports to the supervisor that the lock's owner makes no progress ([`Request::Stuck`]). Sends
/// nothing if another thread waits for an answer: the supervisor is working on it, or waits for the
/// lock itself.
pub(crate) fn say_stuck(supervisor: &Mutex<UnixStream>) {
    if let Ok(supervisor) = supervisor.try_lock() {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&*supervisor, &[Request::Stuck as u8, 0], flags);
    }
}

/// Hands this process's listener to the supervisor. Must not be called under the context's lock.
///
/// # Errors
/// EMFILE if the supervisor cannot keep it, for lack of descriptors.
pub(crate) fn hand_over(supervisor: &Mutex<UnixStream>, listener: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let listeners = [listener];
    ancillary.push(SendAncillaryMessage::ScmRights(&listeners));
    let request = [Request::HandOver as u8, 0];
    let supervisor = locked(supervisor);
    sendmsg(&*supervisor, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?;
    match answer(&supervisor)? {
        (1, _) => Ok(()),
        _ => Err(Errno::MFILE),
    }
}

/// Locks a mutex, also after a panic: no panic leaves its data inconsistent.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The supervisor's answer: a byte and descriptors.
fn answer(supervisor: &UnixStream) -> Result<(u8, Vec<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(supervisor, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Err(Errno::NODEV);
    }
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
        _ => None,
    };
    let descriptors = ancillary.drain().filter_map(rights).flatten().collect();
    Ok((byte[0], descriptors))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_byte_is_one_request_or_none() {
        use Request::*;
        for request in [Inbox, Outbox, Sweep, Listener, HandOver, Help, Stuck] {
            assert_eq!(Request::from_byte(request as u8), Some(request));
        }
        assert_eq!([0, 8, 255].map(Request::from_byte), [None; 3]);
    }

    #[test]
    fn a_request_for_help_does_not_wait_for_the_supervisor() {
        let (own, supervisor) = UnixStream::pair().expect("sockets");
        let own = Arc::new(Mutex::new(own));
        locked(&own).set_nonblocking(true).expect("a socket");
        while send(&*locked(&own), &[0; 2], SendFlags::NOSIGNAL).is_ok() {}
        locked(&own).set_nonblocking(false).expect("a socket");
        let (done, returned) = channel();
        std::thread::spawn(move || {
            ask_for_help(&own);
            say_stuck(&own);
            done.send(own).expect("a test that waits");
        });
        let own = returned
            .recv_timeout(Duration::from_secs(20))
            .expect("they return although the supervisor does not read");
        // While another thread waits for an answer, nothing is sent.
        let asking = locked(&own);
        say_stuck(&own);
        drop(asking);
        drop(supervisor);
        ask_for_help(&own);
        assert_eq!(ask(&own, Request::Inbox, 0).map(|fds| fds.len()), Err(Errno::NODEV));
    }

    #[test]
    fn a_supervisor_answers_with_descriptors_or_closes() {
        let (own, supervisor) = UnixStream::pair().expect("sockets");
        let own = Mutex::new(own);
        let answered = std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let mut request = [0; 2];
                (&supervisor).read_exact(&mut request).expect("a request");
                crate::welcome::send_with(&supervisor, &[0], &[supervisor.as_fd(); 2]).expect("room");
                request
            });
            let answered = ask(&own, Request::Outbox, 7).map(|fds| fds.len());
            assert_eq!(asked.join().expect("no panic"), [Request::Outbox as u8, 7]);
            answered
        });
        assert_eq!(answered, Ok(2));
        // The answers lie there before the requests.
        for (kept, expected) in [(1, Ok(())), (0, Err(Errno::MFILE))] {
            crate::welcome::send_with(&supervisor, &[kept], &[]).expect("room");
            assert_eq!(hand_over(&own, supervisor.as_fd()), expected);
            let mut request = [0; 2];
            let flags = RecvFlags::empty();
            let (length, files) =
                crate::welcome::receive_with(&supervisor, &mut request, flags).expect("a request");
            assert_eq!((length, files.len(), request), (2, 1, [Request::HandOver as u8, 0]));
        }
        // The connection is closed without an answer.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (&supervisor).read_exact(&mut [0; 2]).expect("a request");
                drop(supervisor);
            });
            assert_eq!(ask(&own, Request::Inbox, 0).map(|fds| fds.len()), Err(Errno::NODEV));
        });
    }
}
