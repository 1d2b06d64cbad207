//! Shared memory and two futexes: the lowest cost of a blocking round trip. All ratios are relative
//! to this transport.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use super::area::{self, Area};
use super::transport::{End, Opening, Prepared, Transport};
use crate::error::{Error, Result};

pub(super) const FUTEX: Transport = Transport {
    name: "futex",
    not_on_one_cpu: None,
    prepare: |max_len| {
        let memory = area::create(max_len).map_err(|error| format!("memfd_create: {error}"))?;
        Ok(Prepared { descriptors: vec![memory], ..Prepared::default() })
    },
    open: |Opening { descriptors, max_len, .. }| {
        let area = Area::map(&descriptors[0], max_len)
            .map_err(|source| Error::system("map the shared memory", source))?;
        Ok(Box::new(Futex { area, turn: 0 }))
    },
};

struct Futex {
    area: Area,
    /// Calls so far; both words have this value between calls.
    turn: u32,
}

impl End for Futex {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        self.area.put_request(request);
        let last = self.turn;
        self.turn = last.wrapping_add(1);
        signal(self.area.request_word(), self.turn)?;
        wait_while(self.area.reply_word(), last)
    }

    fn reply(&mut self, into: &mut [u8]) {
        self.area.get_reply(into);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        for _ in 0..calls {
            let last = self.turn;
            self.turn = last.wrapping_add(1);
            wait_while(self.area.request_word(), last)?;
            self.area.echo(len);
            signal(self.area.reply_word(), self.turn)?;
        }
        Ok(())
    }
}

/// Not FUTEX_PRIVATE_FLAG: the waiter is in another process.
const SHARED: futex::Flags = futex::Flags::empty();

fn signal(word: &AtomicU32, value: u32) -> Result<()> {
    word.store(value, Ordering::Release);
    futex::wake(word, SHARED, 1).map_err(|source| Error::system("wake a futex", source))?;
    Ok(())
}

fn wait_while(word: &AtomicU32, value: u32) -> Result<()> {
    while word.load(Ordering::Acquire) == value {
        match futex::wait(word, SHARED, value, None) {
            // The word has already changed, or a signal arrived: check again.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(source) => return Err(Error::system("wait on a futex", source)),
        }
    }
    Ok(())
}
