"""Tests that the data set stays readable and complete with concurrent and killed collectors."""

import os
import random
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from roundtrip_lab import engines, queries
from roundtrip_lab.collecting import collect
from roundtrip_lab.dataset import DataSet

RUNS = 40


def collector(path, *runs):
    """Starts a collector in a separate process. It writes after each run."""
    code = (
        "import sys; from pathlib import Path; from roundtrip_lab.collecting import collect;"
        "collect([Path(p) for p in sys.argv[2:]], sys.argv[1], None, 1)"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(path), *map(str, runs)], stderr=subprocess.PIPE)


def counted(path):
    """The number of runs. Checks that both tables agree on runs and calls."""
    engine = engines.connect(None, DataSet.open(path))
    if not DataSet.open(path).files("series"):
        return 0
    rows = engine.series.filter(engine.series.time == "call")
    by_device = engine.run(
        rows.group_by("series").agg(runs=rows.run_id.nunique(), rows=rows.count(), calls=rows.calls.sum())
    )
    sums = queries.percentiles(engine)
    sums = sums.groupby("series")[["runs", "calls"]].sum()
    assert (by_device["runs"] == by_device["rows"]).all(), "a run was added twice"
    for row in by_device.itertuples():
        assert (sums.loc[row.series, "runs"], sums.loc[row.series, "calls"]) == (row.runs, row.calls)
    return int(by_device["runs"].max())


def test_concurrent_collectors_of_the_same_runs_add_each_run_once(tmp_path, make_run):
    runs = [make_run(f"r{number:02}", device=f"d{number}", build=f"b{number % 2}") for number in range(RUNS)]
    others = [collector(tmp_path / "set", *random.Random(seed).sample(runs, RUNS)) for seed in range(4)]
    seen = []
    while any(other.poll() is None for other in others):
        # A reader at any time finds only complete runs.
        if (tmp_path / "set" / "dataset.json").exists():
            seen.append(counted(tmp_path / "set"))
    assert [other.communicate()[1] for other in others] == [b""] * 4
    assert all(other.returncode == 0 for other in others)
    assert seen == sorted(seen) and counted(tmp_path / "set") == RUNS


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_collector_leaves_only_complete_runs_and_the_next_one_adds_the_rest(seed, tmp_path, make_run):
    runs = [make_run(f"r{number:02}", device=f"d{number}", build=f"b{number % 2}") for number in range(RUNS)]
    source, killed, before = random.Random(seed), 0, 0
    for _ in range(6):
        other = collector(tmp_path / "set", *runs)
        started = time.monotonic()
        while not (tmp_path / "set" / "dataset.json").exists() and time.monotonic() < started + 20:
            time.sleep(0.01)
        # The collector writes from now on. Kills it at a random moment.
        time.sleep(source.uniform(0.3, 0.9))
        killed += other.poll() is None
        other.send_signal(signal.SIGKILL)
        other.communicate()
        now = counted(tmp_path / "set")
        assert now >= before
        before = now
    assert killed
    result = collect([tmp_path / "runs"], str(tmp_path / "set"), None, 1000)
    assert (result.new, result.known) == (RUNS - before, before)
    assert counted(tmp_path / "set") == RUNS


@pytest.mark.parametrize("table", ["series", "sums"])
def test_the_next_write_repairs_a_write_that_was_killed_before_a_rename(table, tmp_path, make_run, monkeypatch):
    """Stops before each of the two renames, which are the only steps that readers can see."""
    collect([make_run("first", device="d0")], str(tmp_path / "set"), None, 1)
    real = os.fspath

    class Killed(BaseException):
        pass

    def rename(self, target):
        if f"/{table}/" in real(target):
            raise Killed
        return os.rename(self, target)

    second = make_run("second", device="d1")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("pathlib.Path.rename", rename)
        collect([second], str(tmp_path / "set"), None, 1)
    left = list((tmp_path / "set").glob("*/*/*/.*.writing"))
    assert left
    assert counted(tmp_path / "set") == 1
    assert collect([second], str(tmp_path / "set"), None, 1).new == 1
    assert counted(tmp_path / "set") == 2
    assert not list((tmp_path / "set").glob("*/*/*/.*.writing"))


def test_a_full_disk_is_reported_in_one_line_and_does_not_change_the_data_set(tmp_path, make_run, monkeypatch):
    from roundtrip_lab.errors import LabError

    collect([make_run("first", device="d0")], str(tmp_path / "set"), None, 1)

    before = set((tmp_path / "set").rglob("*"))
    write_table, room = pq.write_table, ["sums"]

    def full(rows, path, **options):
        write_table(rows, path, **options)
        if not room:
            raise OSError(28, "No space left on device")
        room.pop()

    with monkeypatch.context() as patched, pytest.raises(LabError, match="No space left"):
        patched.setattr("pyarrow.parquet.write_table", full)
        collect([make_run("second", device="d1")], str(tmp_path / "set"), None, 1)
    assert set((tmp_path / "set").rglob("*")) == before
    assert counted(tmp_path / "set") == 1


def test_a_full_disk_during_quarantine_is_reported_in_one_line(tmp_path, make_run, monkeypatch, capsys):
    from roundtrip_lab import cli

    collect([make_run("first", device="d0")], str(tmp_path / "set"), None, 1)
    (tmp_path / "damaged").write_text("no run")

    def full(*_, **__):
        raise OSError(28, "No space left on device", "note.json")

    monkeypatch.setattr("roundtrip_lab.dataset.write_whole", full)
    monkeypatch.setattr("sys.argv", ["roundtrip-lab", "collect", str(tmp_path / "damaged"), "--into", str(tmp_path / "set")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "roundtrip-lab: note.json: No space left on device\n"
