//! A test is described once, in `crates/run/src/kinds`, and shown in its own way by its view. What
//! else names three or more tests would have to change for each new one: this test lists it all.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The functions and tables that may name three or more tests, each with its reason.
const ALLOWED: [(&str, &str); 4] = [
    ("crates/analysis/src/analysed.rs: fn read", "these three have recordings of writes"),
    ("crates/cli/src/commands/survey.rs: const TESTS", "a survey measures these three"),
    ("crates/report/src/kinds.rs: const VIEWS", "the list of what is a test's own in reports"),
    ("crates/run/src/results.rs: tests!", "the list of tests"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every test with the type of its result, from the list in `results.rs`.
fn tests() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("crates/run/src/results.rs")).unwrap();
    let list = text.split("\ntests! {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let entries = list.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(": "));
    entries.map(|(name, result)| (name.to_owned(), result.to_owned())).collect()
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

/// The name of the function or table that a line starts: "fn run".
fn name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let (mut kind, mut name) = (words.next()?, words.next().unwrap_or_default());
    if (kind, name) == ("const", "fn") {
        (kind, name) = ("fn", words.next()?);
    }
    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    let is_item = ["fn", "const", "static", "tests!"].contains(&kind);
    is_item.then(|| format!("{kind} {name}").trim().to_owned())
}

/// The functions and tables of a file with their text, without its tests.
fn items(text: &str) -> Vec<(String, String)> {
    let text = text.split("\n#[cfg(test)]\n").next().unwrap();
    let mut items: Vec<(String, String)> = Vec::new();
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let is_code = !line.trim_start().starts_with("//");
        let begun = name(line).filter(|_| open.is_none());
        let is_inside = begun.is_some() || open.is_some();
        if let Some(name) = begun {
            items.push((name, String::new()));
            open = (!line.ends_with([';', '}'])).then_some(indent);
        }
        if let Some((_, body)) = items.last_mut().filter(|_| is_inside && is_code) {
            body.push_str(line);
            body.push('\n');
        }
        let ends = ["}", "};", "];", "]);"].contains(&line.trim());
        open = open.filter(|start| !(ends && indent == *start));
    }
    items
}

/// The number of tests that a text names: by name, by field of a run's results, or by type.
fn named(text: &str, tests: &[(String, String)]) -> usize {
    let names = |(name, result): &&(String, String)| {
        let (quoted, field) = (format!("\"{name}\""), format!("results.{name}"));
        let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        text.contains(&quoted) || text.split(&field).skip(1).any(is_whole) || text.contains(result)
    };
    tests.iter().filter(names).count()
}

#[test]
fn only_the_lists_of_tests_name_several_of_them() {
    let tests = tests();
    assert!(tests.len() >= 9, "{tests:?}");
    let mut files = Vec::new();
    for part in std::fs::read_dir(root().join("crates")).unwrap() {
        let sources_of = part.unwrap().path().join("src");
        if sources_of.is_dir() {
            sources(&sources_of, &mut files);
        }
    }
    let mut found = BTreeSet::new();
    for file in files {
        let path = file.strip_prefix(root()).unwrap().display().to_string();
        let several = items(&std::fs::read_to_string(&file).unwrap());
        let several = several.into_iter().filter(|(_, body)| named(body, &tests) >= 3);
        found.extend(several.map(|(item, _)| format!("{path}: {item}")));
    }
    let allowed: BTreeSet<String> = ALLOWED.iter().map(|(item, _)| (*item).to_owned()).collect();
    assert_eq!(found, allowed, "name three or more tests");
    assert!(ALLOWED.len() <= 6);
}

#[test]
fn a_function_that_names_three_tests_is_found() {
    let tests = ["latency", "traits", "workers"].map(|name| (name.to_owned(), format!("{name}Result")));
    let text = "fn one() {\n    results.latency;\n    results.latency_of;\n}\n\nconst ALL: [&str; 2] = [\n    \"traits\",\n    \
                \"workers\",\n    \"latency\",\n];\n";
    let found = items(text);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fn one", "const ALL"]);
    assert_eq!(found.iter().map(|(_, body)| named(body, &tests)).collect::<Vec<_>>(), [1, 3]);
}
