//! Kernel module files: their dependencies, and an order to load them. Loads nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Modules by name.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    by_name: BTreeMap<String, (PathBuf, Vec<String>)>,
}

/// A module's name. File names may have `-` instead of `_`.
fn name_of(path: &Path) -> Option<String> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

impl Modules {
    /// Finds all module files in a folder and below. They must not be compressed.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(name) = name_of(&path) {
                    let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
                    modules.by_name.insert(name, (path, needs(&bytes)));
                }
            }
        }
        Ok(modules)
    }

    /// These, and all that they need, each behind those that it needs. What is asked for and is not
    /// here is taken for built in; what one of them needs must be here.
    pub(crate) fn in_order(&self, wanted: &[&str]) -> Result<Vec<PathBuf>> {
        let mut order = Vec::new();
        for &name in wanted {
            if self.by_name.contains_key(name) {
                self.add(name, &mut order, 0)?;
            }
        }
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<PathBuf>, depth: u32) -> Result<()> {
        /// More than the dependency depth of any real module.
        const DEEPEST: u32 = 32;
        let Some((path, needs)) = self.by_name.get(name) else {
            bail!("the required module {name} is missing")
        };
        if order.contains(path) {
            return Ok(());
        }
        if depth > DEEPEST {
            bail!("the module {name} needs itself");
        }
        for need in needs {
            self.add(need, order, depth + 1)?;
        }
        order.push(path.clone());
        Ok(())
    }
}

/// The names after `depends=` in a module's `.modinfo` section, whose texts are NUL-terminated.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|window| window == KEY);
    let Some(rest) = at.and_then(|at| module.get(at + KEY.len()..)) else { return Vec::new() };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
    let text = String::from_utf8_lossy(&rest[..end]);
    text.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_their_dependencies() {
        let folder = std::env::temp_dir().join(format!("roundtrip-guest-modules-{}", std::process::id()));
        fs::create_dir_all(folder.join("fs")).expect("a folder");
        for (file, needs) in
            [("fs/top.ko", "low,mid-dle"), ("mid-dle.ko", "low"), ("low.ko", ""), ("odd.ko", "absent")]
        {
            let bytes = format!("\x7fELF..\0license=GPL\0depends={needs}\0name=x\0");
            fs::write(folder.join(file), bytes).expect("a file");
        }
        let modules = Modules::read(&folder).expect("modules");
        let order = modules.in_order(&["top", "builtin"]).expect("an order");
        let names: Vec<_> = order.iter().filter_map(|path| name_of(path)).collect();
        assert_eq!(names, ["low", "mid_dle", "top"]);
        assert!(modules.in_order(&["odd"]).expect_err("a need").to_string().contains("absent"));
        fs::remove_dir_all(&folder).expect("removable");
    }
}
