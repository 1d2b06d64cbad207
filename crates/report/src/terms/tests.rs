use std::path::Path;

use super::*;

#[test]
fn the_glossary_is_this_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, markdown()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), markdown(), "INSTA_UPDATE=always writes it");
}

#[test]
fn each_term_is_defined_once_in_one_sentence() {
    let mut known = std::collections::BTreeSet::new();
    for (terms, meaning) in TERMS.iter().flat_map(|(_, terms)| *terms) {
        each(terms).for_each(|term| assert!(known.insert(term), "{term} is defined twice"));
        assert!(!meaning.ends_with('.') && meaning.len() > 3, "{terms}: {meaning}");
    }
    for term in ["transaction", "looper", "handle", "node", "wakeup", "runnable", "softirq"] {
        assert!(known.contains(term), "{term}");
    }
}

/// Checks the headers in the sources of terminal reports. Headers that are assembled at run
/// time are checked there.
#[test]
fn every_header_that_reports_print_is_a_term() {
    let mut found = 0;
    let folders = ["", "explanation", "ipc", "live", "storage"].map(|folder| format!("src/{folder}"));
    let commands = ["../cli/src/commands", "../cli/src/commands/service"].map(str::to_owned);
    let folders =
        folders.into_iter().chain(commands).map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    for file in folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        for kind in ["text(\"", "number(\"", "narrow(\""] {
            for rest in source.split(&format!("Column::{kind}")).skip(1) {
                let header = rest.split('"').next().unwrap();
                assert!(explain(header), "{}: '{header}' is not a term", path.display());
                found += 1;
            }
        }
    }
    assert!(found > 70, "{found}");
    assert!(!explain("weather") && !explain("p50 weather") && !explain("p500"));
    assert!(explain("64 KiB") && explain("off: p99.9") && explain("irq+wake mean"));
}

#[test]
fn all_terms_or_single_ones_are_printed_without_markdown() {
    let entry = |out: &mut String, terms: &str, meaning: &str| {
        let _ = writeln!(out, "{terms} = {meaning}");
    };
    let looper = text(&["Looper".to_owned()], entry).unwrap();
    assert_eq!(looper, "looper = a thread that serves transactions.\n");
    assert_eq!(text(&["weather".to_owned()], entry), None);
    let all = text(&[], entry).unwrap();
    assert!(!all.contains(['`', '*', '[']) && all.contains("\nStorage:\n"), "{all}");
    assert!(all.contains("Where a write spends its time defines each.\n"), "{all}");
}
