//! Two pipes, one in each direction.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::paged::Paged;
use super::transport::{End, Opening, Prepared, Side, Transport};
use crate::error::{Error, JobFault, Result};

pub(super) const PIPE: Transport = Transport {
    name: "pipe",
    not_on_one_cpu: None,
    prepare: |_| {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("pipe2: {error}"));
        let ((request_out, request_in), (reply_out, reply_in)) = (pipe()?, pipe()?);
        Ok(Prepared {
            descriptors: vec![request_out, reply_in, reply_out, request_in],
            limit: None,
            host: None,
        })
    },
    open: |Opening { side, mut descriptors, max_len, .. }| {
        // The server reads requests and writes replies. Each side closes the other side's ends.
        let mine = match side {
            Side::Server => descriptors.drain(..2),
            Side::Client => descriptors.drain(2..),
        };
        let (input, output) = match <[OwnedFd; 2]>::try_from(mine.collect::<Vec<_>>()) {
            Ok([input, output]) => (input, output),
            Err(_) => {
                return Err(JobFault::Descriptors { transport: "pipe", needed: "four descriptors" }.into());
            }
        };
        Ok(Box::new(Pipe { input, output, buffer: Paged::zeroed(max_len) }))
    },
};

struct Pipe {
    input: OwnedFd,
    output: OwnedFd,
    buffer: Paged,
}

impl End for Pipe {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        write_all(&self.output, request)?;
        read_all(&self.input, &mut self.buffer[..request.len()])
    }

    fn reply(&mut self, into: &mut [u8]) {
        into.copy_from_slice(&self.buffer[..into.len()]);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        let Self { input, output, buffer } = self;
        let buffer = &mut buffer[..len];
        for _ in 0..calls {
            read_all(&*input, buffer)?;
            write_all(&*output, buffer)?;
        }
        Ok(())
    }
}

/// Writes everything, in as many calls as needed: a pipe holds 64 KiB, or one page if its user has
/// many pipes.
pub(super) fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(source) => return Err(Error::system("write to the other side", source)),
        }
    }
    Ok(())
}

/// Reads until the buffer is full.
pub(super) fn read_all(fd: impl AsFd, mut bytes: &mut [u8]) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::io::read(&fd, &mut *bytes) {
            Ok(0) => return Err(Error::system("read from the other side", Errno::PIPE)),
            Ok(read) => bytes = &mut bytes[read..],
            Err(Errno::INTR) => {}
            Err(source) => return Err(Error::system("read from the other side", source)),
        }
    }
    Ok(())
}
