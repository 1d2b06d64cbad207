//! Bios that no request has taken yet. Must not know what a request is for.

use std::collections::{BTreeMap, VecDeque};

use roundtrip_sorting::SmallSort as _;

use super::{Queued, Request};

/// The most writes with flushes around them that a device may have at once, and the most flushes
/// that serve one of them: two, and those that were under way before.
const MOST_PHASED: usize = 1024;
const MOST_FLUSHES: u8 = 8;

/// What waits for a device.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By sector.
    bios: BTreeMap<u64, Vec<Queued>>,
    flushes: Vec<Queued>,
    phased: VecDeque<Phased>,
}

/// A write with flushes around it: one before the data, unless the write depends on no earlier one,
/// and one after the data, unless the device does not need it. Each flush is a separate request.
#[derive(Clone, Copy, Debug)]
struct Phased {
    queued: Queued,
    /// It has no data, so one flush directly follows the other, as in the device mapper.
    empty: bool,
    written: bool,
    /// How many flushes may have served it.
    flushes: u8,
}

impl Waiting {
    pub(super) fn bio(&mut self, queued: Queued) {
        self.bios.entry(queued.sector).or_default().push(queued);
    }

    pub(super) fn flush(&mut self, queued: Queued) {
        self.flushes.push(queued);
    }

    pub(super) fn phased(&mut self, queued: Queued, empty: bool) {
        if self.phased.len() == MOST_PHASED {
            // The event of its end was lost.
            self.phased.pop_front();
        }
        self.phased.push_back(Phased { queued, empty, written: false, flushes: 0 });
    }

    /// Removes what a request takes. Returns when each of its bios was queued, in nanoseconds, and
    /// by which thread. One flush serves all threads that requested one before it is issued.
    pub(super) fn take(&mut self, request: &Request) -> Vec<(u64, u32)> {
        let mut taken = Vec::new();
        if request.flush {
            taken.append(&mut self.flushes);
            self.phased.retain_mut(|phased| {
                taken.push(phased.queued);
                phased.flushes += 1;
                phased.flushes < MOST_FLUSHES
            });
        } else {
            let sectors = request.sector..request.sector.saturating_add(request.sectors.max(1));
            let covered: Vec<u64> = self.bios.range(sectors).map(|(&sector, _)| sector).collect();
            covered.iter().filter_map(|sector| self.bios.remove(sector)).for_each(|bios| taken.extend(bios));
            taken.small_sort_by_key(|queued: &Queued| queued.time_ns);
        }
        taken.into_iter().map(|queued| (queued.time_ns, queued.tid)).collect()
    }

    /// All phases of the write at this sector have ended.
    pub(super) fn end_phases(&mut self, sector: u64) {
        self.phased.retain(|one| one.queued.sector != sector);
    }

    /// A request has ended. A phased write ends with the flush after the data or, without such a
    /// flush, with the data.
    pub(super) fn completed(&mut self, request: &Request, fua: bool) {
        let flush = request.flush;
        self.phased.retain_mut(|one| {
            let later = one.queued.time_ns < request.issued_ns;
            let covered = request.covers(one.queued.sector);
            let over = (flush && later && one.written) || (fua && covered);
            one.written |= covered || (one.empty && flush && later);
            !over
        });
    }
}
