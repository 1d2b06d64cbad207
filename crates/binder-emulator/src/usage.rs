//! How much of a context's memory is in use: records by kind, and bytes. For tests that nothing is
//! left behind, and for watching a context that runs for long.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::process::FREE;
use crate::records::{Buffer, Id, Node, PROCESSES, Process, Record, Ref, Thread, Transaction, Work, process};

/// What a context uses at a moment. With the same participants and no call under way, two moments
/// are equal, except for the memory, which is kept for reuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes that have joined, and processes that have left while a sender still copies into
    /// their area.
    pub processes: u32,
    /// Threads that have used the driver.
    pub threads: u32,
    /// Local objects.
    pub nodes: u32,
    /// References on them: handles.
    pub references: u32,
    /// Calls and replies in flight.
    pub transactions: u32,
    /// Ranges of receive areas, in use or free.
    pub buffers: u32,
    /// Entries of queues, and requested death notifications.
    pub work: u32,
    /// Bytes of memory that the context's file holds.
    pub memory_bytes: u64,
}

impl Guard<'_> {
    /// What the context uses now. Takes as long as its lists of free records are.
    pub(crate) fn usage(&self) -> Result<Usage, Errno> {
        let processes = (1..PROCESSES as u64).filter_map(Id::<Process>::new);
        let blocks = rustix::fs::fstat(self.region().file())?.st_blocks;
        Ok(Usage {
            processes: processes.filter(|&slot| self.get(slot, process::STATE) != FREE).count() as u32,
            threads: self.in_use::<Thread>(),
            nodes: self.in_use::<Node>(),
            references: self.in_use::<Ref>(),
            transactions: self.in_use::<Transaction>(),
            buffers: self.in_use::<Buffer>(),
            work: self.in_use::<Work>(),
            // stat(2): blocks are of 512 bytes.
            memory_bytes: u64::try_from(blocks).unwrap_or(0).saturating_mul(512),
        })
    }

    /// Records that were given out: those ever used, less those in the free list.
    fn in_use<R: Record>(&self) -> u32 {
        let ever = self.word(R::UNUSED).saturating_sub(1).min(R::COUNT as u64) as u32;
        let first = Id::<R>::new(self.word(R::HEAD));
        let next = |&id: &Id<R>| self.step(Id::new(self.word(id.words().start)));
        let free = std::iter::successors(self.step(first), next).take(ever as usize).count();
        ever.saturating_sub(free as u32)
    }
}
