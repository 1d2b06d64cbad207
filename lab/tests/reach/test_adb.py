"""Tests runs from Android devices with a real adb server and client, and a simulated device."""

import os
import re
import shutil
import subprocess

import pytest
from adb_device import Device
from running import ENDLESS, MEASURE, finish, free_port, measure, nothing_stays, start, wait


@pytest.fixture(scope="module")
def adb(tmp_path_factory, variables):
    """Runs adb with a private server, key and port."""
    if not shutil.which("adb"):
        pytest.skip("no adb")
    home = tmp_path_factory.mktemp("adb")
    variables.setenv("HOME", str(home))
    variables.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    variables.delenv("ADB_SERVER_SOCKET", raising=False)
    # Otherwise the server would look for other emulators on this machine.
    variables.setenv("ADB_LOCAL_TRANSPORT_MAX_PORT", "5554")

    def run(*words, **options):
        return subprocess.run(["adb", *words], capture_output=True, timeout=60, **options)

    # The server's log must not be in the scratch folder of the targets.
    run("start-server", check=True, env=os.environ | {"TMPDIR": str(home)})
    yield run
    run("kill-server")


@pytest.fixture
def connect(adb):
    """Creates devices, connects adb to them, and waits until adb lists them in the given state."""
    devices = []

    def make(manner="willing", state="device"):
        device = Device(manner)
        devices.append(device)
        # Not waited for: with a silent device, this command does not return.
        subprocess.Popen(["adb", "connect", device.serial], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(lambda: f"{device.serial}\t{state}" in adb("devices").stdout.decode())
        return device

    yield make
    for device in devices:
        device.vanish()
        adb("disconnect", device.serial)


def test_adb_passes_bytes_and_the_end_of_input_unchanged(adb, connect):
    serial = connect().serial
    sent = os.urandom(3 << 20) + bytes(range(256)) + b"\r\n\x04\x03\xff"
    done = adb("-s", serial, "shell", "-T", "cat; echo said >&2; exit 7", input=sent)
    assert (done.stdout == sent, done.stderr, done.returncode) == (True, b"said\n", 7)


def test_runs_are_received_from_all_devices(tmp_path, binaries, scratch, connect):
    devices = [connect(), connect()]
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", "adb:*", "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 of 2 targets delivered a run\n"
    for device in devices:
        assert (tmp_path / "runs" / device.serial.replace(":", "_") / "run.json").is_file()
    nothing_stays(scratch)


def test_the_reason_is_reported_for_each_unusable_device(tmp_path, binaries, scratch, connect):
    refusing, silent = connect("unauthorized", "unauthorized"), connect("silent", "offline")
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "0",
                   "-t", f"adb:{refusing.serial}", "-t", f"adb:{silent.serial}", "-t", "adb:missing",
                   "--", *MEASURE)  # fmt: skip
    assert done.returncode == 1 and done.stdout == "0 of 3 targets delivered a run\n"
    # The word before the reason depends on the version of adb.
    assert re.search(rf"adb:{refusing.serial}: failed: \w+: device unauthorized\.\n", done.stderr)
    assert re.search(rf"adb:{silent.serial}: failed: \w+: device offline\n", done.stderr)
    assert re.search(r"adb:missing: failed: \w+: device 'missing' not found\n", done.stderr)


def test_a_disconnected_device_is_retried_and_named(tmp_path, binaries, scratch, connect):
    device = connect()
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "1", "-t", f"adb:{device.serial}",
                    "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    device.vanish()
    said, failed = process.communicate(timeout=40)
    assert process.returncode == 1 and said == "0 of 1 targets delivered a run\n"
    assert failed.startswith(f"adb:{device.serial}: failed: ") and failed.endswith(" (2 tries)\n")
    nothing_stays(scratch)


@pytest.mark.parametrize("how", ["signal", "timeout", "killed"])
def test_no_file_or_process_is_left_on_the_device(tmp_path, binaries, scratch, connect, how):
    limit = "5" if how == "timeout" else "60"
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--timeout", limit, "--retries", "0",
                    "-t", f"adb:{connect().serial}", "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    said = finish(process, how)
    assert how != "timeout" or "took longer than 5 s" in said
    nothing_stays(scratch)
    assert not any((tmp_path / "runs").glob("*"))
