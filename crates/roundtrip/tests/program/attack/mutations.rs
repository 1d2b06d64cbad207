//! Run directories with accidental or malicious damage.

use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use serde_json::Value;

use crate::attack::victim::{Victim, roundtrip};
use crate::attack::{Folder, rounds};

/// Runs to damage: recorded ones from the fixtures, and one of each test, created here.
fn originals() -> (Folder, Vec<PathBuf>) {
    let folder = Folder::new("originals");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    let fixtures = std::fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path());
    let mut runs: Vec<PathBuf> = fixtures.collect();
    for (name, args) in [
        (
            "latency",
            "ipc latency --driver emulated --iterations 30 --deadline 1ns --explain --explain-limit 2",
        ),
        ("throughput", "ipc throughput --driver emulated --sizes 4,64k --min-time 50ms --repetitions 2"),
        ("workers", "ipc workers --driver emulated --workers 2 --iterations 50"),
        ("layers", "storage layers --writers native --sizes 4k --calls 5 --rounds 1 --file-size 1M"),
    ] {
        let run = folder.path().join(name);
        let output = roundtrip(args).arg("--out").arg(&run).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        runs.push(run);
    }
    (folder, runs)
}

#[test]
fn a_damaged_run_directory_is_rejected_or_read_without_harm() {
    let (_folder, originals) = originals();
    rounds(40, |random| {
        let original = random.choice(&originals).unwrap();
        let folder = Folder::new("mutated");
        let run = folder.path().join("a-run");
        copy(original, &run);
        let done: Vec<String> = (0..random.usize(1..4)).map(|_| damage(&run, random)).collect();
        for mut command in commands(&run, original, random) {
            // A small file must not be able to claim all memory.
            limit_memory(&mut command);
            let end = Victim::start(command, Folder::new("reader")).end();
            let judged = end.and_then(|end| {
                end.is_sound(&[])?;
                match end.status.code() {
                    Some(0..=2) => {}
                    _ => return Err(end.finding("this is no exit status of its")),
                }
                let failed = !end.status.success();
                if failed && !end.files.is_empty() {
                    Err(end.finding("it failed and left a file"))
                } else {
                    Ok(())
                }
            });
            judged.map_err(|finding| format!("{} {done:?}\n  {finding}", original.display()))?;
        }
        Ok(())
    });
}

/// Damage that cannot be mistaken for a valid run must be detected: no figures may be shown for it.
/// Values that were changed to other valid values, and bits within pages, are not tested here,
/// because they cannot be detected.
#[test]
fn plain_damage_is_reported_or_leaves_the_output_unchanged() {
    let (_folder, originals) = originals();
    rounds(40, |random| {
        let original = random.choice(&originals).unwrap();
        let folder = Folder::new("plain");
        let run = folder.path().join("a-run");
        copy(original, &run);
        let read = |args: &str| {
            let mut command = roundtrip(args);
            command.arg("a-run").current_dir(folder.path());
            let output = command.output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Ok::<_, String>((output.status.code(), output.stdout, said))
        };
        let args = random.choice(["show", "show --format json", "explain", "explain --format json"]).unwrap();
        let (whole_code, whole, _) = read(args)?;
        let Some(done) = damage_plainly(&run, random) else { return Ok(()) };
        let (code, shown, said) = read(args)?;
        let named = ["run.json", "recording", "snapshot"].iter().any(|place| said.contains(place));
        let sound = match code {
            Some(0) => shown == whole && whole_code == Some(0),
            Some(1 | 2) => named || whole_code != Some(0),
            _ => false,
        };
        if sound {
            return Ok(());
        }
        let changed = String::from_utf8_lossy(&shown).chars().take(400).collect::<String>();
        Err(format!("{} {done}: `{args}` ended with {code:?}: {said}\n{changed}", original.display()))
    });
}

/// Damages one file so that it has an invalid format, and describes how. `None` if nothing was
/// changed.
fn damage_plainly(run: &Path, random: &mut Rng) -> Option<String> {
    let mut files = Vec::new();
    collect(run, &mut files);
    let judged = |file: &&PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy();
        name == "run.json" || name == "recording.json" || name == "calls" || name.ends_with(".pages")
    };
    let files: Vec<PathBuf> = files.iter().filter(judged).cloned().collect();
    let file = random.choice(files)?;
    let name = file.strip_prefix(run).unwrap().display().to_string();
    let before = read_whole(&file).ok()?;
    let mut bytes = before.clone();
    let done = match random.u8(..3) {
        0 if name.ends_with(".json") => {
            bytes.truncate(random.usize(..bytes.len().max(1)));
            "cut off"
        }
        0 => {
            // Neither a whole record nor a whole page.
            bytes.truncate(random.usize(..bytes.len().max(1)) | 1);
            "cut off"
        }
        1 => {
            bytes.iter_mut().for_each(|byte| *byte = random.u8(..));
            "noise"
        }
        _ => return Some(format!("{name}: {}", replace(&file, random))),
    };
    std::fs::write(&file, &bytes).unwrap();
    (bytes != before).then(|| format!("{name}: {done}, {} of {} bytes", bytes.len(), before.len()))
}

/// Some of the commands that read runs.
fn commands(run: &Path, whole: &Path, random: &mut Rng) -> Vec<Command> {
    let mut all: Vec<Command> = ["show", "show --format json", "explain", "explain --format json"]
        .iter()
        .map(|args| roundtrip(args))
        .chain([roundtrip("explain -o out.perfetto-trace"), roundtrip("trace convert -o out.txt")])
        .collect();
    for command in &mut all {
        command.arg(run);
    }
    let mut merged = roundtrip("show --merge");
    merged.arg(whole).arg(run);
    all.push(merged);
    random.shuffle(&mut all);
    all.truncate(3);
    all
}

