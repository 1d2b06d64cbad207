//! Compares docs/json-and-csv.md with the program: the page names every field and column in the
//! output of commands with its type, and everything that it names is in the output of some command.
//! Also compares the JSON Schemas beside the page with both.

mod page;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use page::{Field, Reference, alternatives};
use roundtrip_skips::{Need, skip};
use schema::Schemas;
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json-and-csv.md");

/// The heading of the CSV formats.
const CSV: &str = "\n## CSV\n";

/// Compares the page's types with values.
impl Reference {
    /// Checks a value against a type, and notes each field that occurs. Errors are added to
    /// `wrong`.
    fn check(
        &self,
        types: &[String],
        value: &Value,
        at: &str,
        seen: &mut Seen,
        wrong: &mut BTreeSet<String>,
    ) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(items) => {
                let Some(item) = types.iter().find_map(|one| one.strip_prefix("list of ")) else {
                    wrong.insert(format!("{at} is a list, the page says {}", types.join(" or ")));
                    return;
                };
                // The alternatives after `list of` are the types of the list's items.
                let mut inner = alternatives(item);
                inner.extend(types.iter().filter(|one| !one.starts_with("list of ")).cloned());
                items.iter().for_each(|item| self.check(&inner, item, at, seen, wrong));
                return;
            }
            Value::Object(fields) => {
                if let Some(item) = types.iter().find_map(|one| one.strip_prefix("map of ")) {
                    let inner = alternatives(item);
                    fields.values().for_each(|item| self.check(&inner, item, at, seen, wrong));
                    return;
                }
                match types.iter().find_map(|one| self.0.get_key_value(one)) {
                    Some((name, known)) => self.check_object(name, known, fields, seen, wrong),
                    None => {
                        wrong.insert(format!("{at} is an object, the page says {}", types.join(" or ")));
                    }
                }
                return;
            }
        };
        if !types.iter().any(|one| one == kind || (one == "number" && kind == "integer")) {
            wrong.insert(format!("{at} is {kind}, the page says {}", types.join(" or ")));
        }
    }

    fn check_object(
        &self,
        name: &str,
        known: &BTreeMap<String, Field>,
        fields: &serde_json::Map<String, Value>,
        seen: &mut Seen,
        wrong: &mut BTreeSet<String>,
    ) {
        for (key, value) in fields {
            let at = format!("{name}.{key}");
            match known.get(key) {
                Some(field) => self.check(&field.types, value, &at, seen, wrong),
                None => {
                    wrong.insert(format!("{at} is not on the page"));
                }
            }
            seen.insert((name.to_owned(), key.clone()));
        }
        for (key, _) in known.iter().filter(|(key, field)| !field.optional && !fields.contains_key(*key)) {
            wrong.insert(format!("{name}.{key} is missing, and not optional"));
        }
    }

    /// The fields that no output had, except those that the page marks as rare.
    fn unseen(&self, seen: &Seen) -> Vec<String> {
        let all = self.0.iter().flat_map(|(name, fields)| {
            fields
                .iter()
                .filter(|(_, field)| !field.rare)
                .map(move |(field, _)| (name.clone(), field.clone()))
        });
        all.filter(|one| !seen.contains(one)).map(|(name, field)| format!("{name}.{field}")).collect()
    }
}

type Seen = BTreeSet<(String, String)>;

