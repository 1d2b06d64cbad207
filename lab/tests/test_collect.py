"""Tests that each run is collected exactly once, and that damaged runs are quarantined."""

import json
import os
import subprocess
import time
import tracemalloc
from collections import Counter

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from recorded import BINDER, INTERFERENCE, RUNS

from roundtrip_lab import engines, queries, runs, schema
from roundtrip_lab.dataset import MANY, QUIET_S, DataSet, current


def series(path):
    """All rows of the table."""
    files = [str(file) for file in DataSet.open(path).files("series")]
    return duckdb.read_parquet(files, hive_partitioning=False).df() if files else None


def test_runs_of_every_recorded_kind_are_collected(command, tmp_path):
    done = command("collect", RUNS, "--into", tmp_path / "set", "--no-explain")
    assert (done.return_value, done.output.splitlines()[0]) == (0, f"4 runs added to {tmp_path / 'set'}, 0 were already in it")
    rows = series(tmp_path / "set")
    assert set(rows["test"]) == {"latency", "observed_calls", "observed_writes", "storage"}
    assert set(rows["time"]) >= {"call", "request", "handling", "reply"}
    assert (rows["driver"].isin(["kernel"]) | rows["test"].isin(["storage", "observed_writes"])).all()


def test_runs_made_on_this_machine_are_collected(command, tmp_path, roundtrip):
    """Collects runs of all tests, which the tested binary measures on this machine."""
    made = {
        "survey": ["survey", "--duration", "3s"],
        "baseline": ["ipc", "baseline", "--duration", "1s"],
        "throughput": ["ipc", "throughput", "--driver", "emulated", "--min-time", "5ms"],
        "workers": ["ipc", "workers", "--driver", "emulated", "--iterations", "200"],
        "traits": ["ipc", "traits", "--driver", "emulated"],
        "writes": ["storage", "layers", "--calls", "20", "--no-recorder"],
        "beside": ["storage", "interference", "--duration", "2s", "--no-recorder"],
    }
    refused = {}
    for name, words in made.items():
        ran = subprocess.run([roundtrip, *words, "--out", tmp_path / "runs" / name], capture_output=True, text=True,
                             cwd=tmp_path, check=False)  # fmt: skip
        if not (tmp_path / "runs" / name / "run.json").exists():
            refused[name] = ran.stderr
    assert not refused
    assert command("collect", tmp_path / "runs", "--into", tmp_path / "set", "--roundtrip", roundtrip).return_value == 0
    tests = set(series(tmp_path / "set")["test"])
    assert tests >= {"baseline", "throughput", "workers", "traits", "storage", "interference", "latency"}


def test_recorded_writes_are_divided_to_the_nanosecond(command, tmp_path, roundtrip):
    command("collect", RUNS, "--into", tmp_path / "set", "--roundtrip", roundtrip)
    rows = series(tmp_path / "set")
    rows = rows[rows["test"].isin(["storage", "observed_writes"])]
    assert set(rows[rows["divided_calls"] > 0]["test"]) == {"storage", "observed_writes"}
    assert (rows["divided_ns"] == rows["sum_ns"]).all() and (rows["divided_calls"] == rows["calls"]).all()
    assert (rows[[f"{layer}_ns" for layer in schema.LAYERS]].sum(axis=1) == rows["divided_ns"]).all()


def test_writes_are_divided_with_and_without_the_condition(command, tmp_path, roundtrip):
    words = ["storage", "interference", "--conditions", "hog-same", "--duration", "2s", "--out", tmp_path / "runs" / "beside"]
    subprocess.run([roundtrip, *words], capture_output=True, cwd=tmp_path, check=False)
    run = json.loads((tmp_path / "runs" / "beside" / "run.json").read_text())
    if not run["results"]["interference"]["recorder"]:
        pytest.skip("the kernel's events cannot be recorded here")
    command("collect", tmp_path / "runs", "--into", tmp_path / "set", "--roundtrip", roundtrip)
    rows = series(tmp_path / "set")
    assert set(rows["beside"]) == {"alone", "hog-same"} and rows["divided_ns"].notna().all()
    assert (rows["divided_ns"] == rows["sum_ns"]).all()


