"""What ends the server or turns against it: a kill, too few descriptors, a full disk, a disk that fails."""

import contextlib
import html
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
from recorded import BINDER
from test_serve import COMMAND, Served, settle

from roundtrip_lab.scratch import PREFIX, scratch

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not root: the test mounts a disk")


@pytest.fixture(scope="module")
def with_report(tmp_path_factory, roundtrip):
    """A data set of one run, and the arguments with which a server finds that run's directory."""
    into = tmp_path_factory.mktemp("reported") / "set"
    subprocess.run([*COMMAND, "collect", BINDER, "--into", into, "--roundtrip", roundtrip], check=True)
    return [into, "--runs", BINDER.parent]


def report_of(served):
    """The address of the only run's report."""
    settle(served)
    device = re.search(r'href="(/device\?name=[^"]+)"', served.get()[2])[1]
    return html.unescape(re.search(r'href="(/report\?[^"]+)"', served.get(html.unescape(device))[2])[1])


def script(path, text):
    """A program that stands in for the binary."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_what_a_killed_server_left_is_removed_by_the_next_report(with_report, roundtrip, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    slow = script(tmp_path / "slow", f'sleep 1; exec "{roundtrip}" "$@"')
    with Served(*with_report, "--roundtrip", slow, env={"TMPDIR": str(folder)}) as served:
        address = report_of(served)
        asking = threading.Thread(target=lambda: pytest.raises(OSError, served.get, address))
        asking.start()
        deadline = time.monotonic() + 60
        while not list(folder.glob(f"{PREFIX}*")):
            assert time.monotonic() < deadline, "no report was asked for"
            time.sleep(0.01)
        served.process.kill()
        asking.join()
    assert len(list(folder.iterdir())) == 1
    with Served(*with_report, "--roundtrip", roundtrip, env={"TMPDIR": str(folder)}) as served:
        assert served.get(report_of(served))[0] == 200
    assert list(folder.iterdir()) == []


def test_a_temporary_folder_in_use_or_of_another_name_stays(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "other")
    with scratch(tmp_path) as held:
        (tmp_path / f"{PREFIX}left").mkdir()
        with scratch(tmp_path) as second:
            assert held.is_dir() and second.is_dir() and held != second
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}link", "other"]


def test_a_report_that_the_kernel_kills_is_named(with_report, tmp_path):
    killed = script(tmp_path / "killed", "kill -9 $$")
    with Served(*with_report, "--roundtrip", killed) as served:
        status, _, text = served.get(report_of(served))
        assert status == 500 and "signal 9 killed it" in text
        assert served.get()[0] == 200


def test_a_server_without_free_descriptors_names_the_limit_and_goes_on(small_fleet):
    with Served(small_fleet, before=["prlimit", "--nofile=12"]) as served:
        status, _, text = served.get()
        assert status == 500 and "Too many open files" in text and "(ulimit -n)" in text
    with Served(small_fleet, before=["prlimit", "--nofile=40"]) as served:
        settle(served)
        port = int(served.url.rstrip("/").rpartition(":")[2])
        with contextlib.ExitStack() as idle:
            for _ in range(60):
                idle.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert served.get()[0] == 200


@NEEDS_ROOT
def test_a_full_disk_is_named_and_the_other_pages_are_shown(with_report, roundtrip, tmp_path):
    mounted = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=80k none "$TMPDIR" && exec "$@"', "sh"]
    with Served(*with_report, "--roundtrip", roundtrip, before=mounted, env={"TMPDIR": str(tmp_path)}) as served:
        status, _, text = served.get(report_of(served))
        assert status == 500 and "No space left" in text
        assert served.get()[0] == 200


@pytest.fixture
def disk(tmp_path):
    """A mounted file system, whose file can be cut: then reading what is not cached fails with EIO."""
    image, at = tmp_path / "image", tmp_path / "disk"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    device = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", image], check=True, capture_output=True, text=True)
    device = device.stdout.strip()
    subprocess.run(["mount", device, at], check=True)
    yield image, at
    subprocess.run(["umount", "--lazy", at], check=True)
    subprocess.run(["losetup", "--detach", device], check=True)


@NEEDS_ROOT
def test_a_failing_disk_is_named_and_read_again_once_it_works(small_fleet, disk):
    image, at = disk
    data = at / "set"
    shutil.copytree(small_fleet, data)
    os.sync()
    devices = [f"device?name=device-{number:06}" for number in range(1, 20)]
    with Served(data) as served:
        settle(served)
        forget(data)
        whole = image.read_bytes()
        os.truncate(image, 1 << 20)
        answers = [served.get(device) for device in devices]
        assert {status for status, _, _ in answers} <= {200, 404, 500}
        failed = [text for status, _, text in answers if status == 500]
        assert failed and all("cannot be read" in text and "Input/output error" in text for text in failed), failed
        refused = subprocess.run([*COMMAND, "serve", data, "--port", "0"], capture_output=True, text=True, timeout=60)
        image.write_bytes(whole)
        assert all(served.get(device)[0] in (200, 404) for device in devices)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "Input/output error" in refused.stderr


def forget(folder):
    """Takes the files' contents out of the page cache."""
    for file in (path for path in folder.rglob("*") if path.is_file()):
        opened = os.open(file, os.O_RDONLY)
        os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(opened)
