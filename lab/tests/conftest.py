"""Shared by all tests: real runs, a simulated fleet, and the list of skipped tests."""

import copy
import json
import os
import shutil

import pytest
from click.testing import CliRunner
from recorded import BINDER, SEED, WRITES

from roundtrip_lab import simulation
from roundtrip_lab.cli import lab
from roundtrip_lab.errors import LabError

# Spark runs only for a minute: the second compiler of its Java machine takes longer than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The same variable as in the crate `skips`: `cargo xtask test` lists the tests that are noted in this file.
SKIPPED = "ROUNDTRIP_SKIPS_FILE"


def pytest_runtest_logreport(report):
    """Notes a skipped test with its reason."""
    if report.skipped and not hasattr(report, "wasxfail") and SKIPPED in os.environ:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with open(os.environ[SKIPPED], "a") as noted:
            noted.write(f"{report.nodeid}\t{' '.join(reason.split())}\n")


@pytest.fixture(scope="session")
def roundtrip():
    """The roundtrip binary."""
    program = os.environ.get("ROUNDTRIP") or shutil.which("roundtrip")
    if not program:
        pytest.skip("no roundtrip binary; set the variable ROUNDTRIP to its path")
    return program


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """A simulated fleet, and its planted regressions and faulty devices."""
    path = tmp_path_factory.mktemp("fleet") / "set"
    simulation.simulate([SEED], str(path), simulation.Plan(devices=400, nights=42, calls=200, seed=3, healthy=False))
    return path, json.loads((path / "planted.json").read_text())


@pytest.fixture(scope="session")
def small_fleet(tmp_path_factory):
    """A smaller data set, for slow engines."""
    path = tmp_path_factory.mktemp("small") / "set"
    simulation.simulate([SEED, WRITES], str(path), simulation.Plan(devices=60, nights=28, calls=200, seed=3, healthy=False))
    return path


@pytest.fixture
def make_run(tmp_path):
    """Creates run directories: copies of a recorded one with the given differences."""
    document = json.loads((BINDER / "run.json").read_text())

    def make(name, device="d1", build="b1", date="2026-11-20T10:00:00Z", labels=None, change=None):
        made = copy.deepcopy(document)
        made["environment"] |= {"host_name": device, "date": date}
        made["labels"] = {"build": build} | (labels or {})
        if change:
            change(made)
        directory = tmp_path / "runs" / name
        directory.mkdir(parents=True)
        (directory / "run.json").write_text(json.dumps(made))
        return directory

    return make


@pytest.fixture
def command():
    """Runs `roundtrip-lab` in this process. Returns its status, its output, and the LabError if it failed."""

    def run(*words):
        done = CliRunner().invoke(lab, [str(word) for word in words], standalone_mode=False)
        if done.exception and not isinstance(done.exception, LabError):
            raise done.exception
        return done

    return run
