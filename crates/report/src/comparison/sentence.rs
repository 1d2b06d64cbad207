//! A comparison in the words of a person: what takes how much longer.

use roundtrip_analysis::compare::{Compared, Verdict};
use roundtrip_analysis::figures::Unit;
use roundtrip_run::TESTS;
use roundtrip_sorting::SmallSort as _;

use super::Comparison;
use crate::text::inert;
use crate::text::quantity::three_digits;

/// What a person asks for first.
pub(super) const FIRST: [&str; 9] =
    ["p50", "time", "rate", "response.ratio", "futex.ratio", "p99", "response.p99", "missed", "p99.9"];

/// What the second sentence is about, if it is not in the first.
const THEN: [&str; 4] = ["missed", "p99.9", "p99", "max"];

/// The ratios of one figure over the groups of calls that have it.
pub(crate) struct Mean<'a> {
    pub(crate) name: &'a str,
    /// The geometric mean.
    pub(crate) ratio: f64,
    pub(crate) figures: usize,
}

/// The geometric mean of each figure that several groups of calls have.
pub(crate) fn means<'a>(figures: &'a [Compared]) -> Vec<Mean<'a>> {
    let mut names: Vec<&str> = Vec::new();
    for compared in figures {
        if !names.contains(&compared.name.as_str()) {
            names.push(&compared.name);
        }
    }
    let mean = |name: &'a str| {
        let ratios = figures.iter().filter(|compared| compared.name == name).map(|compared| compared.ratio);
        let logs: Vec<f64> = ratios.map(|ratio| ratio.map(f64::ln)).collect::<Option<_>>()?;
        let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        (logs.len() > 1 && ratio.is_finite()).then_some(Mean { name, ratio, figures: logs.len() })
    };
    names.into_iter().filter_map(mean).collect()
}

/// "hwbinder's median call takes 2.3 times (other) to 7.2 times (fifo:99) as long as binder's."
/// Empty without figures.
pub(crate) fn sentences(comparison: &Comparison<'_>) -> Vec<String> {
    let Some(any) = comparison.figures.first() else { return Vec::new() };
    let names = match &any.subject {
        Some(subject) if !comparison.named => subject.each_ref().map(|name| inert::name(name)),
        _ => comparison.names.map(inert::name),
    };
    let told = |name: &str| comparison.figures.iter().any(|one| one.name == name && differs(one));
    let all = comparison.figures.iter().map(|compared| compared.name.as_str());
    let first = FIRST.into_iter().chain(all).find(|name| told(name));
    let Some(first) = first else { return vec![undecided(comparison, &names)] };
    let then = THEN.into_iter().find(|name| *name != first && told(name));
    std::iter::once(first).chain(then).map(|name| sentence(comparison, &names, name)).collect()
}

fn differs(compared: &Compared) -> bool {
    matches!(compared.verdict, Verdict::Better | Verdict::Worse) && compared.ratio.is_some()
}

