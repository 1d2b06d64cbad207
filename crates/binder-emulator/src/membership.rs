#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! How a process becomes a participant of a context: it connects to the keeper, which hands over the memory.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binder_driver::Profile;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::records::{Id, MAGIC, MAGIC_VALUE, PROFILE, Process};
use crate::region::Region;
use crate::roster::Roster;
use crate::welcome::{DENIED, FULL, NO_FILES, WELCOME, receive_with};

/// A connection to a context, and what the keeper handed over.
pub(crate) struct Membership {
    pub(crate) connection: UnixStream,
    pub(crate) region: Region,
    pub(crate) profile: Profile,
    pub(crate) slot: Id<Process>,
}

/// Connects to the keeper at `address`. The kernel tells it the calling process's name and user.
///
/// A keeper that many join at once may have a full queue for a moment. A stranger's socket may have one for ever, and there
/// may be many of them: all waiting of this process takes no longer than [`CONNECT_WITHIN_MS`].
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
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody accepts connections"));
            }
            Errno::INTR => {}
            errno => return Err(errno.into()),
        }
    }
    let connection = UnixStream::from(socket);
    connection.set_nonblocking(false)?;
    Ok(connection)
}

/// See [`connect`].
const CONNECT_WITHIN_MS: u64 = 5_000;

/// Joins the context at the other end.
pub(crate) fn join(connection: UnixStream) -> Result<Membership, (&'static str, io::Error)> {
    // The name could have been taken by someone else.
    let keeper =
        rustix::net::sockopt::socket_peercred(&connection).map_err(|error| ("peer", error.into()))?;
    if keeper.uid != rustix::process::geteuid() {
        return Err(("peer", io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user")));
    }
    let (slot, file, roster) = receive_region(&connection).map_err(|error| ("handshake", error))?;
    let region = Roster::map(roster).and_then(|roster| Region::map(file, roster));
    let region = region.map_err(|error| ("memory", error.into()))?;
    let profile =
        profile_of(&region).ok_or_else(|| ("memory", io::Error::other("another version's context")))?;
    Ok(Membership { connection, region, profile, slot })
}

/// How long one that joins waits for the keeper, which answers in microseconds unless it is stopped.
const WELCOME_WITHIN: Duration = Duration::from_secs(30);

fn receive_region(connection: &UnixStream) -> io::Result<(Id<Process>, OwnedFd, OwnedFd)> {
    let mut message = [0; 2];
    connection.set_read_timeout(Some(WELCOME_WITHIN))?;
    let received = receive_with(connection, &mut message, RecvFlags::WAITALL);
    connection.set_read_timeout(None)?;
    let (length, files) = received.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "its keeper did not answer within 30 s")
        }
        _ => error,
    })?;
    match (length, message[0]) {
        (2, WELCOME) => {}
        (_, FULL) => return Err(io::Error::other("the context is full: 255 processes have joined")),
        (_, NO_FILES) => {
            return Err(io::Error::other(
                "the process that keeps it can open no more files: raise its limit (ulimit -n)",
            ));
        }
        (_, DENIED) => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only the keeper's own user may join",
            ));
        }
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    let mut files = files.into_iter();
    match (Id::new(message[1].into()), files.next(), files.next()) {
        (Some(slot), Some(file), Some(roster)) => Ok((slot, file, roster)),
        // The kernel leaves out descriptors for which the receiver has no room (unix(7)).
        _ => Err(Errno::MFILE.into()),
    }
}

/// The profile that a context was created with; `None` when the memory is not a context of this version.
fn profile_of(region: &Region) -> Option<Profile> {
    let words = region.words();
    if words[MAGIC].load(Ordering::Acquire) != MAGIC_VALUE {
        return None;
    }
    [Profile::Ack, Profile::Mainline]
        .into_iter()
        .find(|&profile| profile as u64 == words[PROFILE].load(Ordering::Relaxed))
}