def test_layers_of_a_recorded_comparison_are_collected_and_queried(command, tmp_path, roundtrip):
    command("collect", INTERFERENCE, "--into", tmp_path / "set", "--roundtrip", roundtrip)
    rows = series(tmp_path / "set")
    assert set(rows["beside"]) == {"alone", "hog-same"} and rows["divided_ns"].notna().all()
    assert (rows["divided_ns"] == rows["sum_ns"]).all()
    answer = json.loads(command("query", "layers", "--from", tmp_path / "set", "--format", "json").stdout)
    assert {row["layer"] for row in answer} >= {"device", "unexplained"}
    assert sum(row["sum_ns"] for row in answer) == rows["sum_ns"].sum()


def test_fleet_percentiles_equal_those_of_roundtrip_for_the_merged_runs(command, tmp_path, roundtrip, make_run):
    """The data set has the same percentiles as the merged histograms of `roundtrip show A B`."""
    for number in range(3):
        out = tmp_path / "runs" / str(number)
        words = ["ipc", "latency", "--driver", "emulated", "--stack", "binder", "--callers", "other", "--iterations", "2000"]
        subprocess.run([roundtrip, *words, "--out", out], check=True, capture_output=True)
    command("collect", tmp_path / "runs", "--into", tmp_path / "set")
    shown = subprocess.run([roundtrip, "show", "--merge", *sorted((tmp_path / "runs").iterdir()), "--format", "json"], check=True,
                           capture_output=True)  # fmt: skip
    merged = json.loads(shown.stdout)["results"]["latency"]["series"][0]["pairs"]
    assert len(merged) == 1
    histogram = merged[0]["callers"][0]["latency"]
    answer = queries.percentiles(engines.connect(None, DataSet.open(tmp_path / "set")))
    assert len(answer) == 1
    expected = {p["percent"]: p["ns"] for p in histogram["percentiles"]}
    assert answer.loc[0, ["p50_ns", "p90_ns", "p99_ns", "p999_ns"]].tolist() == [expected[p] for p in (50, 90, 99, 99.9)]
    assert (answer.loc[0, "calls"], answer.loc[0, "max_ns"]) == (histogram["count"], histogram["max_ns"])


def test_explanations_become_rows(command, tmp_path, roundtrip):
    command("collect", BINDER, "--into", tmp_path / "set", "--roundtrip", roundtrip)
    explained = json.loads(subprocess.run([roundtrip, "explain", BINDER, "--format", "json"], check=True,
                                          capture_output=True).stdout)  # fmt: skip
    causes = [cause for call in explained["slow_calls"] for cause in call["explanation"]["causes"]]
    assert causes
    answer = queries.causes(engines.connect(None, DataSet.open(tmp_path / "set")))
    assert answer["causes"].sum() == len(causes)
    assert answer["excess_ns"].sum() == sum(cause["excess_ns"] for cause in causes)
    assert set(answer["kind"]) == {cause["kind"] for cause in causes}


def test_duplicates_are_recognised_in_one_command_and_in_two(command, tmp_path, make_run):
    first, same = make_run("a"), make_run("b")
    text = json.loads((same / "run.json").read_text())
    (same / "run.json").write_text(json.dumps(text, indent=3, sort_keys=True))
    assert "1 runs added" in (said := command("collect", first, same, "--into", tmp_path / "set").output)
    assert "1 were already in it" in said
    assert "0 runs added" in command("collect", same, "--into", tmp_path / "set").output
    assert series(tmp_path / "set")["run_id"].nunique() == 1


def test_late_runs_get_their_day_and_runs_with_a_wrong_clock_get_none(command, tmp_path, make_run):
    dates = {"new": "2026-11-20T23:59:59Z", "late": "2026-11-02T00:00:00Z", "zone": "2026-11-03T01:00:00+02:00",
             "reset": "1970-01-01T00:00:09Z", "ahead": "2199-01-01T00:00:00Z", "words": "yesterday"}  # fmt: skip
    for name, date in dates.items():
        make_run(name, device=name, date=date)
    said = command("collect", tmp_path / "runs", "--into", tmp_path / "set").output
    assert "3 runs have no plausible date" in said
    days = series(tmp_path / "set").groupby("device")["day"].max()
    days = {device: None if pd.isna(day) else str(day)[:10] for device, day in days.items()}
    assert days == {"new": "2026-11-20", "late": "2026-11-02", "zone": "2026-11-02", "reset": None, "ahead": None,
                    "words": None}  # fmt: skip
    # Runs without a day count for their build, but for no day.
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert set(queries.percentiles(engine)["runs"]) == {6}
    assert set(queries.percentiles(engine, "day")["day"]) == {"2026-11-20", "2026-11-02", "(none)"}


