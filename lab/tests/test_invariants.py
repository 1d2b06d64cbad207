"""Tests that every accepted run answers every query, and that a broken run costs only itself."""

import copy
import datetime
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from recorded import BINDER, INTERFERENCE, RUNS, WRITES

from roundtrip_lab import answers, engines, queries, runs, views
from roundtrip_lab.collecting import collect
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.histogram import LARGEST_SUM_NS, MOST_CALLS, Histogram

DOCUMENTS = [json.loads((run / "run.json").read_text()) for run in (BINDER, RUNS / "x86_64-6.1-observed", WRITES, INTERFERENCE)]
BY = ("build", "kernel", "device", "day", "model", "driver", "label:site")
# The ends of what fits somewhere: buckets, floating-point numbers, sums, and integers of 63 and 64 bits.
NUMBERS = [
    0,
    1,
    2,
    -1,
    1 << 31,
    (1 << 42) - 1,
    1 << 42,
    (1 << 53) + 1,
    1 << 56,
    (1 << 56) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def numbers(value, path=()):
    """The places of all whole numbers in a document."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from numbers(part, (*path, key))
        elif type(part) is int:
            yield *path, key


PLACES = [list(numbers(document["results"], ("results",))) for document in DOCUMENTS]


def put(document, path, number):
    """Replaces one number."""
    *above, last = path
    for key in above:
        document = document[key]
    document[last] = number


@st.composite
def changed(draw):
    """One or two other numbers of a recorded run: the index of the run, places and numbers."""
    index = draw(st.integers(0, len(DOCUMENTS) - 1))
    number = st.sampled_from(NUMBERS) | st.integers(-2, 5000)
    return index, draw(st.lists(st.tuples(st.sampled_from(PLACES[index]), number), min_size=1, max_size=2))


def with_numbers(index, others):
    """A recorded run with other numbers."""
    document = copy.deepcopy(DOCUMENTS[index])
    for place, number in others:
        put(document, place, number)
    return document


def stored(durations_ns, times):
    """A histogram as Roundtrip stores it: each of these durations so many times."""
    of = Histogram.of(durations_ns)
    counts = [[value, count * times] for value, count in sorted(of.buckets.items())]
    return {"version": 1, "unit": "ns", "significant_digits": 3, "count": of.count * times, "min_ns": of.min_ns,
            "max_ns": of.max_ns, "sum_ns": of.sum_ns * times, "clamped": of.clamped * times, "counts": counts}  # fmt: skip


@st.composite
def measured(draw):
    """Durations of any size that is accepted, how often each occurs, how many missed the deadline, and labels."""
    durations = draw(st.lists(st.integers(0, 1 << 44) | st.integers(0, 3000), max_size=20))
    most = min(MOST_CALLS // max(1, len(durations)), LARGEST_SUM_NS // max(1, sum(durations)))
    times = draw(st.integers(1, most))
    missed = draw(st.integers(0, len(durations) * times))
    return durations, times, missed, draw(st.text(max_size=3, alphabet="ab'\"\\%\n=/é"))


def with_durations(durations, times, missed, name):
    """A recorded run with these durations. Every such run is consistent."""
    document = copy.deepcopy(DOCUMENTS[0])
    for pair in document["results"]["latency"]["series"][0]["pairs"]:
        for caller in pair["callers"]:
            # Both callers of a pair may be merged.
            caller["latency"], caller["deadline"]["missed"] = stored(durations, times), missed
    document["labels"] = {"device": f"d{name}", "build": f"b{name}", "site": name}
    return document


def write(documents, folder):
    """Makes run directories."""
    for number, document in enumerate(documents):
        place = folder / f"run-{number}"
        place.mkdir(parents=True)
        # Each run has its own date, so that otherwise equal runs count as different ones.
        document["environment"] |= {"date": f"2026-11-{number + 1:02}T10:00:00Z"}
        (place / "run.json").write_text(json.dumps(document))


def ask_everything(path, *groupings):
    """Every query, with these groupings, and what the pages show."""
    engine = engines.connect(None, DataSet.open(path))
    for by in groupings:
        for ask in (queries.percentiles, queries.misses, queries.causes, queries.layers, queries.distribution):
            ask(engine, by)
    *_, fleet = answers.in_parts(engine)
    shown = views.series(fleet.percentiles, fleet.distribution, fleet.layers, views.worse_builds(fleet.regressions), fleet.builds)
    views.headline(shown, fleet.percentiles, fleet.regressions)
    for answer in (fleet.regressions, fleet.changes, fleet.worst, fleet.outliers):
        views.table(answer)
    return fleet.percentiles


# Looking for a smaller example takes minutes.
@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(changed(), min_size=6, max_size=10), st.lists(measured(), min_size=2, max_size=4), st.sampled_from(BY))
def test_any_accepted_run_answers_every_query_and_a_refused_one_costs_only_itself(broken, whole, by):
    with tempfile.TemporaryDirectory() as made:
        documents = [with_numbers(*given) for given in broken] + [with_durations(*given) for given in whole]
        write([*documents, copy.deepcopy(DOCUMENTS[0])], Path(made) / "runs")
        result = collect([Path(made) / "runs"], str(Path(made) / "set"), None, 7)
        assert result.new + result.empty + len(result.damaged) == len(broken) + len(whole) + 1
        refused = {source.name for source, _ in result.damaged}
        assert not refused & {f"run-{number}" for number in range(len(broken), len(broken) + len(whole) + 1)}, result.damaged
        ask_everything(Path(made) / "set", by)


HISTOGRAM = ("results", "latency", "series", 0, "pairs", 0, "callers", 0)


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ({("deadline", "missed"): 10**6}, "missed"),
        ({("latency", "sum_ns"): (1 << 63) - 1}, "not plausible"),
        ({("latency", "sum_ns"): 1}, "sum contradicts"),
        ({("latency", "min_ns"): 10**12}, "contradict each other"),
        ({("latency", "max_ns"): 10**12}, "outside of its buckets"),
        ({("latency", "clamped"): 1}, "outside of its buckets"),
        ({("latency", "counts", 0, 0): 1 << 50}, "ascending order"),
        ({("latency", "counts", 1, 0): 3_000_001}, "ascending order|no run has"),
        ({("latency", "counts", 0, 1): 0}, "sum of its buckets"),
    ],
)
def test_each_contradiction_is_refused_with_its_reason(places, reason, tmp_path, make_run):
    def change(document):
        for place, number in places.items():
            put(document, (*HISTOGRAM, *place), number)

    make_run("good")
    make_run("bad", device="bad", change=change)
    result = collect([tmp_path / "runs"], str(tmp_path / "set"), None, 100)
    assert result.new == 1
    ((_, said),) = result.damaged
    assert any(part in said for part in reason.split("|")), said


def test_a_name_with_a_character_that_no_engine_can_look_up_is_refused(tmp_path, make_run):
    make_run("good")
    make_run("bad", labels={"device": "a\0b"})
    result = collect([tmp_path / "runs"], str(tmp_path / "set"), None, 100)
    assert result.new == 1 and "NUL" in result.damaged[0][1]


def test_a_directory_name_that_is_not_text_costs_no_run(tmp_path, make_run):
    for number in range(3):
        make_run(f"run-{number}", device=f"d{number}")
    odd = os.path.join(os.fsencode(tmp_path / "runs"), b"caf\xe9")
    os.rename(tmp_path / "runs" / "run-1", odd)
    broken = os.path.join(os.fsencode(tmp_path / "runs"), b"bad\xff")
    os.mkdir(broken)
    with open(os.path.join(broken, b"run.json"), "w") as file:
        file.write("{")
    result = collect([tmp_path / "runs"], str(tmp_path / "set"), None, 100)
    assert (result.new, len(result.damaged)) == (3, 1)
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert "caf\\xe9" in set(engine.run(engine.series)["source"])
    assert DataSet.open(tmp_path / "set").quarantined()[0]["source"].endswith("bad\udcff")
    assert all(line.isprintable() for line in result.words("set"))


def test_a_data_set_whose_path_is_not_text_is_refused_before_anything_is_written(tmp_path, make_run, command):
    odd = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"s\xe9t"))
    assert "has to be UTF-8" in str(command("collect", make_run("good"), "--into", odd).exception)
    assert not os.path.exists(odd)
    assert "has to be UTF-8" in str(command("query", "builds", "--from", odd).exception)


def test_a_run_that_the_lab_fails_on_costs_only_itself(tmp_path, make_run, monkeypatch):
    for name in ("a", "b", "c"):
        make_run(name, device=name)
    real = runs.rows

    def fails(run, *others):
        if run.directory.name == "b":
            raise RecursionError("too deep")
        return real(run, *others)

    monkeypatch.setattr(runs, "rows", fails)
    result = collect([tmp_path / "runs"], str(tmp_path / "set"), None, 100)
    assert result.new == 2 and "RecursionError: too deep" in result.damaged[0][1]


def test_sums_that_exceed_63_bits_are_split_and_still_answer(tmp_path, make_run):
    """136 runs of two years each: their sum does not fit into 63 bits."""
    longest = (1 << 42) - 1

    def change(document):
        histogram = stored([longest], LARGEST_SUM_NS // longest)
        for caller in document["results"]["latency"]["series"][0]["pairs"][0]["callers"]:
            caller["latency"], caller["deadline"]["missed"] = histogram, 0

    for number in range(136):
        make_run(f"r{number:03}", device="d1", date=f"2026-11-20T10:{number // 60:02}:{number % 60:02}Z", change=change)
    collect([tmp_path / "runs"], str(tmp_path / "set"), None, 10_000)
    answer = ask_everything(tmp_path / "set")
    assert answer["runs"].max() == 136
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert (engine.run(engine.sums)["sum_ns"] >= 0).all()
    assert queries.worst_devices(engine)["mean_ns"].max() == pytest.approx(longest)


def test_days_are_plausible():
    today = datetime.date(2026, 11, 25)
    assert runs.day("0001-01-01T00:00:00+23:59", today) is None
