//! One side of a transport in its worker process: opens it, then runs the blocks that the parent
//! requests. Must not know what a block is compared with.

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use super::paged::Paged;
use super::transport::{Opening, Place, Side};
use super::transports::TRANSPORTS;
use crate::clock::now_ns;
use crate::error::{Error, JobFault, Result};
use crate::ipc::Endpoint;
use crate::worker::{Link, Work, privileges};

/// The most calls in one block: the number of latencies that memory is allocated for.
pub(super) const MAX_CALLS: u64 = 50_000;

/// The worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct BaselineJob {
    pub(super) transport: String,
    pub(super) side: Side,
    pub(super) max_len: usize,
    pub(super) endpoint: Option<Endpoint>,
}

/// The worker's first answer: whether it could open its side, and why not.
pub(super) type Opened = Result<Wakes, String>;

/// How the emulated driver wakes this side's threads; `None` if the transport does not use it.
pub(super) type Wakes = Option<String>;

/// A series of calls of one size with given placements. Both sides get the same block, apart from
/// `place`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Block {
    pub(super) len: usize,
    /// Untimed calls.
    pub(super) warm_up: u64,
    /// Timed calls, up to [`MAX_CALLS`].
    pub(super) calls: u64,
    /// Where this side runs.
    pub(super) place: Place,
}

impl Work for BaselineJob {
    const NAME: &'static str = "baseline";
    /// With CAP_SYS_RESOURCE it may exceed the limits of message queues and pipes.
    const KEEPS: CapabilitySet = privileges::USUAL.union(CapabilitySet::SYS_RESOURCE);

    fn run(self, link: &mut Link) -> Result<()> {
        let Some(((), descriptors)) = link.receive_with_descriptors()? else { return Ok(()) };
        let transport = TRANSPORTS
            .iter()
            .find(|transport| transport.name == self.transport)
            .ok_or_else(|| JobFault::UnknownTransport { name: self.transport.clone() })?;
        let opening =
            Opening { side: self.side, descriptors, max_len: self.max_len, endpoint: self.endpoint };
        let mut end = match (transport.open)(opening) {
            Ok(end) => end,
            Err(error) => {
                link.send(&Opened::Err(error.to_string()))?;
                return Ok(());
            }
        };
        link.send(&Opened::Ok(end.wake_up()))?;

        let mut request = Paged::zeroed(self.max_len);
        // Filled once, so that its pages are resident when calls are timed.
        let mut latencies_ns = vec![u64::MAX; if self.side == Side::Client { MAX_CALLS as usize } else { 0 }];
        let mut seed = 0_u8;
        while let Some(block) = link.receive::<Block>()? {
            end.settle(&block.place)?;
            if self.side == Side::Server {
                end.serve(block.len, block.warm_up + block.calls)?;
                continue;
            }
            seed = seed.wrapping_add(1);
            let request = &mut request[..block.len];
            request.iter_mut().zip(0_usize..).for_each(|(byte, i)| *byte = (i % 251) as u8 ^ seed);
            for _ in 0..block.warm_up {
                end.call(request)?;
            }
            latencies_ns.clear();
            for _ in 0..block.calls {
                let start_ns = now_ns();
                end.call(request)?;
                latencies_ns.push(now_ns() - start_ns);
            }
            let mut echo = vec![0; block.len];
            end.reply(&mut echo);
            if echo != request {
                let reason = format!("the echo of {} bytes differs from the request", block.len);
                return Err(Error::GarbledFrame { from: self.transport, reason });
            }
            link.send(&latencies_ns)?;
        }
        Ok(())
    }
}
