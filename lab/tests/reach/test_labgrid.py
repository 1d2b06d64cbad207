"""Tests runs from labgrid's places with a real coordinator and exporter, and an sshd behind the places."""

import json
import os
import subprocess
import sys

import pytest
from running import ENDLESS, MEASURE, finish, free_port, listens, measure, nothing_stays, start, wait

USER = "desk/tester"
PASSWORD = "it's secret"


class Lab:
    """A coordinator and exporters, controlled by labgrid's own client."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []

    def start(self, what, *words):
        module = [sys.executable, "-m", f"labgrid.remote.{what}"]
        with open(self.folder / "log", "a") as log:
            self.processes.append(subprocess.Popen([*module, *words], cwd=self.folder, stdout=log, stderr=log))

    def client(self, *words, user=None):
        variables = os.environ | ({"LG_USERNAME": user} if user else {})
        done = subprocess.run([sys.executable, "-m", "labgrid.remote.client", *words], env=variables,
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def holders(self):
        """The user of each acquired place."""
        lines = [line.split() for line in self.client("who").splitlines()[1:]]
        return {line[2]: f"{line[1]}/{line[0]}" for line in lines}

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


@pytest.fixture(scope="module")
def lab(tmp_path_factory, sshd, variables):
    """Places: `board-1`, `board-2`, `locked` and `remote` lead to the sshd; `bare` and `orphan` to no host.

    `locked` has a password, `remote` must be reached through its exporter, `bare` has no resource,
    and `orphan` has a resource that is not exported. All but `board-2` are configured before the
    coordinator starts, because each call of labgrid's client takes a second.
    """
    pytest.importorskip("labgrid", reason="labgrid is not installed")
    port = free_port()
    variables.setenv("LG_COORDINATOR", f"127.0.0.1:{port}")
    for name, value in zip(("LG_HOSTNAME", "LG_USERNAME"), USER.split("/"), strict=True):
        variables.setenv(name, value)
    lab = Lab(tmp_path_factory.mktemp("lab"))
    places = {"bare": {"matches": []}}
    for name in ("board-1", "locked", "remote", "orphan"):
        places[name] = {"matches": [{"exporter": "*", "group": name, "cls": "NetworkService"}]}
    places["board-1"]["tags"] = {"kind": "board", "number": "1"}
    (lab.folder / "places.yaml").write_text(json.dumps(places))
    service = {"address": "127.0.0.1", "port": sshd.port, "username": "root"}
    near = dict.fromkeys(("board-1", "board-2"), {"NetworkService": service})
    near["locked"] = {"NetworkService": service | {"password": PASSWORD}}
    (lab.folder / "near.yaml").write_text(json.dumps(near))
    (lab.folder / "far.yaml").write_text(json.dumps({"remote": {"NetworkService": service}}))
    try:
        lab.start("coordinator", "--listen", f"127.0.0.1:{port}")
        wait(lambda: listens(port))
        lab.start("exporter", "--name", "near", "near.yaml")
        lab.start("exporter", "--name", "far", "--isolated", "far.yaml")
        lab.client("-p", "board-2", "create")
        lab.client("-p", "board-2", "add-match", "near/board-2/NetworkService")
        lab.client("-p", "board-2", "set-tags", "kind=board", "number=2")
        wait(lambda: len(lab.client("resources").splitlines()) == 4)
        yield lab
    finally:
        lab.stop()


def test_two_places_are_measured_in_parallel_and_released(tmp_path, binaries, scratch, lab):
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", "labgrid:kind=board,number=1",
                   "-t", "labgrid:board-*", "--", *MEASURE)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 of 2 targets delivered a run\n"
    for name in ("board-1", "board-2"):
        run = json.loads((tmp_path / "runs" / name / "run.json").read_text())
        assert run["labels"]["device"] == name
    assert lab.holders() == {}
    nothing_stays(scratch)


def test_unusable_places_are_reported_with_the_reason_and_not_changed(tmp_path, binaries, scratch, lab):
    lab.client("-p", "board-2", "acquire", user="alice")
    names = ["board-1", "board-2", "orphan", "bare", "nowhere"]
    done = measure("--into", tmp_path / "runs", "--binaries", binaries,
                   *(word for name in names for word in ("-t", f"labgrid:{name}")), "--", *MEASURE)  # fmt: skip
    assert done.returncode == 1 and done.stdout == "1 of 5 targets delivered a run\n"
    assert done.stderr.splitlines()[5:] == [
        "labgrid:board-2: failed: desk/alice has acquired this place",
        "labgrid:orphan: failed: labgrid: Match */orphan/NetworkService has no matching remote resource",
        "labgrid:bare: failed: this place has no NetworkService",
        "labgrid:nowhere: failed: labgrid: place pattern nowhere matches nothing",
    ]
    assert lab.holders() == {"board-2": "desk/alice"}
    lab.client("-p", "board-2", "release", user="alice")


def test_a_place_that_the_user_has_acquired_is_not_released(tmp_path, binaries, scratch, lab):
    lab.client("-p", "board-1", "acquire")
    lab.client("-p", "board-2", "acquire", user="alice")
    lab.client("-p", "board-2", "allow", USER, user="alice")
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", "labgrid:board-*", "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert lab.holders() == {"board-1": USER, "board-2": "desk/alice"}
    lab.client("-p", "board-1", "release")
    lab.client("-p", "board-2", "release", user="alice")


def test_a_reservation_selects_its_place(tmp_path, binaries, scratch, lab):
    token = lab.client("reserve", "--shell", "number=2").strip().rpartition("=")[2]
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", f"labgrid:+{token}", "--", *MEASURE)
    lab.client("cancel-reservation", token)
    assert done.returncode == 0, done.stderr
    assert [run.name for run in (tmp_path / "runs").iterdir()] == ["board-2"]


@pytest.mark.parametrize(("how", "name"), [("signal", "remote"), ("timeout", "board-1"), ("killed", "board-1")])
def test_a_place_is_released_after_any_end_of_the_run(tmp_path, binaries, scratch, lab, how, name):
    limit = "20" if how == "timeout" else "60"
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "--timeout", limit, "--retries", "0",
                    "-t", f"labgrid:{name}", "--", *ENDLESS)  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    assert lab.holders() == {name: USER}
    finish(process, how)
    wait(lambda: lab.holders() == {})
    nothing_stays(scratch)


def test_an_unreachable_coordinator_is_reported_in_one_line(tmp_path):
    pytest.importorskip("labgrid", reason="labgrid is not installed")
    unused = f"127.0.0.1:{free_port()}"
    done = measure("--into", tmp_path / "runs", "--coordinator", unused, "-t", "local", "-t", "labgrid:x",
                   "--", *MEASURE)  # fmt: skip
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"roundtrip-lab: cannot reach labgrid's coordinator at {unused}\n"
    assert not (tmp_path / "runs").exists()


def test_an_isolated_host_is_reached_through_its_exporter(tmp_path, binaries, scratch, sshd, lab):
    done = measure("--into", tmp_path / "runs", "--binaries", binaries, "-t", "labgrid:remote", "--", *MEASURE)
    assert done.returncode == 0, done.stderr
    assert f"-W 127.0.0.1:{sshd.port}" in sshd.calls()
    assert lab.holders() == {}
    nothing_stays(scratch)


def test_ssh_gets_the_password_of_a_place(tmp_path, binaries, scratch, sshd, lab):
    # ssh asks for a key's passphrase in the same way, and this needs no account with a password.
    key = sshd.home / "user"
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", PASSWORD, "-f", key], stdout=subprocess.DEVNULL, check=True)
    try:
        done = measure("--into", tmp_path / "runs", "--binaries", binaries, "--retries", "0", "-t", "labgrid:locked",
                       "-t", "labgrid:board-1", "--", *MEASURE)  # fmt: skip
    finally:
        subprocess.run(["ssh-keygen", "-q", "-p", "-P", PASSWORD, "-N", "", "-f", key], check=True)
    assert done.stdout == "1 of 2 targets delivered a run\n", done.stderr
    assert (tmp_path / "runs" / "locked" / "run.json").is_file()
    assert "secret" not in sshd.calls()


def test_a_run_is_kept_if_the_coordinator_dies(tmp_path, binaries, scratch, lab):
    process = start("--into", tmp_path / "runs", "--binaries", binaries, "-t", "labgrid:board-1", "--",
                    "ipc", "latency", "--driver", "emulated", "--duration", "4s")  # fmt: skip
    wait(lambda: any(scratch.glob("*/log")))
    lab.processes[0].kill()
    said, warned = process.communicate(timeout=60)
    assert process.returncode == 0 and said == "1 of 1 targets delivered a run\n", warned
    assert warned.startswith("place board-1 may still be acquired: ") and warned.count("\n") == 1
    nothing_stays(scratch)
