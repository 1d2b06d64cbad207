//! Two pipes, one each way. The client opens them through /proc.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::peer::{Peer, Ready};
use crate::stream::Stream;

pub(crate) const PEER: Peer = Peer {
    name: "pipe",
    about: "two pipes, one each way",
    package: None,
    serve,
    connect: |address| {
        let (request, reply) = address.split_once(' ').context("an address of two pipes")?;
        let output = File::options().write(true).open(request).with_context(|| format!("open {request}"))?;
        let input = File::open(reply).with_context(|| format!("open {reply}"))?;
        Ok(Box::new(Stream::new(input, output)))
    },
    ends_with_client: false,
};

fn serve(ready: Ready<'_>) -> Result<()> {
    let (request_out, request_in) = pipe_with(PipeFlags::CLOEXEC).context("pipe2")?;
    let (reply_out, reply_in) = pipe_with(PipeFlags::CLOEXEC).context("pipe2")?;
    let path = |end: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd());
    ready(&format!("{} {}", path(&request_in), path(&reply_out)))?;
    // The client's ends stay open here, so the server sees no end of file; the harness kills it.
    Stream::new(File::from(request_out), File::from(reply_in)).serve()
}
