//! Watches the compilers that Cargo starts, to see how long each program takes to compile and to
//! link. Cargo's own report has no time for linking. Knows nothing about what is built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// How often processes are listed. Shorter compilations may be missed.
const INTERVAL: Duration = Duration::from_millis(100);

/// The time that one compiler took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Built {
    /// All of it, with the linker.
    pub(crate) whole_s: f64,
    pub(crate) link_s: f64,
}

/// What was built, by the names of the compiled files without their endings, which have a hash.
pub(crate) type Builds = BTreeMap<String, Built>;

/// Builds, and returns what was built below `target`, even if that failed.
pub(crate) fn watch<T>(target: &Path, build: impl FnOnce() -> T) -> (T, Builds) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut builds, mut last) = (Builds::new(), Instant::now());
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
                let passed_s = last.elapsed().as_secs_f64();
                last = Instant::now();
                for running in compilers(target) {
                    let built = builds.entry(running.name).or_default();
                    *if running.is_linker { &mut built.link_s } else { &mut built.whole_s } += passed_s;
                }
            }
            builds
        });
        let built = build();
        ended.store(true, Ordering::Relaxed);
        (built, watching.join().unwrap_or_default())
    })
}

/// Stores what was built, for the report at the end.
pub(crate) fn store(builds: &Builds, notes: &Path) -> Result<()> {
    let lines = builds.iter().map(|(name, built)| format!("{} {} {name}\n", built.whole_s, built.link_s));
    std::fs::write(notes, lines.collect::<String>()).with_context(|| format!("write {}", notes.display()))
}

/// Reads what was stored. No file means that nothing was built.
pub(crate) fn read(notes: &Path) -> Builds {
    let text = std::fs::read_to_string(notes).unwrap_or_default();
    let built = |line: &str| {
        let (whole, rest) = line.split_once(' ')?;
        let (link, name) = rest.split_once(' ')?;
        Some((name.to_owned(), Built { whole_s: whole.parse().ok()?, link_s: link.parse().ok()? }))
    };
    text.lines().filter_map(built).collect()
}

/// A compiler or a linker that runs now.
#[derive(Debug, PartialEq, Eq)]
struct Running {
    name: String,
    is_linker: bool,
}

fn compilers(target: &Path) -> impl Iterator<Item = Running> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |process| {
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            return None;
        }
        let bytes = std::fs::read(process.path().join("cmdline")).ok()?;
        let words: Vec<&str> =
            bytes.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok()).collect();
        running(&words, target)
    })
}

/// What a process compiles or links below this folder, if its words say so.
fn running(words: &[&str], target: &Path) -> Option<Running> {
    let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let program = Path::new(words.first()?).file_name()?.to_str()?;
    match program {
        "rustc" => {
            let is_here = value("--out-dir").is_some_and(|folder| Path::new(folder).starts_with(target));
            let hash = words.iter().find_map(|word| word.strip_prefix("extra-filename="))?;
            is_here.then(|| Running {
                name: format!("{}{hash}", value("--crate-name").unwrap_or(&"")),
                is_linker: false,
            })
        }
        // The driver of the linker, which rustc starts, and which waits for it.
        "cc" => {
            let file = value("-o").map(PathBuf::from).filter(|file| file.starts_with(target))?;
            Some(Running { name: file.file_name()?.to_str()?.to_owned(), is_linker: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_and_linkers_are_recognised_by_what_they_write() {
        let of = |line: &str| running(&line.split(' ').collect::<Vec<_>>(), Path::new("/t"));
        let found = |name: &str, is_linker| Some(Running { name: name.to_owned(), is_linker });
        let compiler = "/bin/rustc --crate-name a_b --test -C extra-filename=-12 --out-dir /t/debug/deps";
        assert_eq!(of(compiler), found("a_b-12", false));
        assert_eq!(of("cc -m64 /t/x.o -o /t/debug/deps/a_b-12 -Wl,--gc-sections"), found("a_b-12", true));
        assert_eq!(of(&compiler.replace("/t/", "/other/")), None);
        assert_eq!(of("cc -o /other/x"), None);
        assert_eq!(of("sh -o /t/x"), None);
        assert_eq!(running(&[], Path::new("/t")), None);
    }
}
