//! Names of tests are read in lists and in the summary of a run, so they fit in a line of these.

mod support;

/// The most characters of a name.
const MAX_LENGTH: usize = 80;

/// The names of the tests in a source file that are too long.
fn too_long(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim_start).filter_map(move |line| {
        is_test |= line.starts_with("#[test]");
        let name = line.strip_prefix("fn ")?.split(['(', '<']).next()?;
        std::mem::take(&mut is_test).then_some(name).filter(|name| name.len() > MAX_LENGTH)
    })
}

#[test]
fn names_of_tests_have_at_most_80_characters() {
    let files = support::files("*.rs");
    assert!(files.len() > 100, "git lists only {} source files", files.len());
    let named = |(path, text): &(String, String)| -> Vec<String> {
        too_long(text).map(|name| format!("{path}: {name}")).collect()
    };
    let found: Vec<String> = files.iter().flat_map(named).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn long_names_are_found_only_of_tests() {
    let long = "a".repeat(MAX_LENGTH + 1);
    assert_eq!(
        too_long(&format!("#[test]\n#[ignore]\n    fn {long}() {{\n")).collect::<Vec<_>>(),
        [long.as_str()]
    );
    assert_eq!(too_long(&format!("#[test]\nfn short() {{}}\nfn {long}() {{\n")).count(), 0);
}
