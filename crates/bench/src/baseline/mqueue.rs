//! Two POSIX message queues, one in each direction. The parent unlinks each queue as soon as it has
//! created it, so no name remains.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::mqueue_sys as sys;
use super::paged::Paged;
use super::transport::{End, Opening, Prepared, Side, Transport};
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::kernel::root::Root;

pub(super) const MQUEUE: Transport = Transport {
    name: "mqueue",
    not_on_one_cpu: None,
    prepare,
    open: |Opening { side, mut descriptors, max_len, .. }| {
        let (reply, request) = (descriptors.remove(1), descriptors.remove(0));
        let (input, output) = match side {
            Side::Client => (reply, request),
            Side::Server => (request, reply),
        };
        Ok(Box::new(Mqueue { input, output, buffer: Paged::zeroed(max_len) }))
    },
};

fn prepare(max_len: usize) -> Result<Prepared, String> {
    match queues(max_len) {
        Ok(descriptors) => Ok(Prepared { descriptors, ..Prepared::default() }),
        // EINVAL: the message is longer than fs.mqueue.msgsize_max, which only CAP_SYS_RESOURCE may
        // exceed.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let limit: usize = Root::real()
                .number("proc/sys/fs/mqueue/msgsize_max")
                .filter(|&limit| limit < max_len)
                .ok_or_else(|| format!("mq_open: {error}"))?;
            let descriptors = queues(limit).map_err(explain)?;
            Ok(Prepared {
                descriptors,
                limit: Some((limit, "fs.mqueue.msgsize_max".into())),
                ..Prepared::default()
            })
        }
        Err(error) => Err(explain(error)),
    }
}

fn explain(error: io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => " (this kernel has no POSIX message queues)",
        Some(libc::EMFILE) => " (RLIMIT_MSGQUEUE, `ulimit -q`, is too small)",
        Some(libc::ENOSPC) => " (fs.mqueue.queues_max is reached)",
        _ => "",
    };
    format!("mq_open: {error}{why}")
}

fn queues(max_len: usize) -> io::Result<Vec<OwnedFd>> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    (0..2)
        .map(|_| {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            // The name contains the time, so that no other process can guess it and create the
            // queue first.
            let name = CString::new(format!("roundtrip-{}-{}-{count}", std::process::id(), now_ns()))?;
            sys::create_unlinked(&name, max_len)
        })
        .collect()
}

struct Mqueue {
    input: OwnedFd,
    output: OwnedFd,
    /// As long as the queue's longest message: the kernel refuses a shorter buffer.
    buffer: Paged,
}

impl Mqueue {
    fn receive(&mut self, len: usize) -> Result<()> {
        let received = retry(|| sys::receive(self.input.as_fd(), &mut self.buffer))
            .map_err(|source| Error::system("receive from a message queue", source))?;
        if received == len {
            return Ok(());
        }
        let short = io::Error::other(format!("received {received} of {len} bytes"));
        Err(Error::system("receive from a message queue", short))
    }
}

impl End for Mqueue {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        send(&self.output, request)?;
        self.receive(request.len())
    }

    fn reply(&mut self, into: &mut [u8]) {
        into.copy_from_slice(&self.buffer[..into.len()]);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        for _ in 0..calls {
            self.receive(len)?;
            send(&self.output, &self.buffer[..len])?;
        }
        Ok(())
    }
}

fn send(queue: &OwnedFd, message: &[u8]) -> Result<()> {
    retry(|| sys::send(queue.as_fd(), message))
        .map_err(|source| Error::system("send to a message queue", source))
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
