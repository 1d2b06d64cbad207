//! Text of unknown origin in a terminal or a CSV file: text from a stored run, or the name of a
//! thread, device, service or machine, cannot control the terminal or end a line.

use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use crate::support::stored_run::Run;
use roundtrip_binder::manager::ServiceManager;
use roundtrip_binder::{Call, Parcel, ParcelReader, Process, Service, Stack, Status, Stub};
use roundtrip_binder_driver::Profile;
use roundtrip_binder_emulator::{Context, Emulated};
use roundtrip_skips::{Need, skip};
use serde_json::Value;

/// Text that would set a terminal's title and start a new line, and how it is shown.
const EVIL: &str = "\u{1b}]0;pwn\u{7}\nEVIL";
const SHOWN: &str = "\\u001b]0;pwn\\u0007\\u000aEVIL";

/// Whether a text contains control characters.
fn acts(text: &str) -> bool {
    let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    text.contains(acts) || text.lines().any(|line| line.starts_with("EVIL"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// All texts in a value, one for each kind of place.
fn texts(value: &Value, at: &str, all: &mut Vec<(String, String)>) {
    match value {
        Value::String(_) => {
            let place: String = at.split('/').filter(|part| part.parse::<usize>().is_err()).collect();
            if all.iter().all(|(known, _)| *known != place) {
                all.push((place, at.to_owned()));
            }
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| texts(value, &format!("{at}/{index}"), all));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| texts(value, &format!("{at}/{name}"), all));
        }
        _ => {}
    }
}

/// Makes each text of a stored run hostile in turn, and checks the output of commands. Returns the
/// number of texts that were shown.
fn try_each_text(run: &Run, commands: &[&str]) -> usize {
    let bytes = std::fs::read(run.file("run.json")).unwrap();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let mut places = Vec::new();
    texts(&value, "", &mut places);
    assert!(places.len() > 20, "{places:?}");
    let mut shown = 0;
    for (place, pointer) in places {
        let mut changed = value.clone();
        let text = changed.pointer_mut(&pointer).unwrap();
        *text = Value::String(format!("{}{EVIL}", text.as_str().unwrap()));
        std::fs::write(run.file("run.json"), changed.to_string()).unwrap();
        for command in commands {
            let output = run.roundtrip(command);
            let said = said(&output);
            assert!(!acts(&said), "{command} with another {place}: {said}");
            shown += usize::from(said.contains(SHOWN));
            assert!(
                output.status.success() || String::from_utf8_lossy(&output.stderr).lines().count() == 1,
                "{command} with another {place}: {said}"
            );
        }
    }
    std::fs::write(run.file("run.json"), bytes).unwrap();
    shown
}

#[test]
fn no_text_of_a_stored_run_controls_the_terminal() {
    let shown = try_each_text(&Run::new("latency-texts"), &["show .", "show --short .", "explain ."]);
    assert!(shown > 10, "{shown} of a latency run are shown");
    let shown = try_each_text(&Run::of("x86_64-6.1-ufs", "storage-texts"), &["show ."]);
    assert!(shown > 10, "{shown} of a storage run are shown");
    let shown = try_each_text(&Run::interference("interference-texts"), &["show ."]);
    assert!(shown > 10, "{shown} of an interference run are shown");
}

#[test]
fn no_text_of_a_survey_controls_the_terminal() {
    let run = Run::new("survey-texts");
    std::fs::remove_dir_all(&run.0).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["survey", "--driver", "emulated", "--duration", "3s", "--out"]).arg(&run.0);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let shown = try_each_text(&run, &["show .", "show --short ."]);
    assert!(shown > 10, "{shown} are shown");
}

#[test]
fn the_name_of_a_run_directory_cannot_break_a_line() {
    let (run, other) = (Run::new("one-of-two"), Run::new("two-of-two"));
    let evil =
        run.0.with_file_name(format!("roundtrip-hostile-{}-{EVIL}", std::process::id()).replace('/', ""));
    std::fs::rename(&run.0, &evil).unwrap();
    let show = |merge: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.arg("show").args(merge).args([&evil, &other.0]).stdin(Stdio::null()).output().unwrap()
    };
    let outputs = [show(&[]), show(&["--merge"])];
    std::fs::remove_dir_all(&evil).unwrap();
    for output in outputs {
        let said = said(&output);
        assert!(!acts(&said) && said.contains(SHOWN), "{said}");
    }
}

