#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! How a process becomes a participant of a context: it connects to the supervisor, which hands
//! over the memory.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use roundtrip_binder_driver::Profile;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::records::{Id, MAGIC, MAGIC_VALUE, PROFILE, Process};
use crate::region::Region;
use crate::registry::Registry;
use crate::welcome::{DENIED, FULL, NO_FILES, WELCOME, receive_with};

/// A connection to a context, and what the supervisor handed over.
pub(crate) struct Membership {
    pub(crate) connection: UnixStream,
    pub(crate) region: Region,
    pub(crate) profile: Profile,
    pub(crate) slot: Id<Process>,
}

/// Connects to the supervisor at `address`. The kernel reports the calling process's id and user to
/// it.
///
/// A supervisor that many processes join at once may have a full queue for a moment. A stranger's
/// socket may have one forever, and there may be many such sockets. So all waiting of this process
/// together takes at most [`CONNECT_WITHIN_MS`].
pub(crate) fn connect(address: &str) -> io::Result<UnixStream> {
    static WAITED_MS: AtomicU64 = AtomicU64::new(0);
    let address = SocketAddrUnix::new_abstract_name(address.as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    while let Err(errno) = rustix::net::connect(&socket, &address) {
        match errno {
            // unix(7): the queue is full.
            Errno::AGAIN if WAITED_MS.fetch_add(1, Ordering::Relaxed) < CONNECT_WITHIN_MS => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Errno::AGAIN => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no process accepts connections"));
            }
            Errno::INTR => {}
            errno => return Err(errno.into()),
        }
    }
    let connection = UnixStream::from(socket);
    connection.set_nonblocking(false)?;
    Ok(connection)
}

/// Milliseconds; see [`connect`].
const CONNECT_WITHIN_MS: u64 = 5_000;

/// Joins the context at the other end.
pub(crate) fn join(connection: UnixStream) -> Result<Membership, (&'static str, io::Error)> {
    // Another user may have taken the name.
    let supervisor = rustix::net::sockopt::socket_peercred(&connection)
        .map_err(|error| ("ask whose it is", error.into()))?;
    if supervisor.uid != rustix::process::geteuid() {
        return Err((
            "use it",
            io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"),
        ));
    }
    let (slot, file, registry) = receive_region(&connection).map_err(|error| ("be admitted", error))?;
    let region = Registry::map(registry).and_then(|registry| Region::map(file, registry));
    let region = region.map_err(|error| ("map its memory", error.into()))?;
    let profile = profile_of(&region)
        .ok_or_else(|| ("use its memory", io::Error::other("another version's context")))?;
    Ok(Membership { connection, region, profile, slot })
}

/// How long a joining process waits for the supervisor, which answers in microseconds unless it is
/// stopped.
const WELCOME_WITHIN: Duration = Duration::from_secs(30);

fn receive_region(connection: &UnixStream) -> io::Result<(Id<Process>, OwnedFd, OwnedFd)> {
    let mut message = [0; 2];
    connection.set_read_timeout(Some(WELCOME_WITHIN))?;
    let received = receive_with(connection, &mut message, RecvFlags::WAITALL);
    connection.set_read_timeout(None)?;
    let (length, files) = received.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "its supervisor did not answer within 30 s")
        }
        _ => error,
    })?;
    match (length, message[0]) {
        (2, WELCOME) => {}
        (_, FULL) => return Err(io::Error::other("the context is full: 255 processes have joined")),
        (_, NO_FILES) => {
            return Err(io::Error::other(
                "its supervisor cannot open more files: raise the limit of that process (ulimit -n)",
            ));
        }
        (_, DENIED) => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only the supervisor's own user may join",
            ));
        }
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    let mut files = files.into_iter();
    match (Id::new(message[1].into()), files.next(), files.next()) {
        (Some(slot), Some(file), Some(registry)) => Ok((slot, file, registry)),
        // The kernel leaves out descriptors for which the receiver has no room (unix(7)).
        _ => Err(Errno::MFILE.into()),
    }
}

/// The profile that a context was created with; `None` if the memory is not a context of this
/// version.
fn profile_of(region: &Region) -> Option<Profile> {
    let words = region.words();
    if words[MAGIC].load(Ordering::Acquire) != MAGIC_VALUE {
        return None;
    }
    [Profile::Ack, Profile::Mainline]
        .into_iter()
        .find(|&profile| profile as u64 == words[PROFILE].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::welcome::send_with;

    /// The error of a joining process for this answer of its supervisor.
    fn answered(message: &[u8], files: usize) -> Result<usize, String> {
        let (own, supervisor) = UnixStream::pair().expect("sockets");
        send_with(&supervisor, message, &vec![supervisor.as_fd(); files]).expect("room");
        drop(supervisor);
        receive_region(&own).map(|(slot, ..)| slot.index()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_refused_participant_gets_the_reason() {
        assert_eq!(answered(&[WELCOME, 3], 2), Ok(3));
        for (message, says) in [
            (&[FULL][..], "the context is full"),
            (&[NO_FILES], "cannot open more files"),
            (&[DENIED], "only the supervisor's own user"),
            (&[WELCOME], "end of file"),
            (&[99, 3], "end of file"),
        ] {
            let text = answered(message, 0).expect_err("no slot");
            assert!(text.contains(says), "{message:?}: {text}");
        }
        assert!(answered(&[WELCOME, 3], 1).is_err() && answered(&[WELCOME, 0], 2).is_err());
    }

    #[test]
    fn a_participant_waits_for_the_supervisor_while_the_queue_is_full() {
        let name = format!("roundtrip-test-{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        let flags = SocketFlags::CLOEXEC;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let listener = listener.expect("a socket");
        assert!(connect(&name).is_err(), "no socket has the name");
        rustix::net::bind(&listener, &address).expect("a free name");
        rustix::net::listen(&listener, 0).expect("a socket with a name");
        let waiting = connect(&name).expect("the queue holds one");
        assert_eq!(rustix::io::fcntl_getfd(&waiting), Ok(rustix::io::FdFlags::CLOEXEC));
        let later = std::thread::spawn(move || connect(&name).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!later.is_finished(), "the queue is full");
        let accepted = [(); 2].map(|()| rustix::net::accept(&listener).expect("a connection"));
        later.join().expect("no panic").expect("a connection");
        drop((waiting, accepted));
    }

    #[test]
    fn a_context_of_another_version_is_refused() {
        let region = Region::create().expect("memory");
        let words = region.words();
        assert_eq!(profile_of(&region), None);
        words[MAGIC].store(MAGIC_VALUE, Ordering::Relaxed);
        for profile in [Profile::Ack, Profile::Mainline] {
            words[PROFILE].store(profile as u64, Ordering::Relaxed);
            assert_eq!(profile_of(&region), Some(profile));
        }
        words[PROFILE].store(99, Ordering::Relaxed);
        assert_eq!(profile_of(&region), None);
        words[PROFILE].store(Profile::Ack as u64, Ordering::Relaxed);
        words[MAGIC].store(MAGIC_VALUE - 1, Ordering::Relaxed);
        assert_eq!(profile_of(&region), None);
    }
}
