//! Tests of the whole page: it contains what the terminal shows, its data contains what the page
//! shows, and foreign text has no effect.

use std::collections::BTreeSet;
use std::path::Path;

use roundtrip_analysis::Analysed;
use roundtrip_analysis::slow_calls::Kept;
use roundtrip_latency::{Histogram, Timeline};
use serde_json::Value;

use super::*;
use crate::explanation::Shown;
use roundtrip_run::Run;

/// A run over a kernel's own driver, with a slow call and its recording.
const RUN: &str = "../../fixtures/runs/x86_64-6.1-binder";

/// The page of a run, and its text on a terminal, with renamed threads.
fn shown(rename: &dyn Fn(&str) -> String) -> (String, String) {
    let directory = Path::new(RUN);
    let run = Run::read_shown(directory, crate::text::inert::line).unwrap();
    let kept = Kept::of(&run).unwrap();
    let explained =
        roundtrip_analysis::slow_calls::explain(&kept, directory, |_| true, Some(rename)).unwrap();
    let subject = Subject {
        label: "monday".into(),
        analysed: &Analysed::bare(&run),
        explained: &explained,
        damage: Vec::new(),
    };
    let terminal = crate::run::text(&Analysed::bare(&run), crate::text::look::Look::PLAIN)
        + &crate::explanation::text(&explained, &kept, Shown { all: true, ..Shown::default() });
    (page(&[subject], None).unwrap(), terminal)
}

fn usual() -> (String, String) {
    shown(&crate::text::inert::name)
}

/// The page of a run of writes, and its text on a terminal.
fn writes(analysed: &Analysed<'_>) -> (String, String) {
    let terminal = crate::run::text(analysed, crate::text::look::Look::PLAIN);
    let subject = Subject { label: "disk".into(), analysed, explained: &[], damage: Vec::new() };
    (page(&[subject], None).unwrap(), terminal)
}

#[test]
fn of_writes_too_every_number_that_a_terminal_shows_is_on_the_page() {
    let directory = Path::new("../../fixtures/runs/x86_64-6.1-ufs");
    let recorded = Run::read_shown(directory, crate::text::inert::line).unwrap();
    let divided = Analysed::read(&recorded, directory, 1);
    assert!(divided.damage.is_empty());
    let result = crate::storage::fixture::result();
    let layers = crate::storage::fixture::layers(&result);
    let straced = Run { results: result.clone().into(), ..recorded.clone() };
    let straced = Analysed { layers, ..Analysed::bare(&straced) };
    for (page, terminal) in [writes(&divided), writes(&straced)] {
        let (shown, wanted) = (numbers(&text_of(&page)), numbers(&terminal));
        let missing: Vec<_> = wanted.difference(&shown).collect();
        assert!(missing.is_empty() && wanted.len() > 30, "{missing:?} of {wanted:?}");
        for part in ["What each layer takes", "Platform, kernel and device", "The slowest writes"] {
            assert!(page.contains(part), "{part}");
        }
    }
}

#[test]
fn the_bars_of_a_write_are_as_long_as_its_layers() {
    let result = crate::storage::fixture::result();
    let layers = crate::storage::fixture::layers(&result);
    let run = Run { results: result.clone().into(), ..Run::read(Path::new(RUN)).unwrap() };
    let analysed = Analysed { layers, ..Analysed::bare(&run) };
    let (page, _) = writes(&analysed);
    let picture = page.split("What each layer takes").nth(1).unwrap().split("</figure>").next().unwrap();
    for layer in roundtrip_layers::storage::Layer::ALL {
        let share = analysed.layers[0].breakdown.share(layer) * 100.0;
        let bar = format!("data-part=\"{}\" x=\"", layer.name());
        let widths = picture.split(&bar).skip(1).map(|rest| rest.split("width=\"").nth(1).unwrap());
        let drawn: Vec<f64> = widths.map(|rest| rest.split('%').next().unwrap().parse().unwrap()).collect();
        match share > 0.0 {
            true => {
                let drawn: f64 = drawn.iter().sum();
                assert!((drawn - share).abs() < 0.002, "{layer:?}: {drawn:?} for {share}");
            }
            false => assert!(drawn.is_empty(), "{layer:?}"),
        }
    }
}