/// A temporary folder for this test's runs.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// The output of a command.
    fn output(&self, line: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(line.split(' ')).current_dir(&self.0).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Short runs that together contain all parts of all results.
const JSON: [&str; 16] = [
    "survey --duration 3s --out survey --format json",
    "ipc throughput --iterations 400 --sizes 4 --label build=1 --format json",
    "ipc throughput --iterations 20 --sizes 4 --format json",
    "ipc latency --duration 400ms --rate 1000/s --load hogs=1 --inject sleep --deadline 60us --explain \
     --explain-system-calls --out latency --format json",
    "ipc baseline --rounds 6 --duration 300ms --sizes 4,64k --format json",
    "ipc workers --iterations 100 --training --services 2 --format json",
    "ipc workers --iterations 50 --warn-above 20us --format json",
    "ipc traits --iterations 50 --format json",
    "storage layers --calls 3 --rounds 1 --sizes 4k --writers native --format json",
    "storage interference --rounds 1 --duration 1ms --file-size 1M --conditions alone --format json",
    "explain latency --format json",
    "explain --deadline 1us --format json writes.txt",
    concat!(
        "explain --format json ",
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/runs/x86_64-6.18-observed-writes"
    ),
    "doctor --format json",
    "show --format json latency",
    "ab --pairs 2 --noise 1000% --format json -- ipc latency --iterations 50 -- ipc latency --iterations 50 --work 9us",
];

/// Further runs, which need root.
const AS_ROOT: [&str; 5] = [
    "storage study --rounds 1 --duration 1ms --file-size 1M --sizes 4k,16k --writers native --format json",
    "ipc baseline --rounds 6 --duration 300ms --sizes 4 --transports pipe --placements same --recorder --format json",
    "storage layers --calls 2 --rounds 1 --sizes 4k --writers native --method strace --format json",
    "storage syscalls --format json -- true",
    "storage observe --deadline 1us --format json -- dd if=/dev/zero of=file bs=4k count=40 oflag=dsync status=none",
];

/// The kernel's text of another tool's recording.
fn recording_of_writes() -> Vec<u8> {
    let path = "../../fixtures/recordings/x86_64-6.18-writes/kernel.txt.z";
    let packed = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let mut text = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
    text
}

#[test]
fn the_page_and_the_outputs_have_the_same_fields() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let reference = Reference::read(page.split(CSV).next().unwrap());
    let scratch = Scratch::new("reference");
    let (mut seen, mut wrong) = (Seen::new(), BTreeSet::new());
    let schemas = Schemas::of(&reference);
    let mut check = |text: &str| {
        let value: Value = serde_json::from_str(text).unwrap();
        let kind = match value["schema"].as_str() {
            Some("roundtrip.explanation") => "Explanations",
            Some("roundtrip.doctor") => "Doctor",
            Some("roundtrip.comparison") => "RunsCompared",
            _ => "Run",
        };
        reference.check(&[kind.to_owned()], &value, kind, &mut seen, &mut wrong);
        wrong.extend(schemas.errors(kind, &value));
    };
    let recorded = Need::Tracefs.is_met();
    let strace = Need::Program("strace").is_met();
    let as_root = AS_ROOT.iter().filter(|line| recorded && (strace || !line.contains("strace")));
    std::fs::write(scratch.0.join("writes.txt"), recording_of_writes()).unwrap();
    JSON.iter().chain(as_root).for_each(|line| check(&scratch.output(line)));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    for run in std::fs::read_dir(fixtures).unwrap() {
        check(&std::fs::read_to_string(run.unwrap().path().join("run.json")).unwrap());
    }
    assert!(wrong.is_empty(), "docs/json-and-csv.md:\n{}", Vec::from_iter(wrong).join("\n"));
    if !recorded {
        return skip(Need::Tracefs, "without the kernel's events some fields of the page do not occur");
    }
    if !strace {
        return skip(Need::Program("strace"), "some fields of the page do not occur without strace");
    }
    let unseen = reference.unseen(&seen);
    assert!(unseen.is_empty(), "docs/json-and-csv.md names what no output has:\n{}", unseen.join("\n"));
}

macro_rules! fixture {
    () => {
        concat!(" ", env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.1-binder")
    };
}

const FIXTURE: &str = concat!("show --format csv", fixture!());
const EXPLAIN: &str = concat!("explain --format csv", fixture!());
const EXPLAIN_WRITES: &str = concat!(
    "explain --format csv ",
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/runs/x86_64-6.18-observed-writes"
);
const COMPARE: &str = concat!("compare --format csv", fixture!(), fixture!());

#[test]
fn the_schemas_agree_with_the_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let reference = Reference::read(page.split(CSV).next().unwrap());
    for (kind, name) in schema::DOCUMENTS {
        let path = Path::new(PAGE).with_file_name("schema").join(format!("{name}.schema.json"));
        let text = format!("{:#}\n", schema::published(&reference, kind, name));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text, "INSTA_UPDATE=always writes it");
    }
}

/// Commands that print the figures of a run, one for each test that needs neither the kernel's
/// driver nor root.
const FIGURES: [&str; 8] = [
    FIXTURE,
    "ipc throughput --iterations 400 --sizes 4 --format csv",
    "ipc latency --iterations 20 --format csv",
    "ipc baseline --rounds 1 --duration 50ms --sizes 4 --transports futex --format csv",
    "ipc workers --iterations 10 --format csv",
    "ipc traits --iterations 10 --format csv",
    "storage layers --calls 2 --rounds 1 --sizes 4k --writers native --format csv",
    "storage interference --rounds 1 --duration 1ms --file-size 1M --conditions alone --format csv",
];

