//! Developer tasks: `cargo xtask test` installs what the tests need and runs all of them, `cargo
//! xtask dist` builds the static binaries. Knows the project's commands, but not its code.

mod attack;
mod boot;
mod builds;
mod changed;
mod circles;
mod disks;
mod dist;
mod disturb;
mod doctor;
mod documents;
mod ends;
mod fuzz;
mod guest;
mod guests;
mod injections;
mod install;
mod interop;
mod ipc_peers;
mod lab;
mod lanes;
mod leftovers;
mod mutants;
mod observe_cost;
mod outcome;
mod packages;
mod passed;
mod peers;
mod perfetto;
mod plan;
mod processes;
mod programs;
mod sequences;
mod shell;
mod shuffle;
mod sizes;
mod slowest;
mod step;
mod steps;
mod storage;
mod stress;
mod suite;
mod timed;

use std::path::Path;
use std::process::ExitCode;

use roundtrip_guest::{Arch, Packaged};
use shell::say;
use step::Step;
use steps::Phase;

const HELP: &str = "\
Usage: cargo xtask TASK

Tasks:
  setup     installs what the tests need
  test      setup, then: formatting, lints, all tests, dependency rules, static
            builds, real kernels in guests, traces in Perfetto, and a short run of every fuzz target. What passed
            before with the same inputs is left out, and counted; test --anew runs all of it
  test --changed [COMMIT]  formatting, lints, and the tests that a change since the commit (HEAD) can affect
  tests     builds and runs only the tests of the workspace
  stress    runs a test 50 times beside four busy loops; see cargo xtask stress --help
  shuffle   runs each test program by itself, in random order, twice in a row; see cargo xtask shuffle --help
  dist      builds the static binaries for devices and the packages for everybody else into target/dist: archives,
            .deb, .rpm, Python wheels, images for containers, with their checksums and what they were made of; then
            installs each in a clean system and measures there
  packages  the part of dist that test does: installs this machine's .deb and wheel in a clean system;
            packages --all makes and installs all packages, of the programs that dist built last
  sizes     shows what takes up space in them: modules and functions, the largest first
  guests    tests the binaries on real kernels in QEMU: Debian's standard and PREEMPT_RT ones, x86-64 and arm64,
            and Ubuntu's with binderfs; also writes to disks on every bus that QEMU has
  disks     only the part of guests that writes to disks
  guest     runs a program on a real kernel's binder driver or a disk, in QEMU; see cargo xtask guest --help
  sequences  replays thousands of random sequences of commands on a real kernel's driver and on the emulated one; see
            cargo xtask sequences --help
  attack    damages run directories, sends signals, sets limits and refuses system calls, to check that the program exits
            cleanly; see cargo xtask attack --help
  disturb   kills, stops, freezes, moves and reschedules the processes of measurements, and checks that each of these is
            reported; takes ten minutes and needs root; see cargo xtask disturb --help
  fuzz      runs every fuzz target for a given number of seconds, longer than test does
  doctor    measures in two guests that differ in one setting, and checks that the doctor names it
  interop   makes calls between our stack and rsbinder, both ways, on a real kernel's driver
  observed  compares the output of `ipc observe` for rsbinder's calls with the counts and times of the programs that make them
  ends      kills `watch`, `ab` and `ipc observe` in a guest, takes their memory, descriptors and disk, and sets the clock
  mutants   changes the emulated driver in small ways, and lists the changes that no test notices; takes hours, so it is not
            part of test; see cargo xtask mutants --help
  peers     counts what a call costs on a real kernel's driver: bare, through both stacks, through rsbinder
  faults    kills thousands of processes, at every instruction of their operations and in busy contexts of the emulated
            driver, and sends ten million transactions through one; takes minutes
  ipc-peers  compares the emulated driver with futex, pipe, sockets, rsbinder's RPC, iceoryx2, zbus and tonic, in one
            interleaved run of about two and a half minutes; needs an otherwise idle machine. Options: --rounds N
            --seconds S --peers NAME,... or --check, which only checks that every peer works. Not part of test: it
            takes minutes to build
  injections  makes calls and writes slow in known ways, alone and beside other load, and checks that the sentences name
            the cause; takes half an hour and needs root; see cargo xtask injections --help
  without   checks that what is left once an injected cause is taken away is what was predicted; takes two hours and
            needs root and a quiet machine; see cargo xtask without --help
  observe-cost  measures what `storage observe` costs fio, SQLite and PostgreSQL; needs root and an idle machine; see
            cargo xtask observe-cost --help. Not part of test: it takes four minutes
  storage   measures what recording writes costs, and compares its figures with fio's; needs root and a quiet machine
  alarms    measures how often comparisons report a difference between equal runs, or miss one between different runs;
            takes a quarter of an hour and needs a quiet machine
  documents  checks the links of the Markdown files and the width of their prose, and runs the commands that they show
  lab       installs the Python package `lab` into a separate folder, and runs its tests
  perfetto  loads written traces into Perfetto's trace processor, and compares its answers with the recorded events";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let task = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["setup"] => plan::setup,
        ["test"] => plan::test,
        ["test", "--anew"] => plan::test_anew,
        ["test", "--changed"] => return changed::command("HEAD", plan::test_changed),
        ["test", "--changed", base] => return changed::command(base, plan::test_changed),
        ["tests"] => tests_only,
        ["stress", ..] => return stress::command(&args[1..]),
        ["shuffle", ..] => return shuffle::command(&args[1..]),
        ["busy-loop"] => return stress::busy_loop(),
        ["dist"] => dist_only,
        ["packages"] => packages_only,
        ["packages", "--all"] => packages_all,
        ["sizes"] => sizes_only,
        ["documents"] => documents_only,
        ["guests"] => guests_only,
        ["disks"] => disks_only,
        ["doctor"] => doctor_only,
        ["interop"] => interop_only,
        ["observed"] => observed_only,
        ["ends"] => ends_only,
        ["peers"] => peers_only,
        ["perfetto"] => perfetto_only,
        ["lab"] => lab_only,
        ["lane", name, results] => return plan::run_lane(name, Path::new(results)),
        ["timed", notes, program, ..] => return timed::command(Path::new(notes), program, &args[3..]),
        ["guest", ..] => return guest::command(&args[1..]),
        ["observe-cost", ..] => return observe_cost::command(&args[1..]),
        ["ipc-peers", ..] => return ipc_peers::command(&args[1..]),
        ["fuzz", ..] => return fuzz::command(&args[1..]),
        ["attack", ..] => return attack::command(&args[1..]),
        ["injections", ..] => return injections::command(&args[1..]),
        ["without", ..] => return injections::without::command(&args[1..]),
        ["disturb", ..] => return disturb::command(&args[1..]),
        ["mutants", ..] => return mutants::command(&args[1..]),
        ["sequences", ..] => return sequences::command(&args[1..]),
        ["circles"] => circles_only,
        ["faults"] => faults_only,
        ["storage"] => storage_only,
        ["alarms"] => alarms_only,
        ["help" | "--help" | "-h"] => {
            say(HELP);
            return ExitCode::SUCCESS;
        }
        _ => {
            say(HELP);
            return ExitCode::from(2);
        }
    };
    if task() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tests_only() -> bool {
    let phase = Phase { steps: &[BUILD_TESTS, TESTS], beside: &[] };
    steps::run_phases(&[phase], slowest_tests)
}