#[test]
fn a_process_name_cannot_control_the_terminal() {
    let run = Run::new("names");
    let name = b"\x1b]0;pwn\x07\n\0";
    let mut changed = 0;
    for pages in run.pages() {
        run.change(&pages, |bytes| {
            for at in 0..bytes.len() - name.len() {
                if bytes[at..].starts_with(b"client-1\0") {
                    bytes[at..at + name.len()].copy_from_slice(name);
                    changed += 1;
                }
            }
        });
    }
    assert!(changed > 0, "the fixture has the name");
    run.change("run.json", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let (before, behind) = text.split_once("\"host_name\":\"").unwrap();
        let evil = "\\u001b]0;pwn\\u0007\\n\u{9b}2J\u{202e}";
        *bytes = format!("{before}\"host_name\":\"{evil}{behind}").into_bytes();
    });
    let shown = "\\u001b]0;pwn\\u0007\\u000a";
    for (args, names) in
        [("show .", true), ("explain .", true), ("trace convert . --snapshot 1 -o out.txt", false)]
    {
        let output = run.roundtrip(args);
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !acts(&said), "{args}: {said:?}");
        assert!(!names || said.contains(shown), "{args}: {said}");
    }
    let text = std::fs::read_to_string(run.file("out.txt")).unwrap();
    assert!(text.contains(shown) && !acts(&text));
    // JSON contains the original text.
    let output = run.roundtrip("show --format json .");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        json["environment"]["host_name"].as_str().unwrap().starts_with("\x1b]0;pwn\x07\n\u{9b}2J\u{202e}")
    );
    // The text of an error cannot control it either.
    run.change("run.json", |bytes| {
        *bytes = b"{\"schema\":\"roundtrip.run\",\"version\":\"\\u001b[2J\\u009b\\n\"}".to_vec();
    });
    let output = run.roundtrip("show .");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && !acts(&said) && said.lines().count() == 1, "{said:?}");
    let output = run.roundtrip("show no\u{1b}[2Jwhere\u{9b}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!acts(&said) && said.contains("\\u001b[2J"), "{said:?}");
}

/// The arguments of a program to run on a machine with a hostile name.
const HOSTILE: &str = "ROUNDTRIP_TEST_ARGUMENTS";

#[test]
#[ignore = "the other test runs it in a namespace where it may change the machine's name"]
fn with_a_hostile_host_name() {
    let Ok(args) = std::env::var(HOSTILE) else { return };
    rustix::system::sethostname(b"\x1b]0;pwn\x07\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    panic!("{}", std::os::unix::process::CommandExt::exec(command.args(args.split_whitespace())));
}

#[test]
fn a_host_name_cannot_control_the_terminal_in_a_new_run() {
    let directory = std::env::temp_dir().join(format!("roundtrip-hostile-{}-host", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let unshared = |args: &str| {
        let mut command = Command::new("unshare");
        command.arg("--uts").arg(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile_text::with_a_hostile_host_name", "--ignored", "--nocapture"]);
        command.env(HOSTILE, args).current_dir(&directory).stdin(Stdio::null()).output()
    };
    match Command::new("unshare").args(["--uts", "true"]).output() {
        Ok(output) if output.status.success() => {}
        _ => return skip(Need::Root, "this user may not change a machine's name"),
    }
    for args in [
        "ipc latency --driver emulated --iterations 20",
        "ipc throughput --driver emulated --sizes 4 --min-time 20ms --repetitions 1",
        "ipc workers --driver emulated --workers 2 --iterations 20",
        "ipc baseline --duration 50ms --sizes 4",
        "ipc traits --driver emulated --iterations 10",
        "survey --driver emulated --duration 3s --out survey",
        "storage layers --no-recorder --writers native --sizes 4k --calls 3 --rounds 1 --file-size 16K",
        "storage interference --no-recorder --conditions alone --duration 300ms --rounds 1 --file-size 64K",
    ] {
        let output = unshared(args).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("\\u001b]0;pwn\\u0007\\u000a: "), "{args}: {text}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A service with hostile output.
struct Hostile(String);

impl Stub for Hostile {
    fn descriptor(&self) -> &str {
        &self.0
    }
    fn on_transact(&self, _: &Call, _: &mut ParcelReader<'_>, _: &mut Parcel) -> Result<(), Status> {
        Err(Status::UNKNOWN_TRANSACTION)
    }
    fn dump(&self, _: &[String]) -> String {
        format!("its state{EVIL}\n")
    }
}

#[test]
fn text_of_a_service_cannot_control_the_terminal() {
    let context = Context::create(Profile::Ack).unwrap();
    let join = || Process::new(Arc::new(Emulated::join(context.address(), 1 << 20).unwrap()));
    let (host, server) = (join(), join());
    roundtrip_binder::manager::serve(&host, Stack::Binder).unwrap();
    host.start_looper().unwrap();
    server.start_looper().unwrap();
    let service = server.publish(Service::binder(Hostile(format!("IHostile{EVIL}"))));
    ServiceManager::new(&server, Stack::Binder).add("hostile", &service).unwrap();
    // On a terminal created by script(1).
    let on_terminal = |args: &str| {
        let line = format!("'{}' {args} --context {}", env!("CARGO_BIN_EXE_roundtrip"), context.address());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("NO_COLOR", "1").stdin(Stdio::null());
        let output = command.output().expect("script(1), which Debian's bsdutils has");
        (output.status, said(&output).replace('\r', ""))
    };
    let (status, text) = on_terminal("service list");
    assert!(status.success() && text.contains(&format!("IHostile{SHOWN}")) && !acts(&text), "{text:?}");
    // A dump contains line breaks.
    let (status, text) = on_terminal("service dump hostile");
    assert!(status.success() && text.contains("its state\\u001b]0;pwn\\u0007\nEVIL\n"), "{text:?}");
    host.stop();
    server.stop();
}

#[test]
fn text_of_a_device_cannot_control_the_terminal_or_break_a_table() {
    let Some(disk) = crate::support::storage::Journalled::mount_as_root("hostile-device") else { return };
    let device = std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(&disk.mount).unwrap());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let evil = disk.directory.join("evil");
    std::fs::write(&evil, format!("write back{EVIL}\n")).unwrap();
    let measure = |args: &str| {
        // Changes the setting of the device for this program only.
        let script = "mount --bind \"$1\" \"$2\" && cd \"$3\" && shift 3 && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(&evil);
        command.arg(format!("/sys/dev/block/{major}:{minor}/queue/write_cache")).arg(&disk.mount);
        command.arg(env!("CARGO_BIN_EXE_roundtrip")).args(args.split(' ')).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = said(&output);
        assert!(text.contains(SHOWN) && !acts(&text), "{args}: {text}");
    };
    measure("storage layers --no-recorder --writers native --sizes 4k --calls 3 --rounds 1 --file-size 16K");
    for format in ["rounds", "table"] {
        measure(&format!(
            "storage interference --no-recorder --conditions alone --duration 300ms --rounds 1 --file-size 64K \
             --format {format}"
        ));
    }
}
