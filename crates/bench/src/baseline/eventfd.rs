//! Shared memory and two eventfds: wakeups through a file descriptor instead of a futex.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, retry_on_intr, write};

use super::area::{self, Area};
use super::transport::{End, Opening, Prepared, Side, Transport};
use crate::error::{Error, Result};

pub(super) const EVENTFD: Transport = Transport {
    name: "eventfd",
    not_on_one_cpu: None,
    prepare: |max_len| {
        let memory = area::create(max_len).map_err(|error| format!("memfd_create: {error}"))?;
        let event = || eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| format!("eventfd2: {error}"));
        Ok(Prepared { descriptors: vec![memory, event()?, event()?], ..Prepared::default() })
    },
    open: |Opening { side, mut descriptors, max_len, .. }| {
        let area = Area::map(&descriptors[0], max_len)
            .map_err(|source| Error::system("map the shared memory", source))?;
        let (reply, request) = (descriptors.remove(2), descriptors.remove(1));
        let (mine, theirs) = match side {
            Side::Client => (reply, request),
            Side::Server => (request, reply),
        };
        Ok(Box::new(Eventfd { area, mine, theirs }))
    },
};

struct Eventfd {
    area: Area,
    /// What this side waits on.
    mine: OwnedFd,
    /// What the other side waits on.
    theirs: OwnedFd,
}

impl End for Eventfd {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        self.area.put_request(request);
        signal(&self.theirs)?;
        wait(&self.mine)
    }

    fn reply(&mut self, into: &mut [u8]) {
        self.area.get_reply(into);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        for _ in 0..calls {
            wait(&self.mine)?;
            self.area.echo(len);
            signal(&self.theirs)?;
        }
        Ok(())
    }
}

fn signal(fd: impl AsFd) -> Result<()> {
    retry_on_intr(|| write(&fd, &1_u64.to_ne_bytes()))
        .map_err(|source| Error::system("write to an eventfd", source))?;
    Ok(())
}

fn wait(fd: impl AsFd) -> Result<()> {
    let mut count = [0; 8];
    retry_on_intr(|| read(&fd, &mut count))
        .map_err(|source| Error::system("read from an eventfd", source))?;
    Ok(())
}