const BUILD_TESTS: Step = ("tests: build", suite::build);
const TESTS: Step = ("tests", suite::all);

fn slowest_tests() -> Vec<String> {
    let (builds, tests) = suite::times();
    let mut lines = slowest::of_tests(&builds, &tests);
    lines.extend(timed::flaky(&tests));
    lines
}

fn dist_only() -> bool {
    steps::run(&[
        ("install: the lab's Python packages", lab::install),
        ("static binaries", dist::build),
        ("packages: programs", packages::build),
        ("packages", packages::make),
        ("packages in a clean system", packages::check_all),
    ])
}

fn packages_only() -> bool {
    steps::run(&[PACKAGES])
}

fn packages_all() -> bool {
    steps::run(&[("packages", packages::make), ("packages in a clean system", packages::check_all)])
}

const PACKAGES: Step = ("packages in a clean system", packages::check);

fn faults_only() -> bool {
    const TESTS: &[&str] =
        &["test", "--release", "--package", "roundtrip-binder-emulator", "--test", "faults", "--"];
    let tests = || shell::cargo(&[TESTS, &["--ignored", "--nocapture", "--test-threads", "1"]].concat());
    steps::run(&[("faults in the emulated driver", tests)])
}

fn alarms_only() -> bool {
    const TEST: &[&str] =
        &["test", "--release", "--package", "roundtrip", "--test", "program", "--", "alarms::"];
    let test = || shell::cargo(&[TEST, &["--ignored", "--nocapture"]].concat());
    steps::run(&[("false alarms", test)])
}

