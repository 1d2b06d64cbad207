//! How much of a comparison fits into its time: how many rounds, which conditions not at all, and
//! how long blocks may be. Must not know what a condition is, nor read a clock.

/// From this many rounds on a ratio has a confidence interval: a condition that leaves no time for
/// them is left out.
const ENOUGH_ROUNDS: u32 = 6;

/// What can be done in the time that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fit {
    /// How many rounds, at least one.
    pub(crate) rounds: u32,
    /// The conditions that are left out, by their place.
    pub(crate) left_out: Vec<usize>,
}

/// Fits rounds into the time that is left. `costs_ns` has what a round of each condition takes at
/// least, the control's first: that one and the cheapest of the others are never left out.
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

/// What each block may take beyond what it takes at least, in nanoseconds: the time that is left,
/// without what the rounds to come need, in equal parts.
pub(crate) fn extra_ns(left_ns: u64, round_ns: u64, rounds_left: u32, blocks: usize) -> u64 {
    let rounds_left = u64::from(rounds_left.max(1));
    left_ns.saturating_sub(round_ns.saturating_mul(rounds_left)) / (rounds_left * blocks.max(1) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn all_rounds_of_all_are_made_where_they_fit() {
        let all = Fit { rounds: 9, left_out: vec![] };
        assert_eq!(fit(&[SECOND; 3], 27 * SECOND, 9), all);
        assert_eq!(fit(&[0; 3], 0, 9), Fit { rounds: 1, left_out: vec![] });
    }

    #[test]
    fn rounds_are_given_up_before_conditions_and_the_costliest_of_these_first() {
        assert_eq!(fit(&[SECOND; 3], 20 * SECOND, 9), Fit { rounds: 6, left_out: vec![] });
        let costs = [SECOND, 9 * SECOND, SECOND, 4 * SECOND];
        assert_eq!(fit(&costs, 40 * SECOND, 9), Fit { rounds: 6, left_out: vec![1] });
        assert_eq!(fit(&costs, 14 * SECOND, 9), Fit { rounds: 7, left_out: vec![1, 3] });
        assert_eq!(fit(&costs, 2 * SECOND, 9), Fit { rounds: 1, left_out: vec![1, 3] });
        // Who asks for fewer rounds keeps more.
        assert_eq!(fit(&costs, 15 * SECOND, 1), Fit { rounds: 1, left_out: vec![] });
    }

    #[test]
    fn what_is_left_is_shared_by_the_blocks() {
        assert_eq!(extra_ns(30 * SECOND, 2 * SECOND, 5, 4), SECOND);
        assert_eq!(extra_ns(30 * SECOND, 9 * SECOND, 5, 4), 0);
    }
}