/// The visible text of a page, without styles, scripts and tags.
fn text_of(page: &str) -> String {
    let body = page.split("<script").next().unwrap().split("</style>").last().unwrap();
    let mut text = String::new();
    for piece in body.split('<') {
        text.push(' ');
        text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    text.replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The numbers in a text, as written.
fn numbers(text: &str) -> BTreeSet<String> {
    let all = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let all = all
        .map(|number| number.trim_matches('.'))
        .filter(|number| number.contains(|c: char| c.is_ascii_digit()));
    all.map(str::to_owned).collect()
}

#[test]
fn every_number_that_a_terminal_shows_is_on_the_page() {
    let (page, terminal) = usual();
    let (shown, wanted) = (numbers(&text_of(&page)), numbers(&terminal));
    let missing: Vec<_> = wanted.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(wanted.len() > 100, "{wanted:?}");
}

#[test]
fn every_number_in_a_table_of_the_page_is_in_its_data_and_the_reverse() {
    let (page, _) = usual();
    let data = data_of(&page);
    // The numeric cells in the order of the page.
    let cells = page.split("<td class=\"number\">").skip(1).map(|rest| rest.split_once("</td>").unwrap().0);
    let parsed = |text: &str| text.trim_end_matches('*').parse::<f64>().ok();
    let on_page: Vec<f64> = cells.filter_map(parsed).collect();
    let mut in_data = Vec::new();
    for table in data["tables"].as_array().unwrap() {
        let (_, title) = (table, table["title"].as_str().unwrap());
        assert!(
            page.contains(&format!("<table aria-label=\"{}\"", crate::text::inert::html(title))),
            "{title}"
        );
        for cell in table["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
            in_data.extend(cell.as_f64().or_else(|| cell["value"].as_f64()));
        }
    }
    assert_eq!(on_page, in_data);
    assert!(on_page.len() > 100);
    for figure in data["figures"].as_array().unwrap() {
        let text = figure["text"].as_str().unwrap();
        assert!(page.contains(&format!("<b>{text}</b>")), "{text}");
    }
}

/// All numbers in a page's data.
fn values(data: &Value, into: &mut Vec<f64>) {
    match data {
        Value::Number(number) => into.extend(number.as_f64()),
        Value::String(text) => into.extend(numbers(text).iter().filter_map(|text| text.parse::<f64>().ok())),
        Value::Array(all) => all.iter().for_each(|one| values(one, into)),
        Value::Object(all) => all.values().for_each(|one| values(one, into)),
        Value::Null | Value::Bool(_) => {}
    }
}

#[test]
fn every_number_of_the_page_is_in_its_data() {
    let result = crate::storage::fixture::result();
    let layers = crate::storage::fixture::layers(&result);
    let run = Run { results: result.clone().into(), ..Run::read(Path::new(RUN)).unwrap() };
    for (page, _) in [usual(), writes(&Analysed { layers, ..Analysed::bare(&run) })] {
        // Without the library's licence at the end.
        let shown = numbers(&text_of(page.split("<footer>").next().unwrap()));
        let mut known = Vec::new();
        values(&data_of(&page), &mut known);
        let missing: Vec<&String> = shown
            .iter()
            .filter(|text| text.parse().is_ok_and(|value: f64| !known.contains(&value)))
            .collect();
        assert!(missing.is_empty() && shown.len() > 50, "{missing:?} of {shown:?}");
    }
}

#[test]
fn foreign_names_end_neither_an_element_nor_the_data() {
    let (page, _) = shown(&|_| "</script><img src=x>\u{202e}".to_owned());
    assert!(page.contains("&lt;/script&gt;&lt;img src=x&gt;") && !page.contains("<img"), "it is shown");
    // The script elements of the data, of the library, and of the page's own script.
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(!page.contains('\u{202e}'));
    assert!(data_of(&page).to_string().contains("</script><img"), "in the data it means the same");
}

#[test]
fn the_policy_names_every_style_and_script_and_the_page_loads_nothing() {
    let (page, _) = usual();
    let (_, policy) = page.split_once("Content-Security-Policy\" content=\"").unwrap();
    let policy = policy.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src &#39;none&#39;; ") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(
        policy.matches("sha256-").count(),
        page.matches("<style>").count() + page.matches("<script>").count()
    );
    for way in [" src=", " href=\"http", "url(", "@import", " style=\"", " onload", "fetch("] {
        let own = page.split("<script>").next().unwrap();
        assert!(!own.contains(way), "{way}");
    }
}

#[test]
fn observed_calls_are_shown_over_time_if_there_were_any() {
    let mut run = Run::read(Path::new("../../fixtures/runs/x86_64-6.1-observed")).unwrap();
    let page_of = |run: &Run| {
        let label = "phone".into();
        page(&[Subject { label, analysed: &Analysed::bare(run), explained: &[], damage: Vec::new() }], None)
            .unwrap()
    };
    assert!(!page_of(&run).contains("Over the run"), "no calls over time");
    let mut timeline = Timeline::new(1_000);
    timeline.record(2_000, 40_000, false);
    timeline.record(300_000_000, 7_000_000, true);
    run.results.observed_calls.as_mut().unwrap().timeline = timeline;
    let charts = data_of(&page_of(&run))["charts"].clone();
    let chart = charts.as_array().unwrap().iter().find(|one| one["title"] == "Over the run").unwrap();
    let lines = chart["lines"].as_array().unwrap();
    let longest = lines.iter().find(|line| line["label"] == "all calls, longest").unwrap();
    assert_eq!(longest["points"][1][2], "7.00 ms, 1 missed the deadline");
}

#[test]
fn ten_million_calls_make_a_small_page() {
    let mut run = Run::read(Path::new(RUN)).unwrap();
    let result = run.results.latency.as_mut().unwrap();
    result.explained = None;
    let mut times = Histogram::new();
    let mut state = 1_u64;
    let mut timeline = Timeline::new(0);
    for call in 0..10_000_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // From 2 us to 2 s, evenly distributed over the powers of two.
        let took_ns = (2_000 + (state >> 40) % 2_000) << ((state >> 33) % 20);
        times.record(took_ns);
        timeline.record(call * 100_000, took_ns, took_ns > 2_500_000);
    }
    let pair = &mut result.series[0].pairs[0];
    for caller in &mut pair.callers {
        (caller.latency, caller.request, caller.handling, caller.reply) =
            (times.clone(), times.clone(), times.clone(), times.clone());
        caller.timeline = timeline.clone();
    }
    let pair = pair.clone();
    result.series[0].pairs = vec![pair; 4];
    let subject =
        Subject { label: "many".into(), analysed: &Analysed::bare(&run), explained: &[], damage: Vec::new() };
    let length = page(&[subject], None).unwrap().len();
    assert!(length < 1_000_000, "{length}");
}

