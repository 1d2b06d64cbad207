//! Which files of a crate refer to which others. Files that refer to each other in a cycle can only
//! be understood together. A module and its submodules may refer to each other, and tests may refer
//! to anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use crate::outcome::Outcome;
use crate::shell::{output, root};

/// A module's path below its crate; empty for the crate root.
type Module = Vec<String>;

/// What one file refers to.
#[derive(Default)]
struct File {
    /// All paths in it that lead through the crate.
    named: Vec<Vec<String>>,
    /// The names that it re-exports, with their paths.
    exported: BTreeMap<String, Vec<String>>,
}

/// Fails if files of a crate refer to each other in a cycle.
pub(crate) fn none() -> Result<Outcome> {
    let listed =
        output("git", &["ls-files", "*.rs"]).context("git does not list the files of this project")?;
    let mut crates: BTreeMap<&str, BTreeMap<Module, File>> = BTreeMap::new();
    for path in listed.lines() {
        let Some((folder, file)) = path.split_once("/src/") else { continue };
        let Some(module) = module_of(file) else { continue };
        let text =
            std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))?;
        let read = File::read(&text).with_context(|| format!("cannot parse {path}"))?;
        crates.entry(folder).or_default().insert(module, read);
    }
    let rings = crates.iter().flat_map(|(folder, files)| {
        rings(files).into_iter().map(move |ring| format!("{folder}/src: {}", ring.join(", ")))
    });
    let rings: Vec<String> = rings.collect();
    if !rings.is_empty() {
        bail!("files that refer to each other in a cycle:\n{}", rings.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// The module of a file below `src`. `None` for a file with only tests.
fn module_of(file: &str) -> Option<Module> {
    let path = Path::new(file).with_extension("");
    let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.iter().any(|part| part == "tests" || part.ends_with("_tests")) {
        return None;
    }
    if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    Some(module)
}

impl File {
    fn read(text: &str) -> syn::Result<Self> {
        let mut file = Self::default();
        file.visit_file(&syn::parse_file(text)?);
        Ok(file)
    }

    /// The module among `files` that a path in `module` refers to, following re-exports. `None` for
    /// what is not in this crate.
    fn target<'f>(
        files: &'f BTreeMap<Module, Self>,
        module: &[String],
        path: &[String],
    ) -> Option<&'f Module> {
        let path = absolute(module, path, files)?;
        let length = (0..=path.len()).rev().find(|&length| files.contains_key(&path[..length]))?;
        let (found, file) = files.get_key_value(&path[..length])?;
        let elsewhere = path.get(length).and_then(|name| file.exported.get(name));
        match elsewhere {
            Some(there) => Self::target(files, found, there).or(Some(found)),
            None => Some(found),
        }
    }
}

/// The path from the crate root. A relative path leads through the module's children, or out of the
/// crate.
fn absolute(module: &[String], path: &[String], files: &BTreeMap<Module, File>) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let rest = &path[supers..];
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "super" => (module.get(..module.len().checked_sub(supers)?)?, rest),
        "self" => (module, &path[1..]),
        _ => {
            let child = [module, &path[..1]].concat();
            return files.contains_key(&child).then(|| [module, path].concat());
        }
    };
    Some([base, rest].concat())
}

/// The cycles in a crate, each as file names.
fn rings(files: &BTreeMap<Module, File>) -> Vec<Vec<String>> {
    let mut graph = DiGraphMap::<&Module, ()>::new();
    for (module, file) in files {
        let targets = file.named.iter().filter_map(|path| File::target(files, module, path));
        for target in targets.collect::<BTreeSet<_>>() {
            if !module.starts_with(target) && !target.starts_with(module) {
                graph.add_edge(module, target, ());
            }
        }
    }
    let rings = tarjan_scc(&graph).into_iter().filter(|ring| ring.len() > 1);
    let mut rings: Vec<Vec<String>> =
        rings.map(|ring| ring.iter().map(|module| module.join("::")).collect()).collect();
    rings.iter_mut().for_each(|ring| ring.sort());
    rings.sort();
    rings
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'a> Visit<'a> for File {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let mut paths = Vec::new();
        expand(&item.tree, &mut Vec::new(), &mut paths);
        for (name, path) in paths {
            if !matches!(item.vis, Visibility::Inherited) {
                self.exported.insert(name, path.clone());
            }
            self.named.push(path);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 {
            self.named.push(parts);
        }
        visit::visit_path(self, path);
    }
}

/// Each path of a `use`, with its local name.
fn expand(tree: &UseTree, above: &mut Vec<String>, paths: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            above.push(path.ident.to_string());
            expand(&path.tree, above, paths);
            above.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| expand(tree, above, paths)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let path = if name == "self" {
                above.clone()
            } else {
                [&above[..], std::slice::from_ref(&name)].concat()
            };
            paths.push((path.last().cloned().unwrap_or(name), path));
        }
        UseTree::Rename(rename) => {
            paths.push((rename.rename.to_string(), [&above[..], &[rename.ident.to_string()]].concat()));
        }
        UseTree::Glob(_) => paths.push((String::new(), above.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let read = |&(file, text): &(&str, &str)| Some((module_of(file)?, File::read(text).unwrap()));
        rings(&files.iter().filter_map(read).collect())
    }

    #[test]
    fn files_that_refer_to_each_other_in_any_way_form_a_cycle() {
        let ring = [["a", "b"]];
        assert_eq!(rings_of(&[("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::{self, A};")]), ring);
        assert_eq!(
            rings_of(&[("a.rs", "fn f() { crate::b::g() }"), ("b.rs", "struct S(super::a::A);")]),
            ring
        );
        let by_export =
            [("lib.rs", "pub use b::B;"), ("a.rs", "use crate::B;"), ("b.rs", "use crate::a::A;")];
        assert_eq!(rings_of(&by_export), ring);
        let of_three =
            [("a.rs", "use crate::b::X;"), ("b.rs", "use crate::c::X;"), ("c.rs", "use crate::a::X;")];
        assert_eq!(rings_of(&of_three), [["a", "b", "c"]]);
        let children = [("a/mod.rs", ""), ("a/x.rs", "use super::y::Y;"), ("a/y.rs", "use crate::a::x::X;")];
        assert_eq!(rings_of(&children), [["a::x", "a::y"]]);
    }

    #[test]
    fn one_way_references_child_modules_and_tests_form_no_cycle() {
        assert!(rings_of(&[("a.rs", "use crate::b::B;"), ("b.rs", "use std::a::A;")]).is_empty());
        assert!(rings_of(&[("a/mod.rs", "use x::X;"), ("a/x.rs", "use super::A;")]).is_empty());
        let tested = "#[cfg(test)] mod tests { use crate::a::A; }";
        assert!(rings_of(&[("a.rs", "use crate::b::B;"), ("b.rs", tested)]).is_empty());
        assert!(rings_of(&[("a.rs", "use crate::b::B;"), ("b_tests.rs", "use crate::a::A;")]).is_empty());
    }
}
