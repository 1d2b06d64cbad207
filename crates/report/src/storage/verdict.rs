//! Whether a published finding holds on this machine. Pure: figures in, a verdict out.

use roundtrip_latency::{Comparison, Interval};

/// A difference of up to this share counts as none.
const SMALL: f64 = 0.02;

/// Whether a finding holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// The figures leave it open, or there are none.
    CannotTell,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::CannotTell => "cannot tell",
        }
    }

    /// For programs: `None` if it cannot be told.
    pub(crate) fn reproduced(self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::CannotTell => None,
        }
    }
}

/// Whether a time is longer (`sign` 1) or shorter (-1) with a condition, and in words. A change
/// counts only if chance does not explain it: the interval excludes 1, and the ratio is outside
/// `noise`, the interval of alone against alone.
pub(crate) fn beyond_chance(
    found: Comparison,
    noise: Option<Interval>,
    sign: f64,
) -> (Verdict, &'static str) {
    let (Some(own), Some(noise)) = (found.interval, noise) else {
        return (Verdict::CannotTell, "cannot tell; fewer than 6 rounds");
    };
    let (clear, beyond) = if sign > 0.0 {
        (own.low > 1.0, found.median > noise.high)
    } else {
        (own.high < 1.0, found.median < noise.low)
    };
    if clear && beyond {
        (Verdict::Yes, "yes")
    } else if sign * (found.median - 1.0) > SMALL {
        (Verdict::CannotTell, "cannot tell; alone against alone varied as much, or the rounds differ")
    } else {
        (Verdict::No, "no")
    }
}
