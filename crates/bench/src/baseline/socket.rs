//! Unix sockets: SOCK_STREAM, and SOCK_SEQPACKET, which preserves packet boundaries.

use std::os::fd::OwnedFd;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::paged::Paged;
use super::pipe::{read_all, write_all};
use super::transport::{End, Opening, Prepared, Side, Transport};
use crate::error::{Error, JobFault, Result};

pub(super) const STREAM: Transport = Transport {
    name: "unix-stream",
    not_on_one_cpu: None,
    prepare: |_| Ok(Prepared { descriptors: pair(SocketType::STREAM)?.into(), ..Prepared::default() }),
    open: |opening| {
        let buffer = Paged::zeroed(opening.max_len);
        Ok(Box::new(Stream { socket: own(opening)?, buffer }))
    },
};

pub(super) const SEQPACKET: Transport = Transport {
    name: "unix-seqpacket",
    not_on_one_cpu: None,
    prepare: |max_len| {
        let sockets = pair(SocketType::SEQPACKET)?;
        let mut limit = usize::MAX;
        for socket in &sockets {
            // A packet must fit into the send buffer as a whole. The kernel doubles the requested
            // size, up to twice net.core.wmem_max, and reports the doubled size (socket(7)).
            let _ = set_socket_send_buffer_size(socket, max_len.max(64 * 1024));
            let buffer = socket_send_buffer_size(socket).map_err(|error| format!("getsockopt: {error}"))?;
            // net/unix/af_unix.c: len > sk_sndbuf - 32 is EMSGSIZE.
            limit = limit.min(buffer.saturating_sub(32));
        }
        let limit = (limit < max_len)
            .then(|| (limit, "a packet must fit into the send buffer (net.core.wmem_max)".into()));
        Ok(Prepared { descriptors: sockets.into(), limit, ..Prepared::default() })
    },
    open: |opening| {
        let buffer = Paged::zeroed(opening.max_len);
        Ok(Box::new(Packets { socket: own(opening)?, buffer }))
    },
};

fn pair(kind: SocketType) -> Result<[OwnedFd; 2], String> {
    let (client, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(|error| format!("socketpair: {error}"))?;
    Ok([client, server])
}

/// Takes this side's socket, and closes the other.
fn own(Opening { side, descriptors, .. }: Opening) -> Result<OwnedFd> {
    let index = match side {
        Side::Client => 0,
        Side::Server => 1,
    };
    descriptors
        .into_iter()
        .nth(index)
        .ok_or_else(|| JobFault::Descriptors { transport: "socket", needed: "two descriptors" }.into())
}

struct Stream {
    socket: OwnedFd,
    buffer: Paged,
}

impl End for Stream {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        write_all(&self.socket, request)?;
        read_all(&self.socket, &mut self.buffer[..request.len()])
    }

    fn reply(&mut self, into: &mut [u8]) {
        into.copy_from_slice(&self.buffer[..into.len()]);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        let buffer = &mut self.buffer[..len];
        for _ in 0..calls {
            read_all(&self.socket, buffer)?;
            write_all(&self.socket, buffer)?;
        }
        Ok(())
    }
}

struct Packets {
    socket: OwnedFd,
    buffer: Paged,
}

impl End for Packets {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        send_packet(&self.socket, request)?;
        receive_packet(&self.socket, &mut self.buffer[..request.len()])
    }

    fn reply(&mut self, into: &mut [u8]) {
        into.copy_from_slice(&self.buffer[..into.len()]);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        let buffer = &mut self.buffer[..len];
        for _ in 0..calls {
            receive_packet(&self.socket, buffer)?;
            send_packet(&self.socket, buffer)?;
        }
        Ok(())
    }
}

fn send_packet(socket: &OwnedFd, bytes: &[u8]) -> Result<()> {
    retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL))
        .map_err(|source| Error::system("send a packet", source))?;
    Ok(())
}

fn receive_packet(socket: &OwnedFd, into: &mut [u8]) -> Result<()> {
    let (_, length) = retry_on_intr(|| recv(socket, &mut *into, RecvFlags::empty()))
        .map_err(|source| Error::system("receive a packet", source))?;
    if length == into.len() {
        return Ok(());
    }
    // A packet of length 0 looks like the end of the connection. No side sends one here.
    Err(Error::system(
        "receive a packet",
        std::io::Error::other(format!("received {length} of {} bytes", into.len())),
    ))
}