/// Limits the address space to two gigabytes, more than reading a small run needs.
fn limit_memory(command: &mut Command) {
    let mut limited = Command::new("prlimit");
    limited.args(["--as=2147483648", "--"]).arg(command.get_program()).args(command.get_args());
    *command = limited;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Damages one file, and describes how.
fn damage(run: &Path, random: &mut Rng) -> String {
    let mut files = Vec::new();
    collect(run, &mut files);
    files.sort();
    // There are many formats, but few of the more important files.
    let weighty = |file: &&PathBuf| !file.components().any(|part| part.as_os_str() == "formats");
    let few: Vec<PathBuf> = files.iter().filter(weighty).cloned().collect();
    let file = if random.u8(..4) > 0 && !few.is_empty() { random.choice(few) } else { random.choice(files) };
    let Some(file) = file else { return "nothing is left".into() };
    let name = file.strip_prefix(run).unwrap().display().to_string();
    let Ok(mut bytes) = read_whole(&file) else { return format!("{name}: damaged already") };
    let kind = random.u8(..12);
    match kind {
        0..4 if name.ends_with(".json") => return format!("{name}: {}", damage_json(&file, &bytes, random)),
        0..3 => flip(&mut bytes, random),
        3 | 4 => bytes.truncate(random.usize(..=bytes.len())),
        5 => bytes.iter_mut().for_each(|byte| *byte = random.u8(..)),
        6 => splice(&mut bytes, random),
        _ => return format!("{name}: {}", replace(&file, random)),
    }
    std::fs::write(&file, &bytes).unwrap();
    format!("{name}: bytes, kind {kind}")
}

/// The contents, if it is a regular file.
fn read_whole(file: &Path) -> std::io::Result<Vec<u8>> {
    let meta = std::fs::symlink_metadata(file)?;
    if !meta.is_file() || meta.len() > 64 << 20 {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    std::fs::read(file)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => collect(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

fn flip(bytes: &mut [u8], random: &mut Rng) {
    for _ in 0..random.usize(1..20) {
        if let Some(byte) = random.choice(bytes.iter_mut()) {
            *byte ^= 1 << random.u8(..8);
        }
    }
}

/// Copies part of the bytes to another place.
fn splice(bytes: &mut Vec<u8>, random: &mut Rng) {
    let (from, to) = (random.usize(..=bytes.len()), random.usize(..=bytes.len()));
    let part = bytes[from.min(to)..from.max(to)].to_vec();
    let at = random.usize(..=bytes.len());
    bytes.splice(at..at, part);
}

/// Replaces a file by something else.
fn replace(file: &Path, random: &mut Rng) -> &'static str {
    std::fs::remove_file(file).unwrap();
    match random.u8(..6) {
        0 => "removed",
        1 => {
            let made = Command::new("mkfifo").arg(file).status().unwrap();
            assert!(made.success());
            "a FIFO"
        }
        2 => {
            symlink("/dev/zero", file).unwrap();
            "a link to /dev/zero"
        }
        3 => {
            std::fs::create_dir(file).unwrap();
            "a directory"
        }
        4 => {
            let sparse = std::fs::File::create(file).unwrap();
            sparse.set_len(3 << 30).unwrap();
            sparse.write_at(b"{\"schema\":\"roundtrip.run\"", 0).unwrap();
            "three sparse gigabytes"
        }
        _ => {
            symlink("/proc/self/mem", file).unwrap();
            "a link to /proc/self/mem"
        }
    }
}

/// Changes one value of a JSON file.
fn damage_json(file: &Path, bytes: &[u8], random: &mut Rng) -> String {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else {
        return "damaged already".into();
    };
    let mut paths = Vec::new();
    pointers(&value, String::new(), &mut paths);
    let path = random.choice(paths).unwrap_or_default();
    let done = match value.pointer_mut(&path) {
        Some(Value::Array(items)) if random.bool() && items.len() < 100 => {
            let once = items.clone();
            (0..200).for_each(|_| items.extend(once.iter().cloned()));
            "201 times".to_owned()
        }
        Some(one) => {
            *one = strange(random);
            one.to_string().chars().take(60).collect()
        }
        None => unreachable!("it was found there"),
    };
    std::fs::write(file, serde_json::to_vec(&value).unwrap()).unwrap();
    format!("{path} is {done}")
}

fn pointers(value: &Value, path: String, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            pointers(value, format!("{path}/{name}"), all);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, value)| pointers(value, format!("{path}/{at}"), all));
        }
        _ => {}
    }
    all.push(path);
}

fn strange(random: &mut Rng) -> Value {
    let deep = (0..100).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let values = [
        Value::Null,
        Value::from(-1),
        Value::from(0),
        Value::from(u64::MAX),
        Value::from(i64::MIN),
        Value::from(1e308),
        Value::from(true),
        Value::from(""),
        Value::from("\u{1b}]0;pwn\u{7}\n\u{9b}31m\u{202e}"),
        Value::from("../../../../etc/passwd"),
        Value::from("x".repeat(100_000)),
        Value::Array(Vec::new()),
        Value::Object(serde_json::Map::new()),
        deep,
    ];
    random.choice(values).unwrap()
}
