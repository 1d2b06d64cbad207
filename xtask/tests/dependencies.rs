//! Which crate may depend on which. The table is the design: a crate that needs another dependency
//! changes it here, where reviewers see it. Dependencies of tests have their own table.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// The project's crates that each crate links. Every entry must exist, so that the table is
/// accurate.
const LINKS: &[(&str, &[&str])] = &[
    ("roundtrip-latency", &[]),
    ("roundtrip-files", &[]),
    ("roundtrip-stored", &["roundtrip-files"]),
    ("roundtrip-vocabulary", &[]),
    ("roundtrip-sorting", &[]),
    ("roundtrip-binder-driver", &["roundtrip-vocabulary"]),
    ("roundtrip-binder-emulator", &["roundtrip-binder-driver", "roundtrip-vocabulary"]),
    ("roundtrip-binder", &["roundtrip-binder-driver", "roundtrip-vocabulary"]),
    ("roundtrip-echo", &["roundtrip-binder", "roundtrip-binder-driver"]),
    ("roundtrip-tracefs", &["roundtrip-files", "roundtrip-stored"]),
    (
        "roundtrip-layers",
        &["roundtrip-latency", "roundtrip-sorting", "roundtrip-tracefs", "roundtrip-vocabulary"],
    ),
    ("roundtrip-observed", &["roundtrip-tracefs"]),
    ("roundtrip-perfetto", &[]),
    ("roundtrip-foreign", &["roundtrip-files", "roundtrip-perfetto", "roundtrip-tracefs"]),
    ("roundtrip-run", &["roundtrip-files", "roundtrip-latency", "roundtrip-stored", "roundtrip-vocabulary"]),
    (
        "roundtrip-bench",
        &[
            "roundtrip-binder",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-echo",
            "roundtrip-files",
            "roundtrip-latency",
            "roundtrip-observed",
            "roundtrip-run",
            "roundtrip-sorting",
            "roundtrip-stored",
            "roundtrip-tracefs",
        ],
    ),
    (
        "roundtrip-analysis",
        &[
            "roundtrip-files",
            "roundtrip-latency",
            "roundtrip-layers",
            "roundtrip-observed",
            "roundtrip-run",
            "roundtrip-sorting",
            "roundtrip-stored",
            "roundtrip-tracefs",
        ],
    ),
    (
        "roundtrip-report",
        &[
            "roundtrip-analysis",
            "roundtrip-latency",
            "roundtrip-layers",
            "roundtrip-perfetto",
            "roundtrip-run",
            "roundtrip-sorting",
            "roundtrip-stored",
            "roundtrip-tracefs",
        ],
    ),
    (
        "roundtrip-cli",
        &[
            "roundtrip-analysis",
            "roundtrip-bench",
            "roundtrip-binder",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-files",
            "roundtrip-foreign",
            "roundtrip-latency",
            "roundtrip-layers",
            "roundtrip-report",
            "roundtrip-run",
            "roundtrip-sorting",
            "roundtrip-stored",
            "roundtrip-tracefs",
        ],
    ),
    ("roundtrip", &["roundtrip-cli"]),
    ("roundtrip-benchmarks", &[]),
    ("roundtrip-binder-conformance", &[]),
    ("roundtrip-skips", &[]),
    ("roundtrip-guest", &["roundtrip-files"]),
    ("xtask", &["roundtrip-guest", "roundtrip-latency", "roundtrip-skips"]),
];

/// Additional dependencies of tests and examples.
const TESTS_USE: &[(&str, &[&str])] = &[
    ("roundtrip-files", &["roundtrip-skips"]),
    ("roundtrip-binder-emulator", &["roundtrip-binder-conformance", "roundtrip-skips"]),
    (
        "roundtrip-binder-conformance",
        &[
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-skips",
            "roundtrip-stored",
            "roundtrip-vocabulary",
        ],
    ),
    // The measured service tests both stacks more thoroughly than a smaller one would.
    ("roundtrip-binder", &["roundtrip-binder-emulator", "roundtrip-echo", "roundtrip-skips"]),
    ("roundtrip-tracefs", &["roundtrip-skips"]),
    // Its recordings are made on the machine that runs the tests.
    ("roundtrip-layers", &["roundtrip-skips", "roundtrip-tracefs"]),
    ("roundtrip-bench", &["roundtrip-skips"]),
    ("roundtrip-cli", &["roundtrip-skips"]),
    (
        "roundtrip-benchmarks",
        &[
            "roundtrip-analysis",
            "roundtrip-binder",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-foreign",
            "roundtrip-layers",
            "roundtrip-run",
            "roundtrip-stored",
            "roundtrip-tracefs",
        ],
    ),
    ("roundtrip-guest", &["roundtrip-binder-driver", "roundtrip-skips"]),
    (
        "roundtrip",
        &[
            "roundtrip-analysis",
            "roundtrip-bench",
            "roundtrip-binder",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-latency",
            "roundtrip-layers",
            "roundtrip-run",
            "roundtrip-skips",
            "roundtrip-tracefs",
        ],
    ),
];

