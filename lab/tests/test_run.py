"""Targets for real: this machine, and a shell behind an sshd of our own."""

import json
import os
import platform
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

MEASURE = ["ipc", "latency", "--driver", "emulated", "--iterations", "50"]
COMMAND = [sys.executable, "-c", "from roundtrip_lab.cli import main; main()", "run"]


@pytest.fixture
def binaries(tmp_path, roundtrip):
    """A folder with the binary under the name that `cargo xtask dist` gives it."""
    folder = tmp_path / "dist"
    folder.mkdir()
    shutil.copy(roundtrip, folder / f"roundtrip-{platform.machine()}")
    return folder


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where targets on this machine make their folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def sshd(tmp_path, scratch, monkeypatch):
    """An sshd on a loopback port with keys of its own. Its address."""
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not (os.path.exists(program) and shutil.which("ssh") and os.geteuid() == 0):
        pytest.skip("no sshd, no ssh, or not root")
    Path("/run/sshd").mkdir(exist_ok=True)
    home = tmp_path / "ssh"
    home.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n"
        f"StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\nSetEnv TMPDIR={scratch}\n"
    )
    (home / "known").write_text(f"[127.0.0.1]:{port} {(home / 'host.pub').read_text()}")
    # The client's own options stand before ours, as a user's configuration would give them.
    (home / "bin").mkdir()
    client = home / "bin" / "ssh"
    client.write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F none -i {home}/user -o UserKnownHostsFile={home}/known "$@"\n'
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    server = subprocess.Popen([program, "-D", "-e", "-f", home / "config"], stderr=subprocess.DEVNULL)
    try:
        wait(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None)
        yield f"ssh:root@127.0.0.1:{port}", home
    finally:
        server.terminate()
        server.wait()


def wait(done, seconds=20):
    """Until it is so."""
    end = time.monotonic() + seconds
    while True:
        try:
            if done():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.1)


def measure(*arguments):
    """The command, to its end."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=90)


def test_runs_come_back_from_here_and_from_ssh(tmp_path, binaries, scratch, sshd):
    into = tmp_path / "runs"
    done = measure("--into", into, "--binaries", binaries, "-t", "local", "-t", sshd[0], "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert "2 of 2" in done.stdout
    folders = sorted(into.iterdir())
    assert [folder.name for folder in folders] == ["local", sshd[0][4:].replace(":", "_")]
    assert all((folder / "run.json").is_file() for folder in folders)
    assert json.loads((folders[1] / "run.json").read_text())["labels"]["device"] == sshd[0][4:]
    assert list(scratch.iterdir()) == []
    again = measure("--into", into, "--binaries", binaries, "-t", "local", "--", *MEASURE)
    assert again.returncode == 1 and "exists already" in again.stderr


def test_what_failed_is_named(tmp_path, binaries, scratch, sshd):
    (sshd[1] / "known").write_text("")
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "0", "-t", "local",
                   "-t", sshd[0], "--", *MEASURE)  # fmt: skip
    assert done.returncode == 1
    assert f"failed: {sshd[0]}: Host key verification failed." in done.stderr
    wrong = measure("--into", tmp_path / "more", "--binaries", binaries, "-t", "local", "--", "ipc", "nonsense")
    assert wrong.returncode == 1 and "nonsense" in wrong.stderr
    assert list((tmp_path / "more").iterdir()) == []


@pytest.mark.parametrize("how", ["signal", "timeout", "killed"])
def test_nothing_stays_on_the_target(tmp_path, binaries, scratch, sshd, how):
    limit = "5" if how == "timeout" else "60"
    process = subprocess.Popen(
        [*COMMAND, "--into", tmp_path / "runs", "--binaries", binaries, "--timeout", limit, "-t", sshd[0], "--retries",
         "0", "--", "ipc", "latency", "--driver", "emulated", "--duration", "60s"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    if how != "timeout":
        time.sleep(0.5)
        process.send_signal(signal.SIGINT if how == "signal" else signal.SIGKILL)
    _, said = process.communicate(timeout=40)
    assert process.returncode == {"signal": 130, "timeout": 1, "killed": -signal.SIGKILL}[how]
    if how == "timeout":
        assert "took longer than 5 s" in said
    wait(lambda: not any(scratch.iterdir()))
    wait(lambda: not running(scratch))
    assert not any((tmp_path / "runs").glob("*"))


def running(folder):
    """Processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("member", ["../escaped", "/escaped", "link", "fifo"])
def test_hostile_archives_are_refused(tmp_path, member):
    import io
    import tarfile

    from roundtrip_lab import reach

    entry = tarfile.TarInfo(member)
    entry.type = {"link": tarfile.SYMTYPE, "fifo": tarfile.FIFOTYPE}.get(member, tarfile.REGTYPE)
    entry.linkname = "/etc/passwd"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(entry)
    archive.seek(0)
    folder = tmp_path / "inside"
    folder.mkdir()
    job = reach.Job((), tmp_path, tmp_path, 10, 1 << 20)
    # tarfile makes an absolute name relative; the others are refused.
    if member == "/escaped":
        reach.unpack(archive, folder, job)
    else:
        with pytest.raises(reach.Failed, match="special file|no whole run"):
            reach.unpack(archive, folder, job)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert all(stat.S_ISREG(path.lstat().st_mode) for path in folder.iterdir())


def test_a_target_sends_no_more_than_allowed(tmp_path):
    from roundtrip_lab import reach

    job = reach.Job((), tmp_path, tmp_path, 10, 1000)
    with open("/dev/zero", "rb", buffering=0) as pipe, pytest.raises(reach.Failed, match="more than 1000 bytes"):
        stream = reach.Stream(pipe, job, time.monotonic() + 10)
        while True:
            stream.read(512)


def test_wrong_targets_are_one_line(tmp_path):
    for text in ("nonsense", "ssh:", "ssh:-oProxyCommand=x"):
        done = measure("--into", tmp_path / "runs", "-t", text, "--", "survey")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "unknown target" in done.stderr
