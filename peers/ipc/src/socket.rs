//! A Unix stream socket.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::peer::{Peer, Ready};
use crate::stream::Stream;

pub(crate) const PEER: Peer = Peer {
    name: "unix-stream",
    about: "a Unix stream socket",
    package: None,
    serve,
    connect: |address| {
        let socket = connect(address)?;
        Ok(Box::new(Stream::new(socket.try_clone()?, socket)))
    },
    ends_with_client: false,
};

fn serve(ready: Ready<'_>) -> Result<()> {
    let socket = accept(ready)?;
    Stream::new(&socket, &socket).serve()
}

/// A path for a socket, in the harness's directory, which is the working directory.
pub(crate) fn path() -> Result<PathBuf> {
    let folder = std::env::current_dir().context("the working directory")?;
    Ok(folder.join(format!("socket-{}", std::process::id())))
}

/// Listens, and returns the first connection.
pub(crate) fn accept(ready: Ready<'_>) -> Result<UnixStream> {
    let path = path()?;
    let listener = UnixListener::bind(&path).with_context(|| format!("bind {}", path.display()))?;
    ready(&path.display().to_string())?;
    Ok(listener.accept().context("accept")?.0)
}

pub(crate) fn connect(address: &str) -> Result<UnixStream> {
    UnixStream::connect(address).with_context(|| format!("connect to {address}"))
}
