//! One CPU's pages as one stream of records in chronological order, with the losses between them.
//! Must not know what a record means.

use crate::formats::PageLayout;
use crate::page::{Damaged, Page, Record, Records};
use crate::pages::Pages;
use crate::trace::Loss;

/// How far a CPU's clock may step back between two pages, in nanoseconds. The kernel's fast clock
/// reader documents steps of up to a few microseconds when the clock is adjusted
/// (`ktime_get_mono_fast_ns`). A larger step is damage.
const STEP_BACK_NS: u64 = 10_000;

/// The reading position in one CPU's pages.
pub(crate) struct Cursor<'a> {
    layout: PageLayout,
    pub(crate) cpu: u32,
    pages: Pages<'a>,
    records: Records,
    /// The latest possible time of the current page's records, see [`Cursor::ceiling`].
    ceiling_ns: u64,
    /// When the recording stopped.
    stopped_ns: u64,
    /// The time of the last accepted record; 0 before the first.
    last_ns: u64,
    /// What was lost between that record and the next one.
    missing: Option<Loss>,
}

impl<'a> Cursor<'a> {
    /// Starts before the first record of a CPU's pages.
    pub(crate) fn new(layout: PageLayout, cpu: u32, pages: Pages<'a>, stopped_ns: Option<u64>) -> Self {
        Self {
            layout,
            cpu,
            pages,
            records: Records::default(),
            ceiling_ns: u64::MAX,
            stopped_ns: stopped_ns.unwrap_or(u64::MAX),
            last_ns: 0,
            missing: None,
        }
    }

    /// The next record, which must be accepted or refused before the next call. `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Record<'_>> {
        loop {
            match self.records.next(self.pages.current()) {
                Some(Ok(mut record)) => {
                    if record.time_ns < self.last_ns {
                        if self.last_ns - record.time_ns > STEP_BACK_NS {
                            self.refuse();
                            continue;
                        }
                        record.time_ns = self.last_ns;
                    }
                    if record.time_ns > self.ceiling_ns.saturating_add(STEP_BACK_NS) {
                        self.refuse();
                        continue;
                    }
                    let data = self.pages.current().get(record.at)?;
                    return Some(Record { time_ns: record.time_ns, data });
                }
                Some(Err(Damaged)) => self.refuse(),
                None if self.pages.advance() => self.begin_page(),
                None => return None,
            }
        }
    }

    /// Accepts the record of this time from [`Cursor::next`], and adds the loss before it, if any,
    /// to `losses`.
    #[inline]
    pub(crate) fn accept(&mut self, time_ns: u64, losses: &mut Vec<Loss>) {
        self.last_ns = time_ns;
        if let Some(loss) = self.missing.take() {
            losses.push(Loss { before_ns: time_ns, ..loss });
        }
    }

    /// Refuses the record from [`Cursor::next`], because it or what follows is damaged. Skips the
    /// rest of its page.
    #[cold]
    pub(crate) fn refuse(&mut self) {
        self.records = Records::default();
        self.lose(None, true);
    }

    /// The loss at the end, if any.
    pub(crate) fn finish(&mut self) -> Option<Loss> {
        self.missing.take()
    }

    fn begin_page(&mut self) {
        match Page::parse(self.layout, self.pages.current()) {
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

    /// The latest possible time of the current page's records: the later of the start times of the
    /// next two pages. With two pages, a page with a damaged time does not make the good page
    /// before it look late, and is still noticed itself.
    fn ceiling(&self) -> u64 {
        let next = self.pages.following().filter_map(|next| Page::parse(self.layout, next).ok());
        let believable = next.map(|next| next.time_ns).filter(|time_ns| *time_ns >= self.last_ns);
        believable.max().unwrap_or(u64::MAX).min(self.stopped_ns)
    }

    /// Notes a loss after the last record. Several losses before the next record are combined.
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
