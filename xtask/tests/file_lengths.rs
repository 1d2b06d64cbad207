//! Source files must be short enough to be read in one sitting: under 400 lines each. Long unit
//! tests go into a separate file, and integration tests do not count.

mod support;

use std::collections::BTreeMap;

/// The length that no source file may reach.
const LIMIT: usize = 400;

/// Files that are still longer, with their limits. This list only shrinks: a file below the general
/// limit is removed.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// Violations in the lengths of these files.
fn problems(lengths: &BTreeMap<String, usize>, exceptions: &[(&str, usize)]) -> Vec<String> {
    let allowed =
        |path: &str| exceptions.iter().find(|(excepted, _)| *excepted == path).map(|(_, most)| *most);
    let too_long = lengths.iter().filter_map(|(path, &lines)| match allowed(path) {
        None if lines >= LIMIT => Some(format!("{path} has {lines} lines: split it into several files")),
        Some(most) if lines > most => Some(format!("{path} has grown from {most} to {lines} lines")),
        _ => None,
    });
    let outdated = exceptions.iter().filter_map(|(path, _)| match lengths.get(*path) {
        None => Some(format!("{path} is no longer a source file: remove it from the list")),
        Some(&lines) if lines < LIMIT => Some(format!("{path} has {lines} lines: remove it from the list")),
        Some(_) => None,
    });
    too_long.chain(outdated).collect()
}

/// The lines of each source file that git knows.
fn lengths() -> BTreeMap<String, usize> {
    let is_source = |path: &str| path.starts_with("src/") || path.contains("/src/");
    let files = support::files("*.rs").into_iter().filter(|(path, _)| is_source(path));
    files.map(|(path, text)| (path, text.lines().count())).collect()
}

#[test]
fn source_files_have_fewer_than_400_lines() {
    let lengths = lengths();
    assert!(lengths.len() > 100, "git lists only {} source files", lengths.len());
    let problems = problems(&lengths, EXCEPTIONS);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn long_files_grown_files_and_outdated_exceptions_are_refused() {
    let lengths: BTreeMap<String, usize> =
        [("a.rs", 399), ("b.rs", 400), ("c.rs", 500), ("d.rs", 500), ("e.rs", 450), ("f.rs", 399)]
            .into_iter()
            .map(|(path, lines)| (path.to_owned(), lines))
            .collect();
    let exceptions = [("c.rs", 500), ("d.rs", 499), ("e.rs", 451), ("f.rs", 420), ("g.rs", 420)];
    let problems = problems(&lengths, &exceptions);
    let named: Vec<&str> = problems.iter().map(|problem| &problem[..4]).collect();
    assert_eq!(named, ["b.rs", "d.rs", "f.rs", "g.rs"], "{problems:?}");
}