/// The other CSV formats by their headings on the page, with a command that prints or writes each.
const OTHERS: [(&str, &str, Option<&str>); 7] = [
    (
        "`latency-samples.csv`, and `ipc latency --raw-samples --format csv`",
        "ipc latency --iterations 20 --raw-samples --format csv",
        None,
    ),
    (
        "`injected.csv`",
        "ipc latency --duration 300ms --inject work --out injected",
        Some("injected/injected.csv"),
    ),
    ("`explain --format csv`", EXPLAIN, None),
    ("`explain --format csv` of writes", EXPLAIN_WRITES, None),
    ("`compare --format csv`", COMPARE, None),
    ("`doctor --format csv`", "doctor --format csv", None),
    (
        "`storage interference --format rounds`",
        "storage interference --rounds 1 --duration 1ms --file-size 1M --conditions alone --format rounds",
        None,
    ),
];

/// All CSV formats.
fn formats() -> impl Iterator<Item = (&'static str, &'static str, Option<&'static str>)> {
    FIGURES.into_iter().map(|line| ("The figures of a run", line, None)).chain(OTHERS)
}

#[test]
fn every_csv_header_is_on_the_page_column_by_column() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let sections: BTreeMap<&str, Vec<&str>> = page
        .split(CSV)
        .nth(1)
        .unwrap()
        .split("\n### ")
        .skip(1)
        .map(|section| {
            let (heading, rest) = section.split_once('\n').unwrap();
            let columns = rest.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
            (heading, columns.collect())
        })
        .collect();
    let scratch = Scratch::new("reference-csv");
    for (heading, line, file) in formats() {
        let printed = scratch.output(line);
        let text = file.map_or(printed, |file| std::fs::read_to_string(scratch.0.join(file)).unwrap());
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        assert_eq!(sections.get(heading), Some(&header), "{heading}");
    }
    assert_eq!(sections.len(), 1 + OTHERS.len(), "every format on the page is one that is checked");
}

#[test]
fn every_command_with_csv_also_prints_a_markdown_table() {
    let scratch = Scratch::new("reference-markdown");
    let raw = |line: &str| line.contains("--raw-samples") || !line.contains("--format csv");
    for (heading, line, _) in formats().filter(|(_, line, _)| !raw(line)) {
        let text = scratch.output(&line.replace("--format csv", "--format markdown"));
        let lines: Vec<&str> = text.lines().collect();
        let is_row = |line: &&str| line.starts_with('|');
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in lines.chunk_by(|one, next| is_row(one) == is_row(next)).filter(|part| is_row(&part[0])) {
            assert!(table.len() > 2 && table[1].starts_with("|--"), "{heading}: {text}");
            assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{heading}: {text}");
        }
        assert!(lines.iter().any(is_row), "{heading}: {text}");
    }
}

#[test]
fn the_check_finds_unknown_mistyped_and_unused_fields() {
    let row = |field: &str, kind: &str| format!("| `{field}` | {kind} | meaning |\n");
    let mut page: String = (0..60).map(|n| format!("### T{n}\n{}", row("x", "optional † string"))).collect();
    page += &format!(
        "### Run\n{}",
        row("a", "integer") + &row("b", "optional string") + &row("c", "[T1](#t1) or null")
    );
    let reference = Reference::read(&page);
    let (mut seen, mut wrong) = (Seen::new(), BTreeSet::new());
    let value = serde_json::json!({ "a": 1.5, "c": { "x": "text", "y": 1 }, "d": [] });
    reference.check(&["Run".to_owned()], &value, "Run", &mut seen, &mut wrong);
    let schemas = Schemas::of_kinds(&reference, &["Run"]);
    let refused: Vec<String> = schemas.errors("Run", &value).collect();
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(refused.iter().any(|error| error.starts_with("schema: /a: 1.5 is not of type")), "{refused:?}");
    let good = serde_json::json!({ "a": 1, "c": null });
    assert_eq!(schemas.errors("Run", &good).count(), 0);
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert_eq!(
        wrong,
        ["Run.a is number, the page says integer", "Run.d is not on the page", "T1.y is not on the page"]
    );
    assert_eq!(reference.unseen(&seen), ["Run.b"]);
}
