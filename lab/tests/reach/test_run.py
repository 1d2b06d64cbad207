"""Tests runs from this machine and over ssh, the report of failures, and that targets are left clean."""

import json
import stat
import time

import pytest
from running import ENDLESS, MEASURE, finish, measure, nothing_stays, start, wait


def test_runs_are_received_from_this_machine_and_over_ssh(tmp_path, binaries, scratch, sshd):
    into = tmp_path / "runs"
    done = measure("--into", into, "--binaries", binaries, "-t", "local", "-t", sshd.target, "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert "2 of 2" in done.stdout
    folders = sorted(into.iterdir())
    assert [folder.name for folder in folders] == ["local", sshd.target[4:].replace(":", "_")]
    assert all((folder / "run.json").is_file() for folder in folders)
    assert json.loads((folders[1] / "run.json").read_text())["labels"]["device"] == sshd.target[4:]
    assert list(scratch.iterdir()) == []
    again = measure("--into", into, "--binaries", binaries, "-t", "local", "--", *MEASURE)
    assert again.returncode == 1 and "already exists" in again.stderr


def test_the_summary_lists_failures_with_reasons_and_attempts(tmp_path, binaries, sshd, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    names = ["local", sshd.target, "ssh:twin-1", "ssh:twin-2", "ssh:stranger", "ssh:127.0.0.1:1"]
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "1",
                   *(word for name in names for word in ("-t", name)), "--", *MEASURE)  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == "3 of 6 targets delivered a run\n"
    progress, summary = done.stderr.splitlines()[:6], done.stderr.splitlines()[6:]
    assert [line.split()[0] for line in progress] == [f"[{count}/6]" for count in range(1, 7)]
    for name in names[1:4]:
        assert any(f" {name}: {tmp_path / 'runs'}" in line and line.endswith(" s)") for line in progress)
    local, stranger, refused = summary
    assert local.startswith("local: failed: mktemp: ") and "tries" not in local
    assert stranger == "ssh:stranger: failed: Host key verification failed. (2 tries)"
    assert refused == "ssh:127.0.0.1:1: failed: ssh: connect to host 127.0.0.1 port 1: Connection refused (2 tries)"
    assert all(any(line.endswith(failed) for line in progress) for failed in summary)


def test_the_error_of_the_program_is_the_reason(tmp_path, binaries, scratch):
    into = tmp_path / "runs"
    done = measure("--into", into, "--binaries", binaries, "-t", "local", "--", "ipc", "nonsense")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "nonsense" in done.stderr
    assert list(into.iterdir()) == []


def test_a_progress_line_names_unfinished_targets(tmp_path):
    from roundtrip_lab.reach import progress
    from roundtrip_lab.reach.kind import Kind, Target

    works = [progress.Work(Target(f"ssh:board-{number}", Kind({}), "board"), None, 0) for number in range(6)]
    for work in works[:5]:
        work.at("measuring")
    expected = "ssh:board-1 (measuring), ssh:board-2 (measuring), ssh:board-3 (measuring), 2 more"
    assert progress.waiting(works[1:], 6) == f"[1/6] waiting for {expected}"
    assert progress.waiting(works[4:], 6) == "[4/6] waiting for ssh:board-4 (measuring), 1 more"


@pytest.mark.parametrize("how", ["signal", "timeout", "killed"])
def test_no_file_or_process_is_left_on_the_target(tmp_path, binaries, scratch, sshd, how):
    limit = "5" if how == "timeout" else "60"
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--timeout", limit, "-t", sshd.target,
                    "--retries", "0", "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    said = finish(process, how)
    assert how != "timeout" or "took longer than 5 s" in said
    nothing_stays(scratch)
    assert not any((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize("member", ["../escaped", "/escaped", "link", "fifo"])
def test_hostile_archives_are_refused(tmp_path, member):
    import io
    import tarfile

    from roundtrip_lab.reach import conversation
    from roundtrip_lab.reach.kind import Failed

    entry = tarfile.TarInfo(member)
    entry.type = {"link": tarfile.SYMTYPE, "fifo": tarfile.FIFOTYPE}.get(member, tarfile.REGTYPE)
    entry.linkname = "/etc/passwd"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(entry)
    archive.seek(0)
    folder = tmp_path / "inside"
    folder.mkdir()
    job = conversation.Job((), tmp_path, tmp_path, 10, 1 << 20)
    # tarfile makes absolute names relative. The other members are refused.
    if member == "/escaped":
        conversation.unpack(archive, folder, job)
    else:
        with pytest.raises(Failed, match="special file|invalid run"):
            conversation.unpack(archive, folder, job)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert all(stat.S_ISREG(path.lstat().st_mode) for path in folder.iterdir())


def test_a_target_that_sends_too_much_is_refused(tmp_path):
    from roundtrip_lab.reach import conversation
    from roundtrip_lab.reach.kind import Failed

    job = conversation.Job((), tmp_path, tmp_path, 10, 1000)
    with open("/dev/zero", "rb", buffering=0) as pipe, pytest.raises(Failed, match="more than 1000 bytes"):
        stream = conversation.Stream(pipe, job, time.monotonic() + 10)
        while True:
            stream.read(512)


def test_invalid_targets_are_reported_in_one_line(tmp_path):
    for text in ("nonsense", "ssh:", "ssh:-oProxyCommand=x"):
        done = measure("--into", tmp_path / "runs", "-t", text, "--", "survey")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "unknown target" in done.stderr
