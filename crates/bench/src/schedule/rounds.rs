//! How much of a comparison fits into its time: how many rounds, which conditions to leave out, and
//! how long blocks may be. Must not know what a condition is, nor read a clock.

/// The fewest rounds for which a ratio has a confidence interval. Conditions that leave no time for
/// them are left out.
const ENOUGH_ROUNDS: u32 = 6;

/// What fits into the remaining time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fit {
    /// The number of rounds, at least one.
    pub(crate) rounds: u32,
    /// Indices of the conditions that are left out.
    pub(crate) left_out: Vec<usize>,
}

/// Fits rounds into the remaining time. `costs_ns` is the minimum duration of a round of each
/// condition, the control first. The control and the cheapest other condition are never left out.
pub(crate) fn fit(costs_ns: &[u64], left_ns: u64, rounds: u32) -> Fit {
    let wanted = u64::from(rounds.clamp(1, ENOUGH_ROUNDS));
    let mut left_out = Vec::new();
    let mut kept: Vec<usize> = (0..costs_ns.len()).collect();
    let sum = |kept: &[usize]| kept.iter().filter_map(|&at| costs_ns.get(at)).sum::<u64>();
    while kept.len() > 2 && sum(&kept).saturating_mul(wanted) > left_ns {
        let costliest = kept.iter().copied().skip(1).max_by_key(|&at| costs_ns.get(at));
        kept.retain(|&at| Some(at) != costliest);
        left_out.extend(costliest);
    }
    left_out.sort_unstable();
    let fitting = left_ns / sum(&kept).max(1);
    Fit { rounds: u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, rounds.max(1)), left_out }
}

/// How much longer than its minimum each block may take, in nanoseconds: the remaining time, less
/// the minimum of the remaining rounds, divided equally.
pub(crate) fn extra_ns(left_ns: u64, round_ns: u64, rounds_left: u32, blocks: usize) -> u64 {
    let rounds_left = u64::from(rounds_left.max(1));
    left_ns.saturating_sub(round_ns.saturating_mul(rounds_left)) / (rounds_left * blocks.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn all_rounds_of_all_conditions_are_made_if_they_fit() {
        let all = Fit { rounds: 9, left_out: vec![] };
        assert_eq!(fit(&[SECOND; 3], 27 * SECOND, 9), all);
        assert_eq!(fit(&[0; 3], 0, 9), Fit { rounds: 1, left_out: vec![] });
    }

    #[test]
    fn rounds_are_reduced_before_the_most_expensive_conditions_are_left_out() {
        assert_eq!(fit(&[SECOND; 3], 20 * SECOND, 9), Fit { rounds: 6, left_out: vec![] });
        let costs = [SECOND, 9 * SECOND, SECOND, 4 * SECOND];
        assert_eq!(fit(&costs, 40 * SECOND, 9), Fit { rounds: 6, left_out: vec![1] });
        assert_eq!(fit(&costs, 14 * SECOND, 9), Fit { rounds: 7, left_out: vec![1, 3] });
        assert_eq!(fit(&costs, 2 * SECOND, 9), Fit { rounds: 1, left_out: vec![1, 3] });
        // A user who requests fewer rounds keeps more conditions.
        assert_eq!(fit(&costs, 15 * SECOND, 1), Fit { rounds: 1, left_out: vec![] });
    }

    #[test]
    fn the_remaining_time_is_divided_among_the_blocks() {
        assert_eq!(extra_ns(30 * SECOND, 2 * SECOND, 5, 4), SECOND);
        assert_eq!(extra_ns(30 * SECOND, 9 * SECOND, 5, 4), 0);
    }
}
