//! A comparison of runs, as a page or at the beginning of a page of two runs: the answer, the ratio
//! of each figure as an interval, and how reliable the comparison is. Must not know any run.

use roundtrip_analysis::compare::{Compared, Verdict};
use roundtrip_sorting::SmallSort as _;
use serde_json::{Map, json};

use super::assets;
use super::bars::{Range, Ranges, Scale};
use super::chart::round_ticks;
use super::page::Page;
use crate::Error;
use crate::comparison::{self, Comparison, verdict};
use crate::text::inert;

/// The widest interval of a ratio that is drawn, by its upper end.
const WIDEST: f64 = 10.0;

/// How a page of two runs begins.
#[derive(Debug)]
pub enum Pair<'a> {
    /// With their comparison.
    Compared(&'a Comparison<'a>),
    /// With the reason why they cannot be compared.
    NotComparable(String),
}

/// Adds the comparison of a page's two runs.
pub(super) fn pair(page: &mut Page, pair: &Pair<'_>) {
    page.within(
        "section",
        &[("class", "answer both"), ("id", "comparison"), ("aria-label", "Comparison")],
        |page| match pair {
            Pair::Compared(comparison) => {
                first(page, comparison);
                page.ranges(&ratios(comparison));
                page.folded("All compared figures", &comparison::table(comparison));
            }
            Pair::NotComparable(why) => {
                page.element("h1", &[], "These two runs cannot be compared.");
                page.element("p", &[], why);
            }
        },
    );
}

/// The page of a comparison.
///
/// # Errors
/// [`Error::Json`] if the data cannot be represented as JSON.
pub fn compared(comparison: &Comparison<'_>) -> Result<String, Error> {
    let mut page = Page::default();
    let names = comparison.names.map(inert::name);
    page.within("header", &[], |page| page.element("p", &[("class", "brand")], "Roundtrip comparison"));
    page.within("main", &[("class", "one")], |page| {
        page.within("section", &[("class", "answer"), ("aria-label", "Answer")], |page| {
            first(page, comparison)
        });
    });
    page.within("section", &[("id", "figures")], |page| {
        page.element("h2", &[], "Figures");
        page.ranges(&ratios(comparison));
        page.table("Figures", &comparison::table(comparison));
    });
    let mut facts = Map::new();
    facts.insert("schema".into(), json!("roundtrip.report"));
    facts.insert("version".into(), json!(super::VERSION));
    facts.insert("compared".into(), json!(names));
    let (body, data) = page.finish(facts)?;
    Ok(assets::document(&names.join(" and "), &body, &data))
}

fn first(page: &mut Page, comparison: &Comparison<'_>) {
    page.element("h1", &[], &comparison::words(comparison).join(" "));
    page.element("p", &[], &comparison::answer(comparison));
    page.within("div", &[("class", "figures")], |page| {
        for compared in carrying(comparison) {
            if let Some(ratio) = compared.ratio {
                let name = format!(
                    "times the base in {}, {}: from {} to {}, {}",
                    compared.name,
                    comparison::of(compared),
                    comparison::side(compared, 0),
                    comparison::side(compared, 1),
                    verdict(compared.verdict),
                );
                page.figure(comparison.names[1], &name, &format!("{ratio:.3}"), ratio, "ratio");
            }
        }
    });
    let failures: Vec<String> = comparison::failures(comparison).collect();
    page.within("div", &[("class", "pair")], |page| {
        if !failures.is_empty() {
            page.within("div", &[], |page| {
                page.element("h2", &[], "Beyond a limit");
                page.within("ul", &[("class", "trust")], |page| {
                    failures.iter().for_each(|line| page.element("li", &[("class", "warning")], line));
                });
            });
        }
        page.within("div", &[], |page| {
            page.element("h2", &[], "How far to trust it");
            page.within("ul", &[("class", "trust")], |page| {
                comparison::notes(comparison).iter().for_each(|line| page.element("li", &[], line));
            });
        });
    });
}

/// The three most important figures. They are ordered by verdict (worse, better, same, cannot
/// tell). Within a verdict, figures with an interval come first, then those with the larger change.
fn carrying<'a>(comparison: &Comparison<'a>) -> Vec<&'a Compared> {
    let rank = |compared: &Compared| {
        let telling = match compared.verdict {
            Verdict::Worse => 0,
            Verdict::Better => 1,
            Verdict::Same => 2,
            Verdict::CannotTell => 3,
        };
        (telling, compared.bounds.is_none())
    };
    let change = |compared: &Compared| compared.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let mut all: Vec<&Compared> =
        comparison.figures.iter().filter(|compared| compared.ratio.is_some()).collect();
    all.small_sort_by(|one, other| rank(one).cmp(&rank(other)).then(change(other).total_cmp(&change(one))));
    all.truncate(3);
    all
}

/// The ratio of each figure with its interval, and the range within which sides count as the same.
fn ratios(comparison: &Comparison<'_>) -> Ranges {
    let rows: Vec<Range> = comparison
        .figures
        .iter()
        .filter_map(|compared| {
            let ratio = compared.ratio?;
            // A wider interval says nothing, and would leave no room for the others.
            let most = compared.bounds.filter(|bounds| bounds.high <= WIDEST);
            let most = most.map(|bounds| (bounds.low, bounds.high));
            let interval = match (most, compared.bounds) {
                (Some((low, high)), _) => format!(" ({low:.3}-{high:.3})"),
                (None, Some(bounds)) => format!(" ({:.3} to over {WIDEST:.0})", bounds.low),
                (None, None) => String::new(),
            };
            let text = format!("{ratio:.3}{interval}: {}", verdict(compared.verdict));
            Some(Range {
                label: format!("{}, {}", compared.name, comparison::of(compared)),
                points: vec![(ratio, text.clone())],
                text,
                whole: None,
                most,
            })
        })
        .collect();
    let ends = || {
        let of = |row: &Range| row.most.map_or(vec![row.points[0].0], |(low, high)| vec![low, high]);
        rows.iter().flat_map(of).filter(|value| value.is_finite())
    };
    let (low, high) = ends().fold((1.0_f64, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let ticks = round_ticks(low, high, |value| format!("{value:.2}"));
    Ranges {
        title: "New divided by base, with its 95% interval".into(),
        scale: Scale::Linear,
        rows,
        marks: vec![(1.0, "as the base".into())],
        chance: Some((1.0 - comparison.margin, 1.0 + comparison.margin)),
        ticks: ticks.into_iter().filter(|tick| tick.2 == 0).map(|(value, text, _)| (value, text)).collect(),
    }
}
