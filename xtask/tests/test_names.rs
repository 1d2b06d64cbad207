//! Names of tests are read in lists and in the summary of a run, so they fit in a line of these.

use std::path::Path;
use std::process::Command;

const LONGEST: usize = 80;

/// The names of the tests in a source file that are too long.
fn too_long(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim_start).filter_map(move |line| {
        is_test |= line.starts_with("#[test]");
        let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
        std::mem::take(&mut is_test).then_some(name).filter(|name| name.len() > LONGEST)
    })
}

#[test]
fn names_of_tests_have_at_most_80_characters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let listed = Command::new("git").current_dir(root).args(["ls-files", "*.rs"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let found: Vec<String> = listed
        .lines()
        .flat_map(|file| {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            too_long(&text).map(|name| format!("{file}: {name}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn long_names_are_found_only_of_tests() {
    let long = "a".repeat(LONGEST + 1);
    assert_eq!(
        too_long(&format!("#[test]\n#[ignore]\n    fn {long}() {{\n")).collect::<Vec<_>>(),
        [long.as_str()]
    );
    assert_eq!(too_long(&format!("#[test]\nfn short() {{}}\nfn {long}() {{\n")).count(), 0);
}
