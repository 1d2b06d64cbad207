//! What came of a program's runs with and without observers, as ratios with intervals and as a
//! table. Must not know how anything was run.

use std::fmt::Write as _;

use roundtrip_latency::quantile;
use roundtrip_latency::two_samples::{Shift, paired};

use super::observer::Seen;

/// A run that was observed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The program's operations a second.
    pub(crate) rate: f64,
    pub(crate) seen: Seen,
}

/// A program's runs so far.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Operations a second without an observer.
    pub(crate) alone: Vec<f64>,
    /// By binary.
    pub(crate) observed: Vec<Vec<Block>>,
}

impl Blocks {
    pub(crate) fn new(binaries: usize) -> Self {
        Self { alone: Vec::new(), observed: vec![Vec::new(); binaries] }
    }

    /// The latest runs in one line.
    pub(crate) fn last(&self, name: &str) -> String {
        let mut line = format!("{name} {:.0}/s", self.alone.last().copied().unwrap_or(f64::NAN));
        for block in self.observed.iter().filter_map(|blocks| blocks.last()) {
            let _ = write!(
                line,
                "; observed {:.0}/s, {} calls seen, {} events lost, observer {:.0}% of a CPU",
                block.rate,
                block.seen.calls,
                block.seen.lost_events,
                block.cpu_share() * 100.0
            );
        }
        line
    }

    fn rates(&self, binary: usize) -> Vec<f64> {
        self.observed[binary].iter().map(|block| block.rate).collect()
    }
}

impl Block {
    fn cpu_share(&self) -> f64 {
        self.seen.cpu_s / self.seen.elapsed_s
    }
}

/// The time per operation of runs that were observed, relative to that of their partners: it
/// behaves inversely to the rates.
fn slower(rates: &[f64], partners: &[f64]) -> Option<Shift> {
    paired(partners, rates)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).unwrap_or(f64::NAN)
}

/// A Markdown table of all programs.
pub(crate) fn table(rows: &[(&str, &Blocks)]) -> String {
    let mut text = String::from(
        "| program and its operations | a second, alone | a second, observed | time per operation, ratio | \
         observer's CPU | events lost |\n|---|---|---|---|---|---|\n",
    );
    for (title, blocks) in rows {
        for (binary, observed) in blocks.observed.iter().enumerate() {
            let which =
                if blocks.observed.len() > 1 { format!(" (binary {})", binary + 1) } else { String::new() };
            let rates = blocks.rates(binary);
            let _ = writeln!(
                text,
                "| {title}{which} | {:.0} | {:.0} | {} | {:.0}% | {} |",
                median(blocks.alone.iter().copied()),
                median(rates.iter().copied()),
                shown(slower(&rates, &blocks.alone)),
                median(observed.iter().map(Block::cpu_share)) * 100.0,
                observed.iter().map(|block| block.seen.lost_events).sum::<u64>(),
            );
        }
    }
    for (title, blocks) in rows.iter().filter(|(_, blocks)| blocks.observed.len() == 2) {
        let ratio = shown(slower(&blocks.rates(1), &blocks.rates(0)));
        let _ = writeln!(text, "\n{title}: time per operation with binary 2 relative to binary 1: {ratio}");
    }
    text
}

fn shown(shift: Option<Shift>) -> String {
    match shift {
        Some(Shift { ratio, interval: Some((low, high)), .. }) => {
            format!("{ratio:.2}, {low:.2} to {high:.2}")
        }
        Some(Shift { ratio, .. }) => format!("{ratio:.2}, too few pairs for an interval"),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(alone: &[f64], observed: &[f64]) -> Blocks {
        let seen = Seen { calls: 9, lost_events: 1, cpu_s: 0.1, elapsed_s: 2.0 };
        let observed = observed.iter().map(|&rate| Block { rate, seen }).collect();
        Blocks { alone: alone.to_vec(), observed: vec![observed] }
    }

    #[test]
    fn a_program_that_does_half_as_much_when_observed_takes_twice_the_time() {
        let alone = [1000.0, 1100.0, 900.0, 1050.0, 950.0, 1020.0, 980.0];
        let half = alone.map(|rate| rate / 2.0);
        let shift = slower(&half, &alone).unwrap();
        assert!((shift.ratio - 2.0).abs() < 1e-9, "{shift:?}");
        let (low, high) = shift.interval.unwrap();
        assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9, "{shift:?}");
    }

    #[test]
    fn drift_that_a_pair_shares_does_not_widen_the_interval_and_chance_does() {
        let alone = [1000.0, 500.0, 2000.0, 700.0, 1500.0, 900.0, 1200.0, 600.0];
        let tenth = alone.map(|rate| rate / 1.1);
        let (low, high) = slower(&tenth, &alone).unwrap().interval.unwrap();
        assert!(high - low < 1e-9, "{low} {high}");
        let mut chance = alone;
        chance.reverse();
        let (low, high) = slower(&chance, &alone).unwrap().interval.unwrap();
        assert!(low < 1.0 && high > 1.0, "{low} {high}");
    }

    #[test]
    fn five_pairs_have_a_ratio_but_no_interval() {
        let shift = slower(&[1.0; 5], &[2.0; 5]).unwrap();
        assert_eq!((shift.ratio, shift.interval), (2.0, None));
        assert_eq!(shown(Some(shift)), "2.00, too few pairs for an interval");
        assert_eq!(shown(slower(&[], &[])), "none");
    }

    #[test]
    fn a_row_has_the_rates_the_ratio_and_what_the_observer_took() {
        let measured = blocks(&[1000.0; 6], &[800.0; 6]);
        let text = table(&[("fio", &measured)]);
        let row = text.lines().nth(2).unwrap();
        assert_eq!(row, "| fio | 1000 | 800 | 1.25, 1.25 to 1.25 | 5% | 6 |");
        let line = measured.last("fio");
        assert_eq!(line, "fio 1000/s; observed 800/s, 9 calls seen, 1 events lost, observer 5% of a CPU");
    }

    #[test]
    fn two_binaries_are_also_compared_with_each_other() {
        let mut measured = blocks(&[1000.0; 6], &[500.0; 6]);
        measured.observed.push(blocks(&[], &[800.0; 6]).observed.remove(0));
        let text = table(&[("fio", &measured)]);
        assert!(text.contains("| fio (binary 2) | 1000 | 800 | 1.25, 1.25 to 1.25 |"), "{text}");
        assert!(text.ends_with("binary 2 relative to binary 1: 0.62, 0.62 to 0.62\n"), "{text}");
    }
}
