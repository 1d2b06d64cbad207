//! The host's share of many calls: its median and confidence bounds. Must not know what it is
//! compared with.

/// The number of standard deviations that bounds a median in 99 of 100 samples.
const DEVIATIONS: f64 = 2.58;

/// The fewest calls for which there are bounds.
const ENOUGH: usize = 9;

/// The number of consecutive parts into which the calls are divided. If the median drifts, it is
/// known no more precisely than the spread of the parts' medians.
const PARTS: usize = 5;

/// Collects the host's share of each call's own time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostShares {
    /// For each call: the share if the device caused all unexplained time, and if it caused none.
    calls: Vec<[f64; 2]>,
    sum_ns: u64,
    waited_ns: u64,
}

/// The host's share, each value from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostShare {
    /// The median over all calls.
    pub median: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// The share of all time that was left out because calls waited behind other tasks.
    pub left_out: f64,
}

impl HostShares {
    /// Adds a call: its duration, and how much of that was at the device, unexplained, or spent
    /// waiting behind other tasks. A call's own time excludes that waiting.
    pub(super) fn add(&mut self, duration_ns: u64, device_ns: u64, unexplained_ns: u64, waited_ns: u64) {
        self.sum_ns += duration_ns;
        self.waited_ns += waited_ns;
        let own_ns = duration_ns.saturating_sub(waited_ns);
        if own_ns > 0 {
            let share = |device_ns: u64| 1.0 - device_ns.min(own_ns) as f64 / own_ns as f64;
            self.calls.push([share(device_ns + unexplained_ns), share(device_ns)]);
        }
    }

    /// The median and its bounds; `None` if there are too few calls. The bounds come from order
    /// statistics, and include the medians of all parts of the run.
    #[must_use]
    pub fn share(&self) -> Option<HostShare> {
        let ((low, _), (_, high)) = (self.bounds(0)?, self.bounds(1)?);
        let median = median(&sorted(&self.calls, 1))?;
        let left_out = self.waited_ns as f64 / self.sum_ns.max(1) as f64;
        Some(HostShare { median, low, high, left_out })
    }

    fn bounds(&self, which: usize) -> Option<(f64, f64)> {
        let all = sorted(&self.calls, which);
        if all.len() < ENOUGH {
            return None;
        }
        let middle = all.len() as f64 / 2.0;
        let reach = DEVIATIONS * (all.len() as f64).sqrt() / 2.0;
        let at = |place: f64| all.get((place.max(0.0) as usize).min(all.len() - 1)).copied();
        let (mut low, mut high) = (at((middle - reach).floor())?, at((middle + reach).ceil())?);
        for part in
            self.calls.chunks(all.len().div_ceil(PARTS).max(ENOUGH)).filter(|part| part.len() >= ENOUGH)
        {
            let median = median(&sorted(part, which))?;
            (low, high) = (low.min(median), high.max(median));
        }
        Some((low, high))
    }
}

fn sorted(calls: &[[f64; 2]], which: usize) -> Vec<f64> {
    let mut all: Vec<f64> = calls.iter().filter_map(|call| call.get(which).copied()).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn median(ascending: &[f64]) -> Option<f64> {
    roundtrip_latency::quantile(ascending, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calls: impl IntoIterator<Item = [u64; 4]>) -> Option<HostShare> {
        let mut shares = HostShares::default();
        for [duration_ns, device_ns, unexplained_ns, waited_ns] in calls {
            shares.add(duration_ns, device_ns, unexplained_ns, waited_ns);
        }
        shares.share()
    }

    #[test]
    fn waiting_behind_others_is_no_part_of_a_call_however_long_and_in_how_many() {
        let quiet = of((0..100).map(|at| [100, 55 + at % 10, 0, 0])).unwrap();
        let some = of((0..100).map(|at| {
            let waited_ns = if at % 3 == 0 { 5_000 } else { 0 };
            [100 + waited_ns, 55 + at % 10, 0, waited_ns]
        }));
        let some = some.unwrap();
        assert_eq!((some.median, some.low, some.high), (quiet.median, quiet.low, quiet.high));
        assert!((quiet.median - 0.4).abs() < 0.02 && quiet.low > 0.35 && quiet.high < 0.46, "{quiet:?}");
        assert!(quiet.left_out == 0.0 && some.left_out > 0.9, "{some:?}");
    }

    #[test]
    fn what_is_unexplained_or_drifts_widens_the_bounds() {
        let unexplained = of((0..100).map(|_| [100, 5, 20, 0])).unwrap();
        assert!(unexplained.low < 0.76 && unexplained.high > 0.94, "{unexplained:?}");
        let drifting = of((0..100).map(|at| [100, if at < 60 { 60 } else { 5 }, 0, 0])).unwrap();
        assert!(drifting.low < 0.41 && drifting.high > 0.94, "{drifting:?}");
    }

    #[test]
    fn a_few_calls_have_no_bounds() {
        assert_eq!(of((0..8).map(|_| [100, 50, 0, 0])), None);
        assert!(of((0..9).map(|_| [100, 50, 0, 0])).is_some());
    }
}
