//! Shared memory and two futexes, with one copy each way: the lowest cost of a call that blocks. On
//! one CPU it is the baseline for the other peers.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use roundtrip_binder_driver::RawBytes;
use rustix::io::Errno;
use rustix::thread::futex;

use crate::peer::{Echo, MAX_LEN, Peer, Ready};
use crate::shared::Shared;

pub(crate) const PEER: Peer = Peer {
    name: "futex",
    about: "shared memory and two futexes, one copy each way",
    package: None,
    serve,
    connect: |address| {
        let memory = Shared::open(address, LEN)?;
        Ok(Box::new(Client { memory, turn: 0 }))
    },
    ends_with_client: false,
};

/// The words are in separate cache lines, so that waiting for one does not slow writes to the
/// other.
const REQUEST_TURN: usize = 0;
const REPLY_TURN: usize = 128;
const REQUEST_LEN: usize = 256;
const REQUEST: usize = 4096;
const REPLY: usize = REQUEST + MAX_LEN;
const LEN: usize = REPLY + MAX_LEN;

fn serve(ready: Ready<'_>) -> Result<()> {
    let memory = Shared::create(LEN)?;
    ready(&memory.path())?;
    for turn in 0_u32.. {
        wait_while(memory.word(REQUEST_TURN), turn)?;
        let len = memory.word(REQUEST_LEN).load(Ordering::Relaxed) as usize;
        memory.write(REPLY, memory.read(REQUEST, len));
        signal(memory.word(REPLY_TURN), turn + 1)?;
    }
    Ok(())
}

struct Client {
    memory: Shared,
    /// The number of calls so far. Between calls both words have this value.
    turn: u32,
}

impl Echo for Client {
    fn echo(&mut self, payload: &[u8], take: &mut dyn FnMut(RawBytes<'_>)) -> Result<()> {
        let Client { memory, turn } = self;
        memory.write(REQUEST, payload);
        memory.word(REQUEST_LEN).store(payload.len() as u32, Ordering::Relaxed);
        let last = *turn;
        *turn += 1;
        signal(memory.word(REQUEST_TURN), *turn)?;
        wait_while(memory.word(REPLY_TURN), last)?;
        take(memory.read(REPLY, payload.len()).into());
        Ok(())
    }
}

/// A shared futex, because the waiter is in another process.
const SHARED: futex::Flags = futex::Flags::empty();

fn signal(word: &AtomicU32, value: u32) -> Result<()> {
    word.store(value, Ordering::Release);
    futex::wake(word, SHARED, 1).context("FUTEX_WAKE")?;
    Ok(())
}

fn wait_while(word: &AtomicU32, value: u32) -> Result<()> {
    while word.load(Ordering::Acquire) == value {
        match futex::wait(word, SHARED, value, None) {
            // The word has already changed, or a signal arrived: check again.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error).context("FUTEX_WAIT"),
        }
    }
    Ok(())
}