/// The pictures of a kind in a page's data.
fn pictures(page: &str, kind: &str) -> Vec<Value> {
    let data = data_of(page);
    data["pictures"].as_array().unwrap().iter().filter(|one| one["kind"] == kind).cloned().collect()
}

#[test]
fn text_page_and_json_say_the_same_of_each_call() {
    let directory = Path::new(RUN);
    let run = Run::read(directory).unwrap();
    let kept = Kept::of(&run).unwrap();
    let explained = roundtrip_analysis::slow_calls::explain(&kept, directory, |_| true, None).unwrap();
    let json = crate::explanation::json::json(&explained, &kept, None).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let text = crate::explanation::text(&explained, &kept, Shown { all: true, ..Shown::default() });
    let page = text_of(&usual().0);
    let calls = json["slow_calls"].as_array().unwrap();
    assert!(calls.len() == explained.len() && !calls.is_empty());
    for call in calls {
        let verdict = call["explanation"]["verdict"].as_str().unwrap();
        assert!(text.contains(verdict) && page.contains(verdict), "{verdict}");
    }
}

#[test]
fn text_page_and_json_say_the_same_of_each_write() {
    let directory = Path::new("../../fixtures/runs/x86_64-6.18-observed-writes");
    let run = Run::read_shown(directory, crate::text::inert::line).unwrap();
    let analysed = Analysed::read(&run, directory, 3);
    let found = crate::storage::slow_writes::of(&analysed);
    let (page, terminal) = writes(&analysed);
    let shown = text_of(&page);
    let json = crate::explanation::json::writes_json(&analysed, &found, None).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let slow = json["writes"]["slow_writes"].as_array().unwrap();
    assert!(slow.len() == found.len() && !slow.is_empty());
    for write in slow {
        let verdict = write["verdict"].as_str().unwrap();
        assert!(terminal.contains(verdict) && shown.contains(verdict), "{verdict}");
    }
    assert_eq!(pictures(&page, "lanes").len(), slow.len());
    assert_eq!(pictures(&page, "stacks")[0]["title"], "Where their time went");
    assert!(shown.contains("What to do about it"), "{shown}");
    // Each note is a paragraph of its own.
    for note in terminal.lines().filter(|line| line.starts_with("Waited for journal commits")) {
        assert!(
            page.contains(&format!("<p class=\"note\">{}</p>", crate::text::inert::html(note))),
            "{note}"
        );
    }
}

