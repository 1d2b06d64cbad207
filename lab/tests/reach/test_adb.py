"""Runs from Android devices: a real adb server and client, and a double of the device's side."""

import os
import re
import shutil
import subprocess

import pytest
from adb_device import Device
from running import ENDLESS, MEASURE, finish, free_port, measure, nothing_stays, start, wait


@pytest.fixture(scope="module")
def adb(tmp_path_factory, variables):
    """Runs adb with a server, a key and a port of its own."""
    if not shutil.which("adb"):
        pytest.skip("no adb")
    home = tmp_path_factory.mktemp("adb")
    variables.setenv("HOME", str(home))
    variables.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    variables.delenv("ADB_SERVER_SOCKET", raising=False)
    # The server would look for emulators of others.
    variables.setenv("ADB_LOCAL_TRANSPORT_MAX_PORT", "5554")

    def run(*words, **options):
        return subprocess.run(["adb", *words], capture_output=True, timeout=60, **options)

    # Its log belongs to no target.
    run("start-server", check=True, env=os.environ | {"TMPDIR": str(home)})
    yield run
    run("kill-server")


@pytest.fixture
def connect(adb):
    """Makes devices, and has adb connect to them until it lists them so."""
    devices = []

    def make(manner="willing", state="device"):
        device = Device(manner)
        devices.append(device)
        # A device that does not answer keeps this waiting.
        subprocess.Popen(["adb", "connect", device.serial], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(lambda: f"{device.serial}\t{state}" in adb("devices").stdout.decode())
        return device

    yield make
    for device in devices:
        device.vanish()
        adb("disconnect", device.serial)


def test_bytes_pass_through_adb_unchanged_and_end_where_they_end(adb, connect):
    serial = connect().serial
    sent = os.urandom(3 << 20) + bytes(range(256)) + b"\r\n\x04\x03\xff"
    done = adb("-s", serial, "shell", "-T", "cat; echo said >&2; exit 7", input=sent)
    assert (done.stdout == sent, done.stderr, done.returncode) == (True, b"said\n", 7)


def test_runs_come_back_from_all_devices(tmp_path, binaries, scratch, connect):
    devices = [connect(), connect()]
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", "adb:*", "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 of 2 targets brought a run\n"
    for device in devices:
        assert (tmp_path / "runs" / device.serial.replace(":", "_") / "run.json").is_file()
    nothing_stays(scratch)


def test_devices_that_cannot_be_used_say_why(tmp_path, binaries, scratch, connect):
    refusing, silent = connect("unauthorized", "unauthorized"), connect("silent", "offline")
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "0",
                   "-t", f"adb:{refusing.serial}", "-t", f"adb:{silent.serial}", "-t", "adb:nobody",
                   "--", *MEASURE)  # fmt: skip
    assert done.returncode == 1 and done.stdout == "0 of 3 targets brought a run\n"
    # Versions of adb differ in the word before.
    assert re.search(rf"adb:{refusing.serial}: failed: \w+: device unauthorized\.\n", done.stderr)
    assert re.search(rf"adb:{silent.serial}: failed: \w+: device offline\n", done.stderr)
    assert re.search(r"adb:nobody: failed: \w+: device 'nobody' not found\n", done.stderr)


def test_a_device_that_goes_away_is_tried_again_and_named(tmp_path, binaries, scratch, connect):
    device = connect()
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "1", "-t", f"adb:{device.serial}",
                    "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    device.vanish()
    said, failed = process.communicate(timeout=40)
    assert process.returncode == 1 and said == "0 of 1 targets brought a run\n"
    assert failed.startswith(f"adb:{device.serial}: failed: ") and failed.endswith(" (2 tries)\n")
    nothing_stays(scratch)


@pytest.mark.parametrize("how", ["signal", "timeout", "killed"])
def test_nothing_stays_on_the_device(tmp_path, binaries, scratch, connect, how):
    limit = "5" if how == "timeout" else "60"
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--timeout", limit, "--retries", "0",
                    "-t", f"adb:{connect().serial}", "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    said = finish(process, how)
    assert how != "timeout" or "took longer than 5 s" in said
    nothing_stays(scratch)
    assert not any((tmp_path / "runs").glob("*"))