fn sentence(comparison: &Comparison<'_>, [base, new]: &[String; 2], name: &str) -> String {
    let all: Vec<&Compared> = comparison.figures.iter().filter(|compared| compared.name == name).collect();
    let ratio = |compared: &Compared| compared.ratio.unwrap_or(1.0);
    let mut found: Vec<&Compared> = all.iter().copied().filter(|compared| differs(compared)).collect();
    found.small_sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let ends = [found.first(), found.last()].map(|end| end.map_or(1.0, |end| ratio(end)));
    let amount = Amount::of(ends);
    let [low, high] = ends.map(|ratio| amount.text(ratio));
    let keys = distinguishing(&all);
    let places =
        [found.first(), found.last()].map(|end| end.map_or_else(String::new, |end| place(end, &keys)));
    let amounts = match (&places, low == high) {
        ([place, _], _) if found.len() == 1 && all.len() == 1 || place.is_empty() => low,
        ([place, _], _) if found.len() == 1 => format!("{low} ({place})"),
        (_, true) => low,
        ([first, last], false) => format!("{low} ({first}) to {high} ({last})"),
    };
    let mut said = match (name, any_unit(&all)) {
        ("p50", _) => {
            let test = all[0].of.iter().find(|(key, _)| *key == "test").map(|(_, test)| test.as_str());
            let test = TESTS.iter().find(|one| Some(one.name) == test);
            let call =
                if test.is_some_and(|one| one.command.starts_with("storage")) { "write" } else { "call" };
            match amount {
                Amount::Times => format!("{new}'s median {call} takes {amounts} as long as {base}'s"),
                Amount::More => format!("{new}'s median {call} takes {amounts} longer than {base}'s"),
                Amount::Less => format!("{new}'s median {call} takes {amounts} less time than {base}'s"),
            }
        }
        ("missed", _) => match amount {
            Amount::Times => format!("{new} misses its deadline {amounts} as often as {base}"),
            Amount::More => format!("{new} misses its deadline {amounts} more often than {base}"),
            Amount::Less => format!("{new} misses its deadline {amounts} less often than {base}"),
        },
        (name, unit) => {
            let name = match (name, unit) {
                ("max", _) => "worst",
                (name, _) => name,
            };
            match amount {
                Amount::Times => format!("{new}'s {name} is {amounts} that of {base}"),
                Amount::More => format!("{new}'s {name} is {amounts} higher than that of {base}"),
                Amount::Less => format!("{new}'s {name} is {amounts} lower than that of {base}"),
            }
        }
    };
    if found.len() < all.len() && found.len() > 1 {
        said.push_str(&format!(", in {} of {} groups", found.len(), all.len()));
    }
    if let Some(mean) = means(comparison.figures).iter().find(|mean| mean.name == name) {
        let text = amount.of_mean(mean.ratio);
        said.push_str(&format!("; the geometric mean of all {} is {text}", mean.figures));
    }
    said + "."
}

fn any_unit(all: &[&Compared]) -> Unit {
    all.first().map_or(Unit::Ratio, |compared| compared.unit)
}

/// How the ratios of a sentence are written: as factors, if one is large or the directions differ.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Times,
    More,
    Less,
}

impl Amount {
    fn of([low, high]: [f64; 2]) -> Self {
        const LARGE: f64 = 1.5;
        if high < LARGE && low > 1.0 {
            Self::More
        } else if low > 1.0 / LARGE && high < 1.0 {
            Self::Less
        } else {
            Self::Times
        }
    }

    fn text(self, ratio: f64) -> String {
        match self {
            Self::Times => times(ratio),
            Self::More => percent(ratio - 1.0),
            Self::Less => percent(1.0 - ratio),
        }
    }

    /// A mean may lie on the other side of 1.
    fn of_mean(self, ratio: f64) -> String {
        match self {
            Self::More if ratio > 1.0 => format!("{} more", percent(ratio - 1.0)),
            Self::Less if ratio < 1.0 => format!("{} less", percent(1.0 - ratio)),
            _ => times(ratio),
        }
    }
}

fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 9.95 => format!("{r:.0} times"),
        r if r >= 0.995 => format!("{r:.1} times"),
        r => format!("{r:.2} times"),
    }
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

/// The labels whose values differ among these figures.
pub(super) fn distinguishing(figures: &[&Compared]) -> Vec<&'static str> {
    let mut keys: Vec<&'static str> = Vec::new();
    for (key, _) in figures.iter().flat_map(|compared| &compared.of) {
        if !keys.contains(key) {
            keys.push(key);
        }
    }
    let value = |compared: &Compared, key: &str| {
        compared.of.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone())
    };
    keys.retain(|key| {
        let mut values = figures.iter().map(|compared| value(compared, key));
        let first = values.next();
        values.any(|other| Some(other) != first)
    });
    keys
}

/// The values of these labels.
pub(super) fn place(compared: &Compared, keys: &[&str]) -> String {
    let chosen = compared.of.iter().filter(|(key, _)| keys.contains(key));
    inert::name(&chosen.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", "))
}