def damage_kinds():
    """Ways to damage a run.json, each with a part of the expected reason."""
    return {
        "cut": (lambda text: text[: len(text) // 2], "not JSON"),
        "empty": (lambda text: "", "not JSON"),
        "list": (lambda text: "[]", "not a JSON object"),
        "nan": (lambda text: text.replace('"load_average":[', '"load_average":[NaN,', 1), "NaN"),
        "deep": (lambda text: "[" * 100_000, "nested too deeply"),
        "surrogate": (lambda text: text.replace('"host_name":"', '"host_name":"\\ud800', 1), "not JSON"),
        "other": (lambda text: text.replace("roundtrip.run", "roundtrip.doctor", 1), "roundtrip.doctor"),
        "future": (lambda text: text.replace('"version":1', '"version":9', 1), "version"),
        "missing": (lambda text: text.replace('"environment"', '"environs"', 1), "environment"),
        "type": (lambda text: text.replace('"usable_cpus":', '"usable_cpus":"x","was":', 1), "usable_cpus"),
        "count": (lambda text: text.replace('"count":300,"min_ns"', '"count":301,"min_ns"', 1), "sum of its buckets"),
    }


@pytest.mark.parametrize("kind", damage_kinds())
def test_a_damaged_run_is_quarantined_with_the_reason(kind, command, tmp_path, make_run):
    make_run("good")
    bad = tmp_path / "runs" / "bad"
    bad.mkdir()
    change, reason = damage_kinds()[kind]
    text = (BINDER / "run.json").read_text()
    assert change(text) != text
    (bad / "run.json").write_text(change(text))
    done = command("collect", tmp_path / "runs", "--into", tmp_path / "set")
    assert done.return_value == 1
    assert "1 runs added" in done.output and "quarantined" in done.output
    (noted,) = DataSet.open(tmp_path / "set").quarantined()
    assert noted["source"] == str(bad) and reason in noted["reason"]
    assert "\n" not in noted["reason"]


def test_special_files_and_links_are_not_read(command, tmp_path):
    places = [tmp_path / "runs" / name for name in ("fifo", "link", "folder", "nothing")]
    for place in places:
        place.mkdir(parents=True)
    os.mkfifo(places[0] / "run.json")
    (places[1] / "run.json").symlink_to(BINDER / "run.json")
    (places[2] / "run.json").mkdir()
    done = command("collect", *places, "--into", tmp_path / "set")
    assert done.return_value == 1
    reasons = [note["reason"] for note in DataSet.open(tmp_path / "set").quarantined()]
    assert len(reasons) == 4 and any("not a regular file" in reason for reason in reasons)


@pytest.mark.parametrize("build", ["../../up", "a/b=c d", "x" * 256, ".", "..", "\u202e\x1b[31m", "50%", "a*[b]?"])
def test_a_build_of_any_name_is_stored_inside_the_data_set(build, command, tmp_path, make_run):
    make_run("a", build=build)
    command("collect", tmp_path / "runs", "--into", tmp_path / "set")
    outside = {entry.name for entry in tmp_path.iterdir()} - {"runs", "set"}
    assert not outside
    assert set(series(tmp_path / "set")["build"]) == {build}
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert set(queries.percentiles(engine)["build"]) == {build}
    shown = command("query", "percentiles", "--from", tmp_path / "set").output
    assert "\x1b" not in shown and "\u202e" not in shown


def test_labels_are_columns_to_group_by_and_name_the_device(command, tmp_path, make_run):
    make_run("a", labels={"site": "north", "device": "phone-7"})
    make_run("b", labels={"site": "it's \"south\"", "device": "phone-8"})
    command("collect", tmp_path / "runs", "--into", tmp_path / "set")
    assert set(series(tmp_path / "set")["device"]) == {"phone-7", "phone-8"}
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert set(queries.percentiles(engine, "label:site")["label:site"]) == {"north", "it's \"south\""}
    assert set(queries.percentiles(engine, "label:device")["label:device"]) == {"phone-7", "phone-8"}
    only = queries.percentiles(engine, filters=queries.Filters(labels=(("site", "it's \"south\""),)))
    assert set(only["runs"]) == {1}


def test_many_small_files_are_merged_without_changing_counts(command, tmp_path, make_run):
    for number in range(MANY + 3):
        make_run(f"r{number:02}", device=f"d{number}")
        command("collect", tmp_path / "runs" / f"r{number:02}", "--into", tmp_path / "set")
    data = DataSet.open(tmp_path / "set")
    assert len(data.files("series")) < 6
    engine = engines.connect(None, data)
    assert set(queries.percentiles(engine)["runs"]) == {MANY + 3}
    # The merged files are gone at once: other programs would count their runs twice.
    place = data.files("series")[0].parent
    assert sorted(place.glob("*")) == current(place)
    assert {file.name for file in data.sums_of(place).glob("*")} == {file.name for file in current(place)}


def test_files_of_earlier_days_are_merged_when_another_run_is_added(command, tmp_path, make_run):
    for number, day in enumerate((1, 1, 1, 2, 2)):
        make_run(f"r{number}", device=f"d{number}", date=f"2026-03-{day:02}T01:00:00Z")
        command("collect", tmp_path / "runs" / f"r{number}", "--into", tmp_path / "set")
    data = DataSet.open(tmp_path / "set")

    def files():
        counts = Counter(file.parent.parent.name.removeprefix("day_folder=") for file in data.files("series"))
        return {day: counts[day] for day in sorted(counts)}

    assert files() == {"2026-03-01": 3, "2026-03-02": 2}
    before = queries.percentiles(engines.connect(None, data), "day")
    for file in data.files("series"):
        if "2026-03-01" in str(file):
            os.utime(file, (time.time() - 2 * QUIET_S,) * 2)
    command("collect", tmp_path / "runs" / "r4", "--into", tmp_path / "set")
    assert files() == {"2026-03-01": 3, "2026-03-02": 2}, "nothing was added"
    make_run("late", device="d9", date="2026-03-02T02:00:00Z")
    command("collect", tmp_path / "runs" / "late", "--into", tmp_path / "set")
    assert files() == {"2026-03-01": 1, "2026-03-02": 3}
    after = queries.percentiles(engines.connect(None, data), "day")
    of = [found[found["day"] == "2026-03-01"].reset_index(drop=True) for found in (before, after)]
    pd.testing.assert_frame_equal(*of)


def test_a_reader_lists_again_if_files_were_merged_after_it_had_listed_them(command, tmp_path, make_run):
    for number in range(MANY - 1):
        make_run(f"r{number:02}", device=f"d{number}")
    for run in sorted((tmp_path / "runs").iterdir()):
        command("collect", run, "--into", tmp_path / "set")
    early, asked = (engines.connect(None, DataSet.open(tmp_path / "set")) for _ in range(2))
    assert len(early.files["series"]) == MANY - 1
    assert set(queries.percentiles(asked)["runs"]) == {MANY - 1}
    make_run("last", device="last")
    command("collect", tmp_path / "runs" / "last", "--into", tmp_path / "set")
    assert len(DataSet.open(tmp_path / "set").files("series")) == 1
    for engine in (early, asked):
        assert set(queries.percentiles(engine)["runs"]) == {MANY}
        assert set(queries.percentiles(engine, "device")["runs"]) == {1}


def test_the_files_have_the_documented_columns(command, tmp_path):
    command("collect", BINDER, "--into", tmp_path / "set", "--no-explain")
    data = DataSet.open(tmp_path / "set")
    for table, columns in (("series", schema.SERIES), ("sums", schema.SUMS)):
        assert pq.read_schema(data.files(table)[0]).remove_metadata().equals(columns)


def test_a_missing_run_and_an_occupied_folder_are_reported_in_one_line(command, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "photo.jpg").write_text("")
    assert "no such run" in str(command("collect", tmp_path / "none", "--into", tmp_path / "set").exception)
    assert not (tmp_path / "set").exists()
    assert "contains other files" in str(command("collect", BINDER, "--into", tmp_path / "taken").exception)
    assert "is not a program" in str(command("collect", BINDER, "--into", tmp_path / "set", "--roundtrip", "nope").exception)


@pytest.mark.parametrize("part", ["[]", "{}", '{"a":1}', "1000", '"a"', '[1,"b"]', '{"le_ns":16479,"count":1}'])
def test_what_a_document_takes_is_known_before_it_is_read(part):
    for parts in (10_000, 30_000, 90_000):
        content = ('{"rows":[' + ",".join([part] * parts) + "]}").encode()
        tracemalloc.start()
        kept = runs.parse(content)
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(kept["rows"]) == parts
        assert taken <= 1.1 * runs.document_bytes(content)


def test_a_run_that_takes_too_much_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "LARGEST_DOCUMENT_BYTES", 1 << 20)
    (tmp_path / "run.json").write_text('{"rows":[' + "[]," * 20_000 + "[]]}")
    with pytest.raises(runs.Damaged, match="take more than 1 MiB of memory"):
        runs.read(tmp_path)
