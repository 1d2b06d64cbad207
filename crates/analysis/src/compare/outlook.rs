//! What pairs that are still to be measured can find, by how much the first ones differ.

use roundtrip_latency::two_samples::normal_quantile;

use super::{ERROR, Options, Side, changed_labels, wanted};
use crate::figures::Figure;

/// The share of tries in which a difference is found.
const POWER: f64 = 0.9;

/// The difference for which the number of pairs is said.
pub const SMALL: f64 = 0.05;

/// The figures that are spoken of, the first that there is.
const FIRST: [&str; 3] = ["p50", "time", "rate"];

/// What pairs find in 9 of 10 tries.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// The figure's name.
    pub name: String,
    /// What it describes, if it is one of several of this name: the one that varies most.
    pub of: Option<Vec<(&'static str, String)>>,
    /// How many figures are compared. Each makes it harder to find a difference in another.
    pub figures: usize,
    /// The least difference that is found: 0.05 is 5%. `None` if so few pairs show none of any
    /// size, for so many figures.
    pub finds: Option<f64>,
    /// How many pairs find a difference of [`SMALL`].
    pub needed: u64,
}

/// What this many pairs find, by how much these first pairs differ. `None` for fewer than three
/// pairs, or without a figure that all have.
#[must_use]
pub fn outlook(base: &Side, new: &Side, pairs: u64, options: &Options) -> Option<Outlook> {
    let changed = changed_labels(base, new);
    let first = base.runs.first().filter(|_| base.runs.len() >= 3)?;
    let both = |figure: &Figure| Some((base.of(figure, &[])?, new.of(figure, &changed)?));
    let all: Vec<&Figure> =
        first.figures.iter().filter(|one| wanted(one, options) && both(one).is_some()).collect();
    let named = |name: &&str| all.iter().any(|figure| figure.name == *name);
    let name = FIRST.into_iter().find(named).or_else(|| Some(all.first()?.name.as_str()))?.to_owned();
    let of_name: Vec<&&Figure> = all.iter().filter(|figure| figure.name == name).collect();
    let spread = |figure: &Figure| -> Option<f64> {
        let (base, new) = both(figure)?;
        let ratios = base.iter().zip(&new).filter_map(|(base, new)| {
            let ratio = new.value? / base.value?;
            (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
        });
        deviation(&ratios.collect::<Vec<_>>())
    };
    let (figure, spread) = of_name
        .iter()
        .filter_map(|figure| Some((figure, spread(figure)?)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    // The smallest of so many probabilities is corrected by their number.
    let error = ERROR / all.len() as f64;
    let distance = normal_quantile(1.0 - error / 2.0) + normal_quantile(POWER);
    // If all pairs differ in one direction, chance does the same with this probability.
    let least = (2.0 / error).log2().ceil();
    let finds = (pairs as f64 >= least).then(|| (distance * spread / (pairs as f64).sqrt()).exp_m1());
    let needed = (distance * spread / SMALL.ln_1p()).powi(2).ceil().max(least) as u64;
    let of = (of_name.len() > 1).then(|| figure.of.clone());
    Some(Outlook { name, of, figures: all.len(), finds, needed })
}

/// The standard deviation; `None` for fewer than three values.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 3).then(|| (squares / (count - 1.0)).sqrt())
}