/// What is known if no figure differs.
fn undecided(comparison: &Comparison<'_>, [base, new]: &[String; 2]) -> String {
    let all = comparison.figures.len();
    let same = comparison.figures.iter().filter(|compared| compared.verdict == Verdict::Same).count();
    let margin = format!("{}%", three_digits(comparison.margin * 100.0));
    match same {
        _ if same == all => {
            format!("{new} and {base} are the same: no figure differs by more than {margin}.")
        }
        0 => format!("These runs do not show whether {new} differs from {base}."),
        _ => format!(
            "{same} of {all} figures of {new} are within {margin} of those of {base}; for the others, these \
             runs do not tell."
        ),
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_analysis::compare::Basis;
    use roundtrip_analysis::figures::{Better, Bounds};

    use super::*;
    use crate::comparison::help::help;

    fn figure(name: &str, caller: &str, ratio: f64, verdict: Verdict) -> Compared {
        Compared {
            name: name.into(),
            of: vec![
                ("test", "latency".into()),
                ("stack", "binder to hwbinder".into()),
                ("caller", caller.into()),
            ],
            subject: Some(["binder".into(), "hwbinder".into()]),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            base: 1000.0,
            new: 1000.0 * ratio,
            runs: [10, 10],
            calls: None,
            ratio: Some(ratio),
            bounds: Some(Bounds { low: ratio / 1.1, high: ratio * 1.1 }),
            basis: Basis::Pairs,
            p: Some(0.01),
            verdict,
            runs_needed: (verdict == Verdict::CannotTell).then_some(47),
        }
    }

    fn said(figures: &[Compared], named: bool) -> String {
        let comparison = Comparison {
            names: ["before", "after"],
            named,
            figures,
            differences: &[],
            notes: &[],
            hints: &[],
            pair_ns: Some(4_000_000_000),
            failed: &[],
            margin: 0.02,
            noise: 0.3,
        };
        let help = help(&comparison);
        sentences(&comparison).into_iter().chain(help).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn two_stacks_are_compared_by_their_names_and_callers() {
        let both = [
            figure("p50", "fifo:99", 7.2, Verdict::Worse),
            figure("p50", "other", 2.3, Verdict::Worse),
            figure("p99", "other", 1.2, Verdict::CannotTell),
        ];
        assert_eq!(
            said(&both[..2], false),
            "hwbinder's median call takes 2.3 times (other) to 7.2 times (fifo:99) as long as binder's; the \
             geometric mean of all 2 is 4.1 times."
        );
        let text = said(&both, true);
        assert!(text.starts_with("after's median call takes 2.3 times (other) to 7.2 times"), "{text}");
        assert!(
            text.ends_with(
                " By their spread, these 10 pairs find a difference in p99 (other) from about 10% on; for a \
                 verdict on what they show, about 47 pairs are needed, which take 4 min."
            ),
            "{text}"
        );
    }

    #[test]
    fn small_differences_are_percentages_and_both_directions_are_factors() {
        let of = |ratios: &[f64]| {
            let figures = ratios.iter().enumerate();
            let figures: Vec<Compared> = figures
                .map(|(at, &ratio)| {
                    let verdict = if ratio > 1.0 { Verdict::Worse } else { Verdict::Better };
                    figure("p50", ["a", "b"][at], ratio, verdict)
                })
                .collect();
            said(&figures, false)
        };
        assert_eq!(of(&[1.052]), "hwbinder's median call takes 5.2% longer than binder's.");
        assert_eq!(of(&[0.8]), "hwbinder's median call takes 20% less time than binder's.");
        assert_eq!(of(&[0.25]), "hwbinder's median call takes 0.25 times as long as binder's.");
        assert!(
            of(&[1.2, 0.9]).contains("takes 0.90 times (b) to 1.2 times (a) as long as"),
            "{}",
            of(&[1.2, 0.9])
        );
    }

    #[test]
    fn misses_and_the_tail_have_their_own_sentences() {
        let figures = [
            figure("p50", "other", 1.01, Verdict::Same),
            figure("p99.9", "other", 46.9, Verdict::Worse),
            figure("missed", "other", 1254.4, Verdict::Worse),
        ];
        assert_eq!(
            said(&figures, false),
            "hwbinder misses its deadline 1254 times as often as binder. hwbinder's p99.9 is 47 times that of \
             binder."
        );
    }

    #[test]
    fn equal_and_unclear_sides_are_called_so() {
        let same = figure("p50", "other", 1.001, Verdict::Same);
        let unclear = figure("p50", "fifo:99", 1.04, Verdict::CannotTell);
        assert_eq!(
            said(std::slice::from_ref(&same), false),
            "hwbinder and binder are the same: no figure differs by more than 2.00%."
        );
        assert!(
            said(&[same, unclear.clone()], false).starts_with("1 of 2 figures of hwbinder are within 2.00%")
        );
        assert!(said(&[unclear], false).starts_with("These runs do not show whether hwbinder differs from"));
        assert_eq!(said(&[], false), "");
    }
}
