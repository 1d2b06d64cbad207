//! Shared memory and two words that both sides poll without ever blocking: the cost of the memory
//! alone. Keeps two CPUs busy, so it runs only on request.

use std::sync::atomic::{AtomicU32, Ordering};

use super::area::Area;
use super::transport::{End, Opening, Transport};
use crate::error::{Error, Result};

pub(super) const SPIN: Transport = Transport {
    name: "spin",
    not_on_one_cpu: Some(
        "spinning needs two CPUs: on one CPU, each call would wait for the end of a time slice",
    ),
    prepare: super::futex::FUTEX.prepare,
    open: |Opening { descriptors, max_len, .. }| {
        let area = Area::map(&descriptors[0], max_len)
            .map_err(|source| Error::system("map the shared memory", source))?;
        Ok(Box::new(Spin { area, turn: 0 }))
    },
};

struct Spin {
    area: Area,
    /// Calls so far.
    turn: u32,
}

impl End for Spin {
    fn call(&mut self, request: &[u8]) -> Result<()> {
        self.area.put_request(request);
        self.turn = self.turn.wrapping_add(1);
        self.area.request_word().store(self.turn, Ordering::Release);
        spin_until(self.area.reply_word(), self.turn);
        Ok(())
    }

    fn reply(&mut self, into: &mut [u8]) {
        self.area.get_reply(into);
    }

    fn serve(&mut self, len: usize, calls: u64) -> Result<()> {
        for _ in 0..calls {
            self.turn = self.turn.wrapping_add(1);
            spin_until(self.area.request_word(), self.turn);
            self.area.echo(len);
            self.area.reply_word().store(self.turn, Ordering::Release);
        }
        Ok(())
    }
}

fn spin_until(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}