fn circles_only() -> bool {
    steps::run(&[CIRCLES])
}

const CIRCLES: Step = ("no circles between files", circles::none);

fn sizes_only() -> bool {
    steps::run(&[("what takes up space in a static binary", sizes::show)])
}

fn storage_only() -> bool {
    steps::run(&[("accuracy of the reports on writes", storage::check)])
}

fn guests_only() -> bool {
    steps::run(&[&[("static binaries", dist::build as _)], &GUESTS[..]].concat())
}

fn disks_only() -> bool {
    steps::run(&[("static binaries", dist::build), STORAGE, UFS])
}

fn peers_only() -> bool {
    steps::run(&[("static binaries", dist::build), PEERS])
}

fn doctor_only() -> bool {
    steps::run(&[DOCTOR])
}

fn interop_only() -> bool {
    steps::run(&[INTEROP])
}

fn observed_only() -> bool {
    steps::run(&[("static binaries", dist::build), OBSERVED])
}

fn ends_only() -> bool {
    steps::run(&[("static binaries", dist::build), ENDS])
}

const PEERS: Step = ("guest: the cost of a call, counted", peers::check);

fn documents_only() -> bool {
    steps::run(&DOCUMENTS)
}

const DOCUMENTS: [Step; 3] = [
    ("documentation: links", documents::links),
    ("documentation: width of prose", documents::width::check),
    ("documentation: commands and their output", documents::commands::check),
];

fn perfetto_only() -> bool {
    steps::run(&[PERFETTO])
}

fn lab_only() -> bool {
    steps::run(&[("static binaries", dist::build), LAB])
}

const LAB: Step = ("the lab: Python tests", lab::check);

const PERFETTO: Step = ("traces in Perfetto", perfetto::check);

const GUESTS: [Step; 10] =
    [DEBIAN, REALTIME, UBUNTU, DEBIAN_ARM64, STORAGE, UFS, INTEROP, DOCTOR, OBSERVED, ENDS];

const DEBIAN: Step = ("guest: Linux on x86-64", || guests::check(Arch::X86_64, Packaged::Debian));
const REALTIME: Step =
    ("guest: PREEMPT_RT on x86-64", || guests::check(Arch::X86_64, Packaged::DebianRealtime));
const UBUNTU: Step = ("guest: binderfs on x86-64", || guests::check(Arch::X86_64, Packaged::Ubuntu));
const DEBIAN_ARM64: Step = ("guest: Linux on arm64", || guests::check(Arch::Aarch64, Packaged::Debian));
const STORAGE: Step =
    ("guest: storage on SD, NVMe, NVMe multipath, virtio, SCSI and the device mapper", disks::check);
const UFS: Step = ("guest: storage on UFS", disks::check_ufs);
const INTEROP: Step = ("guest: calls to and from rsbinder", interop::check);
const DOCTOR: Step = ("guest: the doctor names the setting that two guests differ in", doctor::check);
const OBSERVED: Step = ("guest: calls of programs that do not know Roundtrip", interop::observed);
const ENDS: Step = ("guest: commands that are ended from outside", ends::check);
