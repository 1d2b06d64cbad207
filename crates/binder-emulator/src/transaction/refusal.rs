//! [`Refusal`]: why a transaction was refused, and the reports for both sides.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::records::{Id, Thread, thread};
use roundtrip_binder_driver::uapi::{BR_DEAD_REPLY, BR_FAILED_REPLY, BR_FROZEN_REPLY};

/// Why a transaction was refused: what its sender (or, for a reply, the thread that waits for it)
/// reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// `BR_DEAD_REPLY`, `BR_FAILED_REPLY` or `BR_FROZEN_REPLY`.
    pub(super) number: u32,
    /// What `BINDER_GET_EXTENDED_ERROR` reports as well: a negative errno, or 0 as in the kernel's
    /// driver.
    param: i32,
}

impl Refusal {
    /// The target has gone, which is only found when the transaction is ready.
    pub(crate) const DEAD: Self = Self { number: BR_DEAD_REPLY, param: 0 };
    /// The target is frozen.
    pub(super) const FROZEN: Self = Self { number: BR_FROZEN_REPLY, param: 0 };

    pub(super) fn dead(errno: Errno) -> Self {
        Self { number: BR_DEAD_REPLY, param: errno.raw_os_error().wrapping_neg() }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { number: BR_FAILED_REPLY, param: errno.raw_os_error().wrapping_neg() }
    }
}

impl Guard<'_> {
    /// Notes for `BINDER_GET_EXTENDED_ERROR` why transaction `number` was refused.
    pub(super) fn note_refusal(&mut self, of: Id<Thread>, number: u64, refusal: Refusal) {
        self.set(of, thread::ERROR_NUMBER, number);
        self.set(of, thread::ERROR_RETURN, refusal.number);
        self.set(of, thread::ERROR_PARAM, refusal.param);
    }
}
