//! Reads the types from docs/json-and-csv.md: a heading names a type, and a table row names a field
//! and its type.

use std::collections::BTreeMap;

/// A field on the page. `types` are its alternative types. `optional`: it may be missing in a
/// document. `rare`: it need not occur in the documents of this test.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) types: Vec<String>,
    pub(crate) optional: bool,
    pub(crate) rare: bool,
    pub(crate) meaning: String,
}

/// The page's types by name.
pub(crate) struct Reference(pub(crate) BTreeMap<String, BTreeMap<String, Field>>);

impl Reference {
    pub(crate) fn read(page: &str) -> Self {
        let mut types: BTreeMap<String, BTreeMap<String, Field>> = BTreeMap::new();
        let mut name = String::new();
        for line in page.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                name = heading.to_owned();
            } else if let Some(row) = line.strip_prefix("| `") {
                let cells: Vec<&str> = row.split(" | ").collect();
                let [field, kind, meaning] = cells[..] else { panic!("three cells: {line}") };
                assert!(meaning.trim_end_matches(" |").len() > 1, "{name}: no meaning: {line}");
                assert!(kind.contains("null") || !meaning.contains("null"), "{name}: may be null: {line}");
                let words = kind.replace("optional ", "").replace("† ", "");
                let field = field.trim_end_matches('`').to_owned();
                let known = types.entry(name.clone()).or_default().insert(
                    field.clone(),
                    Field {
                        types: alternatives(&words),
                        optional: kind.contains("optional"),
                        rare: kind.contains('†'),
                        meaning: meaning.trim_end_matches(" |").to_owned(),
                    },
                );
                assert!(known.is_none(), "{name}.{field} occurs twice");
            }
        }
        assert!(types.len() > 50, "the page has more than 50 types");
        Self(types)
    }
}

/// Splits a type into its alternatives, and removes links. `list of [Scheduling](#scheduling) or
/// null` becomes `list of Scheduling` and `null`.
pub(crate) fn alternatives(words: &str) -> Vec<String> {
    let plain = |one: &str| match (one.find('['), one.find("](")) {
        (Some(open), Some(close)) => format!("{}{}", &one[..open], &one[open + 1..close]),
        _ => one.trim().to_owned(),
    };
    words.split(" or ").map(plain).collect()
}
