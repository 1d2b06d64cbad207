//! `cargo xtask sizes`: what takes up space in the binary for devices, by module and by function,
//! to look at when it has grown. Builds the binary like `dist`, but with symbols. Has no limit.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::install::TARGETS;
use crate::outcome::Outcome;
use crate::shell::{cargo_command, output, run, say, target_dir};

/// The number of lines in each of the two lists.
const LINES: usize = 40;

/// Builds and prints.
pub(crate) fn show() -> Result<Outcome> {
    let [target, _] = TARGETS;
    let folder = target_dir().join("sizes");
    // The newer symbol format shows for which types generic code was compiled.
    let named = format!("target.{target}.rustflags = ['-Csymbol-mangling-version=v0']");
    run(cargo_command()
        .args(["--config", &named, "build", "--release", "--package", "roundtrip", "--no-default-features"])
        .args(["--target", target, "--config", "profile.release.strip = 'none'", "--target-dir"])
        .arg(&folder))?;
    let binary = folder.join(target).join("release/roundtrip");
    let binary = binary.to_str().with_context(|| format!("{} is not UTF-8", binary.display()))?;
    let Some(listed) = output("nm", &["--print-size", "--size-sort", "--demangle", binary]) else {
        return Ok(Outcome::NotRun("nm is not installed; install Debian's package binutils".to_owned()));
    };
    let mut functions: Vec<(u64, &str)> = listed.lines().filter_map(function).collect();
    functions.sort_unstable_by(|one, other| other.cmp(one));
    // If identical functions share their code, one represents all.
    let total: u64 = functions.iter().map(|(bytes, _)| bytes).sum();
    say(&format!("{total} bytes of code in {} functions", functions.len()));
    let mut modules = BTreeMap::<&str, (u64, usize)>::new();
    for &(bytes, name) in &functions {
        let (sum, count) = modules.entry(module(name)).or_default();
        (*sum, *count) = (*sum + bytes, *count + 1);
    }
    let mut modules: Vec<_> = modules.into_iter().collect();
    modules.sort_unstable_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    say("\n  bytes  functions  module");
    for (name, (bytes, count)) in modules.iter().take(LINES) {
        say(&format!("{bytes:>7}  {count:>9}  {name}"));
    }
    say("\n  bytes  function");
    for (bytes, name) in functions.iter().take(LINES) {
        say(&format!("{bytes:>7}  {name}"));
    }
    Ok(Outcome::Passed)
}

/// Size and name of a function in a line of `nm`: address, size, kind, name. `None` for other
/// lines.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut fields = line.splitn(4, ' ');
    let (_address, size, kind, name) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let code = matches!(kind, "t" | "T" | "w" | "W");
    u64::from_str_radix(size, 16).ok().filter(|_| code).map(|bytes| (bytes, name))
}

/// A function's crate and top-level module; for a method those of its type, for C code its name.
fn module(name: &str) -> &str {
    let rest = name.trim_start_matches(['<', '&', '(', '[', '*']);
    let rest =
        ["mut ", "const ", "dyn "].iter().fold(rest, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
    let rest = rest.trim_start_matches(['<', '[']);
    let end_of_word =
        |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let end = end_of_word(rest);
    match rest[end..].strip_prefix("::") {
        Some(after) if after.starts_with(char::is_lowercase) => &rest[..end + 2 + end_of_word(after)],
        _ => &rest[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_with_a_size_are_listed() {
        let line = "0000000000105f60 00000000000000a8 t binder::descriptors::close_listed";
        assert_eq!(function(line), Some((168, "binder::descriptors::close_listed")));
        assert_eq!(function("00000000002c9ca0 0000000000000010 r TABLE"), None);
        assert_eq!(function("00000000002c9ca0 T _start"), None);
    }

    #[test]
    fn a_method_belongs_to_its_types_module() {
        for (name, expected) in [
            ("cli::commands::show::run", "cli::commands"),
            ("<binder::thread::ThreadState>::handle", "binder::thread"),
            (
                "<&mut stored::reader::Items as serde_core::de::SeqAccess>::next::<run::directory::Run>",
                "stored::reader",
            ),
            ("<[bench::job::Job] as core::clone::Clone>::clone", "bench::job"),
            ("<bool as core::fmt::Debug>::fmt", "bool"),
            ("roundtrip::main", "roundtrip::main"),
            ("core::ptr::drop_in_place::<tracefs::Trace>", "core::ptr"),
            ("fmt_fp", "fmt_fp"),
        ] {
            assert_eq!(module(name), expected, "{name}");
        }
    }
}
