//! What a program was made of, as a CycloneDX 1.5 document: each package of Rust with its version
//! and licence, as Cargo resolved them for the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Machine, version};
use crate::shell::output;

/// Writes the document of one machine's program, and returns its path.
pub(super) fn write(machine: Machine, folder: &Path) -> Result<PathBuf> {
    let listed = output(
        "cargo",
        &[
            "tree",
            "--locked",
            "--package",
            "roundtrip",
            "--edges",
            "normal",
            "--target",
            machine.target,
            "--prefix",
            "none",
            "--format",
            "{p}|{l}",
        ],
    );
    let version = version()?;
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component("roundtrip", &version, "Apache-2.0") },
        "components": components(&listed.context("cargo tree failed")?),
    });
    let path = folder.join(format!("roundtrip-{version}-{}.cdx.json", machine.arch));
    fs::write(&path, format!("{bill:#}\n")).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// The packages in lines of a name, `v` and a version, perhaps more words, `|` and a licence.
fn components(listed: &str) -> Vec<Value> {
    let lines: BTreeSet<(&str, &str, &str)> = listed
        .lines()
        .filter_map(|line| {
            let (package, licence) = line.split_once('|')?;
            let mut words = package.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?, licence.trim_end_matches(" (*)")))
        })
        .collect();
    lines.iter().map(|(name, version, licence)| component(name, version, licence)).collect()
}

fn component(name: &str, version: &str, licence: &str) -> Value {
    json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{ "expression": licence.replace('/', " OR ") }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_a_component_once_with_its_licence() {
        let listed = "roundtrip v0.1.0 (/x)|Apache-2.0\nlibc v0.2.1|MIT/Apache-2.0\nlibc v0.2.1|MIT/Apache-2.0 (*)\n\nx\n";
        let found = components(listed);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0]["purl"], "pkg:cargo/libc@0.2.1");
        assert_eq!(found[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    }
}