#[test]
fn lanes_of_cpus_bear_the_names_of_the_threads_that_have_them() {
    let directory = Path::new("../../fixtures/runs/x86_64-6.1-observed");
    let run = Run::read(directory).unwrap();
    let kept = Kept::of(&run).unwrap();
    let explained = roundtrip_analysis::slow_calls::explain(&kept, directory, |_| true, None).unwrap();
    let analysed = Analysed::bare(&run);
    let label = "phone".into();
    let subject = Subject { label, analysed: &analysed, explained: &explained, damage: Vec::new() };
    let page = page(&[subject], None).unwrap();
    let lanes = pictures(&page, "lanes");
    let of_cpus = lanes.iter().flat_map(|one| one["lanes"].as_array().unwrap());
    let of_cpus: Vec<_> = of_cpus.filter(|lane| lane["name"].as_str().unwrap().starts_with("CPU ")).collect();
    assert!(!of_cpus.is_empty());
    for one in of_cpus.iter().flat_map(|lane| lane["stretches"].as_array().unwrap()) {
        let name = one["name"].as_str().unwrap();
        if ["running", "behind"].contains(&one["kind"].as_str().unwrap()) {
            assert!(!name.is_empty() && one["text"].as_str().unwrap().contains(name), "{one}");
        }
    }
    assert!(page.contains("<svg class=\"name\""));
}

#[test]
fn slow_calls_and_all_calls_over_the_run_are_one_chart() {
    let data = data_of(&usual().0);
    let charts: Vec<_> = data["charts"].as_array().unwrap().iter().collect();
    let over_time: Vec<_> =
        charts.iter().filter(|one| one["x"]["label"].as_str().unwrap().starts_with("time since")).collect();
    assert_eq!(over_time.len(), Run::read(Path::new(RUN)).unwrap().results.latency.unwrap().series.len());
    let lines: Vec<_> = over_time.iter().flat_map(|one| one["lines"].as_array().unwrap()).collect();
    let slow = |line: &&&Value| line["label"].as_str().unwrap().starts_with("slow: ");
    assert!(lines.iter().any(|line| slow(&line)), "{lines:?}");
    for line in lines.iter().filter(slow) {
        assert!(colours::LEGEND.iter().any(|(colour, _)| line["style"] == *colour), "{line}");
    }
}

#[test]
fn a_page_of_two_runs_begins_with_their_comparison() {
    let run = Run::read(Path::new(RUN)).unwrap();
    let analysed = Analysed::bare(&run);
    let of =
        |name: &str| Subject { label: name.into(), analysed: &analysed, explained: &[], damage: Vec::new() };
    let pair = Pair::NotComparable("driver: emulated and <the kernel's>".into());
    let page = page(&[of("monday"), of("tuesday")], Some(&pair)).unwrap();
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
    assert!(at("id=\"comparison\"") < at("aria-label=\"monday\""));
    assert!(text_of(&page).contains("driver: emulated and <the kernel's>"));
}