/// What must not be linked into a crate, even indirectly.
const NEVER_LINKED: &[(&str, &[&str])] = &[
    // A device's run can be explained and shown on any machine.
    (
        "roundtrip-run",
        &["roundtrip-bench", "roundtrip-binder-driver", "roundtrip-binder-emulator", "roundtrip-tracefs"],
    ),
    ("roundtrip-layers", &["roundtrip-bench", "roundtrip-run", "rustix"]),
    (
        "roundtrip-analysis",
        &[
            "roundtrip-bench",
            "roundtrip-binder-driver",
            "roundtrip-binder-emulator",
            "roundtrip-report",
            "rustix",
        ],
    ),
    (
        "roundtrip-report",
        &["roundtrip-bench", "roundtrip-binder-driver", "roundtrip-binder-emulator", "rustix"],
    ),
    ("roundtrip-bench", &["roundtrip-analysis", "roundtrip-layers", "roundtrip-report"]),
];

fn packages() -> Vec<Package> {
    MetadataCommand::new().no_deps().exec().expect("cargo describes the workspace").packages
}

/// The workspace dependencies of each package, of these kinds.
fn edges(packages: &[Package], kinds: &[DependencyKind]) -> BTreeMap<String, BTreeSet<String>> {
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let of = |package: &Package| {
        let chosen = package.dependencies.iter().filter(|dependency| kinds.contains(&dependency.kind));
        chosen.map(|dependency| dependency.name.clone()).filter(|name| ours.contains(name.as_str())).collect()
    };
    packages.iter().map(|package| (package.name.to_string(), of(package))).collect()
}

/// The differences between a table and the workspace, one line each.
fn differences(table: &[(&str, &[&str])], found: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, found) in found {
        let allowed = table.iter().find(|(of, _)| of == name).map_or(&[][..], |(_, allowed)| *allowed);
        for one in found.iter().filter(|one| !allowed.contains(&one.as_str())) {
            lines.push(format!("{name} depends on {one}, which the table does not allow"));
        }
        for one in allowed.iter().filter(|one| !found.contains(**one)) {
            lines.push(format!("{name} does not depend on {one}, although the table says so"));
        }
    }
    let unknown = table.iter().filter(|(of, _)| !found.contains_key(*of));
    lines.extend(unknown.map(|(of, _)| format!("there is no crate {of}, which the table names")));
    lines
}

#[test]
fn crates_link_exactly_what_the_table_allows() {
    let found = edges(&packages(), &[DependencyKind::Normal, DependencyKind::Build]);
    let wrong = differences(LINKS, &found);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in found.keys() {
        assert!(LINKS.iter().any(|(of, _)| of == name), "the crate {name} is not in the table");
    }
}

#[test]
fn tests_use_exactly_what_the_table_allows() {
    let found = edges(&packages(), &[DependencyKind::Development]);
    let wrong = differences(TESTS_USE, &found);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_do_not_link_forbidden_crates_indirectly() {
    for (name, never) in NEVER_LINKED {
        // Each crate alone: otherwise another crate of the workspace may enable more features of a
        // dependency.
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--no-default-features", "--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}", "--package", name])
            .output()
            .expect("cargo runs");
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let tree = String::from_utf8(tree.stdout).expect("cargo writes UTF-8");
        let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(linked.contains(name), "cargo tree does not list {name}: {linked:?}");
        let wrong: Vec<_> = never.iter().filter(|one| linked.contains(**one)).collect();
        assert!(wrong.is_empty(), "{name} links {wrong:?}");
    }
}

#[test]
fn wrong_edges_and_outdated_table_entries_are_found() {
    let of = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let found = [("report".to_owned(), of(&["bench"])), ("run".to_owned(), of(&[]))].into();
    assert_eq!(
        differences(&[("report", &[]), ("run", &["files"]), ("gone", &[])], &found),
        [
            "report depends on bench, which the table does not allow",
            "run does not depend on files, although the table says so",
            "there is no crate gone, which the table names",
        ]
    );
}
