//! One CPU's pages as one stream of records in the order of time, and what is missing between them. Must not know what a
//! record says.

use crate::formats::PageLayout;
use crate::page::{Damaged, Page, Record, Records};
use crate::trace::Loss;

/// How far a CPU's clock may step back between two pages, in nanoseconds. The kernel's fast clock reader documents steps of up to a
/// few microseconds when the clock is adjusted (`ktime_get_mono_fast_ns`); more than this is damage.
const STEP_BACK_NS: u64 = 10_000;

/// Where one CPU's reading is.
pub(crate) struct Cursor<'a> {
    layout: PageLayout,
    pub(crate) cpu: u32,
    rest: &'a [u8],
    records: Records<'a>,
    /// No record of the current page may be later: the time at which the next page, or the recording's end, begins.
    ceiling_ns: u64,
    /// When the recording stopped.
    stopped_ns: u64,
    /// The time of the record before the current one; 0 before the first.
    last_ns: u64,
    /// The current record, which [`Cursor::advance`] found.
    pub(crate) record: Option<Record<'a>>,
    /// What was lost between the last record and the next.
    missing: Option<Loss>,
}

impl<'a> Cursor<'a> {
    /// Begins before the first record of a CPU's pages.
    pub(crate) fn new(layout: PageLayout, cpu: u32, bytes: &'a [u8], stopped_ns: Option<u64>) -> Self {
        Self {
            layout,
            cpu,
            rest: bytes,
            records: Page::empty().records(),
            ceiling_ns: u64::MAX,
            stopped_ns: stopped_ns.unwrap_or(u64::MAX),
            last_ns: 0,
            record: None,
            missing: None,
        }
    }

    /// Goes to the next record; [`Cursor::record`] is `None` when there is none. What is missing before it is added to `losses`.
    #[inline]
    pub(crate) fn advance(&mut self, losses: &mut Vec<Loss>) {
        if let Some(record) = self.record.take() {
            self.last_ns = record.time_ns;
        }
        loop {
            match self.records.next() {
                Some(Ok(mut record)) => {
                    if record.time_ns < self.last_ns {
                        if self.last_ns - record.time_ns > STEP_BACK_NS {
                            self.give_up_page();
                            continue;
                        }
                        record.time_ns = self.last_ns;
                    }
                    if record.time_ns > self.ceiling_ns.saturating_add(STEP_BACK_NS) {
                        self.give_up_page();
                        continue;
                    }
                    if let Some(loss) = self.missing.take() {
                        losses.push(Loss { before_ns: record.time_ns, ..loss });
                    }
                    self.record = Some(record);
                    return;
                }
                Some(Err(Damaged)) => self.give_up_page(),
                None if self.rest.is_empty() => {
                    losses.extend(self.missing.take());
                    return;
                }
                None => self.next_page(),
            }
        }
    }

    /// Leaves the rest of the current page: the current record, or what follows it, is damaged.
    #[cold]
    pub(crate) fn give_up_page(&mut self) {
        self.record = None;
        self.records = Page::empty().records();
        self.lose(None, true);
    }

    fn next_page(&mut self) {
        let (page, rest) = self.rest.split_at(self.layout.size.min(self.rest.len()));
        self.rest = rest;
        match Page::parse(self.layout, page) {
            Ok(page) => {
                if let Some(events) = page.lost {
                    self.lose(events, false);
                }
                self.records = page.records();
                self.ceiling_ns = self.ceiling();
            }
            Err(Damaged) => self.lose(None, true),
        }
    }

    /// The time of the next page, if it is one that can be: one damaged page must not make good ones look late.
    fn ceiling(&self) -> u64 {
        let next = &self.rest[..self.layout.size.min(self.rest.len())];
        match Page::parse(self.layout, next) {
            Ok(next) if next.time_ns >= self.last_ns => next.time_ns.min(self.stopped_ns),
            _ => self.stopped_ns,
        }
    }

    /// Notes a loss after the last record; several before the next record are one.
    fn lose(&mut self, events: Option<u64>, damaged: bool) {
        let fresh = Loss {
            cpu: self.cpu,
            after_ns: self.last_ns,
            before_ns: u64::MAX,
            events: Some(0),
            damaged: false,
        };
        let loss = self.missing.get_or_insert(fresh);
        loss.events = loss.events.zip(events).map(|(before, more)| before.saturating_add(more));
        loss.damaged |= damaged;
    }
}
