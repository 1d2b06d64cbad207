use roundtrip_analysis::figures::{Better, Bounds, Unit};

use serde_json::{Value, json};

use super::*;

fn figures() -> Vec<Compared> {
    let slower = Compared {
        name: "p99".into(),
        of: vec![("test", "latency".into()), ("caller", "<b>|\u{1b}[31m".into())],
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        base: 20_000.0,
        new: 24_000.0,
        runs: [6, 6],
        calls: None,
        subject: None,
        ratio: Some(1.2),
        bounds: Some(Bounds { low: 1.15, high: 1.26 }),
        basis: Basis::Runs,
        p: Some(0.002),
        verdict: Verdict::Worse,
        runs_needed: None,
    };
    let unclear = Compared {
        name: "rate".into(),
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        base: 1e9,
        new: 1.01e9,
        ratio: Some(1.01),
        bounds: Some(Bounds { low: 0.9, high: 1.1 }),
        p: Some(0.7),
        verdict: Verdict::CannotTell,
        runs_needed: Some(40),
        ..slower.clone()
    };
    vec![slower, unclear]
}

fn with<T>(show: impl FnOnce(&Comparison<'_>) -> T) -> T {
    let difference =
        Difference { what: "kernel".into(), base: "6.1".into(), other: "6.18".into(), refused: false };
    show(&Comparison {
        names: ["monday", "tuesday"],
        named: false,
        pair_ns: None,
        hints: &["--placement same narrows the spread.".to_owned()],
        figures: &figures(),
        differences: &[difference],
        notes: &[],
        failed: &[(0, "worse by 20.0%, and p99>+5% was the limit".into())],
        margin: 0.02,
        noise: 0.3,
    })
}

#[test]
fn an_interval_that_says_nothing_has_no_number() {
    let shown = |low, high| interval(Bounds { low, high });
    assert_eq!(shown(0.9, 1.1).as_deref(), Some("0.900-1.100"));
    assert_eq!(shown(0.0, 12.34).as_deref(), Some("under 12.3"));
    assert_eq!(shown(0.5, f64::INFINITY).as_deref(), Some("over 0.500"));
    // Two pairs, of which one had no misses.
    assert_eq!(shown(3e-17, 2e16), None);
}

#[test]
fn the_text_begins_with_the_answer_and_ends_with_its_reliability() {
    insta::assert_snapshot!(with(|comparison| text(comparison, Look::PLAIN)));
}

#[test]
fn foreign_names_are_escaped_in_markdown_and_junit() {
    insta::assert_snapshot!(with(markdown) + &with(junit));
}

#[test]
fn json_has_every_figure() {
    let value: Value = serde_json::from_str(&with(json)).unwrap();
    assert_eq!(value["figures"][0]["of"]["test"], "latency");
    assert_eq!(
        (&value["figures"][0]["low"], &value["figures"][1]["verdict"]),
        (&json!(1.15), &json!("cannot_tell"))
    );
    assert_eq!(value["differences"][0]["other"], "6.18");
}

#[test]
fn runs_without_common_figures_are_reported() {
    let nothing = Comparison {
        names: ["a", "b"],
        named: false,
        hints: &[],
        pair_ns: None,
        figures: &[],
        differences: &[],
        notes: &[],
        failed: &[],
        margin: 0.02,
        noise: 0.3,
    };
    assert!(text(&nothing, Look::PLAIN).starts_with("a and b have none of the compared figures in common"));
}

#[test]
fn the_page_has_every_number_of_the_text_and_escapes_foreign_names() {
    let page = with(|comparison| crate::html::compared(comparison).unwrap());
    let body = page.split("<script").next().unwrap();
    let text = with(|comparison| text(comparison, Look::PLAIN));
    let numbers =
        text.split(|c: char| !(c.is_ascii_digit() || c == '.')).map(|number| number.trim_matches('.'));
    for number in numbers.filter(|number| !number.is_empty()) {
        assert!(body.contains(number), "{number} of {text}");
    }
    assert!(body.contains("worse by 20.0%") && body.contains("&lt;b&gt;") && !body.contains("\u{1b}"));
    assert!(body.contains("1.200 (1.150-1.260): worse"), "the chart has the verdict, too");
}
