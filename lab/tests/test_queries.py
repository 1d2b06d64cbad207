"""Compares query results with the planted regressions, and with figures that are computed in another way."""

import datetime
import inspect
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from recorded import SEED, WRITES

from roundtrip_lab import engines, queries, simulation
from roundtrip_lab.cli import lab
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.errors import LabError
from roundtrip_lab.histogram import Histogram
from roundtrip_lab.queries import Filters
from roundtrip_lab.queries.changes import splits
from roundtrip_lab.queries.devices import judged, named
from roundtrip_lab.schema import LAYERS


@pytest.fixture(scope="module")
def engine(fleet):
    """The simulated fleet in DuckDB."""
    return engines.connect(None, DataSet.open(fleet[0]))


@pytest.fixture(scope="module")
def rows(engine):
    """Every run of it."""
    return engine.run(engine.series)


def merged(rows):
    """One histogram of these rows, merged in Python."""
    histogram = Histogram()
    for row in rows.itertuples():
        buckets = {bucket["le_ns"]: bucket["count"] for bucket in row.buckets}
        histogram.merge(Histogram(row.calls, row.min_ns, row.max_ns, row.sum_ns, 0, buckets))
    return histogram


@pytest.mark.parametrize("by", ["build", "kernel", "label:site", "day"])
def test_percentiles_equal_those_of_all_calls_together(by, engine, rows):
    answer = queries.percentiles(engine, by)
    label = rows["labels"].map(lambda pairs: dict(pairs)["site"])
    groups = label if by == "label:site" else rows[by].astype(str)
    assert len(answer) > 4
    for row in answer.sample(6, random_state=1).to_dict("records"):
        name = "None" if row[by] == "(none)" else row[by]
        if name == "None":
            continue
        of = rows[(rows["series"] == row["series"]) & (groups == name)]
        expected = merged(of)
        found = [row["p50_ns"], row["p90_ns"], row["p99_ns"], row["p999_ns"]]
        assert found == [expected.percentile_ns(p) for p in (50, 90, 99, 99.9)]
        assert (row["calls"], row["runs"], row["missed"]) == (expected.count, len(of), of["missed"].sum())


def test_percentiles_of_a_device_equal_those_of_its_merged_nights(engine, rows):
    answer = queries.percentiles(engine, "device", Filters(devices=("device-000007",)))
    assert len(answer) == 2
    for row in answer.itertuples():
        expected = merged(rows[(rows["device"] == "device-000007") & (rows["series"] == row.series)])
        assert (row.p50_ns, row.p99_ns, row.calls) == (expected.percentile_ns(50), expected.percentile_ns(99), expected.count)


def test_an_average_of_percentiles_would_be_wrong(engine, rows):
    """Shows why histograms are needed: the mean of the nights' p99 is not the p99 of all nights."""
    answer = queries.percentiles(engine).iloc[0]
    of = rows[(rows["series"] == answer["series"]) & (rows["build"] == answer["build"])]
    assert abs(of["p99_ns"].mean() / answer["p99_ns"] - 1) > 0.01


def test_worst_devices_are_those_with_the_largest_share_of_misses(engine, rows):
    answer = queries.worst_devices(engine, limit=5)
    share = rows.groupby(["series", "device"])[["missed", "calls"]].sum()
    share = (share["missed"] / share["calls"]).sort_values(ascending=False)
    top = answer.iloc[0]
    assert share[top["series"], top["device"]] >= share.iloc[3]
    assert (answer["low"] <= answer["missed_share"]).all()


def test_planted_regressions_are_found_and_nothing_else(engine, fleet):
    answer = queries.regressions(engine)
    worse = {(row.series, row.new) for row in answer[answer["verdict"] == "worse"].itertuples()}
    planted = {(note["series"], note["build"]) for note in fleet[1]["regressions"]}
    assert len(planted) >= 3
    assert worse >= planted
    # Builds after one with a longer tail are normal again, so no other build is worse.
    assert worse == planted


def test_a_planted_ratio_lies_within_the_reported_interval(engine, fleet):
    answer = queries.regressions(engine).set_index(["series", "new", "figure"])
    for note in fleet[1]["regressions"]:
        if note["kind"] == "slower":
            found = answer.loc[note["series"], note["build"], "p50"]
            assert found["low"] <= note["ratio"] <= found["high"]


def test_two_named_builds_are_compared(engine):
    answer = queries.regressions(engine, base="build-000", new="build-003")
    assert set(answer["base"]) == {"build-000"} and set(answer["new"]) == {"build-003"}
    with pytest.raises(LabError, match="no build 'nope'; it has build-000"):
        queries.regressions(engine, base="build-000", new="nope")


def test_the_planted_cause_is_reported_as_new(engine, fleet):
    notes = [note for note in fleet[1]["regressions"] if note["kind"] == "longer tail"]
    assert notes
    for note in notes:
        before = f"build-{int(note['build'][-3:]) - 1:03d}"
        answer = queries.causes(engine, base=before, new=note["build"], filters=Filters(series=note["series"]))
        new = answer[answer["verdict"] == "new"]
        assert set(new["who"]) == {note["who"]}
        assert (new["base_runs"] == 0).all() and (new["new_devices"] > 10).all()


def test_causes_by_build_add_up(engine, rows):
    answer = queries.causes(engine)
    every = [cause for causes in rows["causes"] for cause in causes]
    assert answer["causes"].sum() == len(every)
    assert answer["excess_ns"].sum() == sum(cause["excess_ns"] for cause in every)
    assert np.allclose(answer.groupby("build")["share"].sum(), 1)


def test_sick_devices_are_outliers_and_healthy_ones_are_not(engine, fleet):
    sick = set(fleet[1]["sick"])
    found = set(queries.outliers(engine)["device"])
    assert found <= sick and len(found) >= 2
    # One of them is so fast by nature that it is less certain.
    assert set(queries.outliers(engine, alpha=0.01)["device"]) == sick


def test_changes_are_found_on_the_days_on_which_slower_builds_arrived(engine, fleet):
    answer = queries.changes(engine)
    slower = [note for note in fleet[1]["regressions"] if note["kind"] == "slower"]
    found = answer[answer["figure"] == "p50"]
    for note in slower:
        first = simulation.FIRST_NIGHT.toordinal() + int(note["build"][-3:]) * simulation.BUILD_NIGHTS
        days = [day.toordinal() for day in found[found["series"] == note["series"]]["day"]]
        assert any(first <= day <= first + simulation.ROLLOUT_NIGHTS for day in days)
    assert len(found) <= 2 * len(slower)


@pytest.mark.parametrize("nights", [6, 20, 90])
@pytest.mark.parametrize("noise", ["normal", "standard_t"])
def test_equal_nights_show_a_change_no_more_often_than_alpha_says(nights, noise):
    random, alpha, answers = np.random.default_rng(1), 0.05, 400
    draw = {"normal": lambda: random.normal(0, 0.01, nights), "standard_t": lambda: random.standard_t(4, nights) * 0.01}
    false = sum(bool(splits(draw[noise](), alpha, 0)) for _ in range(answers))
    assert false <= alpha * answers


def test_changes_begin_when_the_first_devices_leave_a_level():
    random = np.random.default_rng(1)
    quiet = random.normal(0, 0.004, 60)
    step = quiet.copy()
    step[30:] += 0.05
    assert [place for place, *_ in splits(step, 0.001, 0.02)] == [30]
    # Two builds in a row, each of which takes four nights to arrive.
    stairs = quiet + np.interp(np.arange(60), [29, 33, 36, 40], [0, 0.2, 0.2, 0.5])
    found = splits(stairs, 0.001, 0.02)
    assert [place for place, *_ in found] == [30, 37]
    assert [size for _, size, _ in found] == pytest.approx([0.2, 0.3], abs=0.01)
    # A level of two nights does not last.
    bump = quiet.copy()
    bump[30:32] += 0.2
    assert not splits(bump, 0.001, 0.02)
    assert not splits(np.zeros(60), 0.001, 0.02)
    # Most nights are exactly equal: the step is all that there is.
    assert [place for place, *_ in splits(np.repeat([0.0, 1.0], 30), 0.001, 0.02)] == [30]


def test_a_healthy_fleet_raises_no_alarm(tmp_path):
    simulation.simulate([SEED], str(tmp_path / "set"), simulation.Plan(300, 30, 200, 11, True))
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert not set(queries.regressions(engine)["verdict"]) & {"worse", "better"}
    assert queries.changes(engine).empty
    assert queries.outliers(engine).empty


def drawn(random, devices, nights, noise):
    """What the engine finds of healthy devices that differ by 8%: moments of their nights."""
    runs = random.normal(0, 0.08, (devices, 1)) + noise(random, (devices, nights))
    powers = {f"p99_{power}": (runs**power).mean(axis=1) for power in (1, 2, 3, 4)}
    return pd.DataFrame({"series": "s", "model": "m", "device": np.arange(devices), "nights": nights} | powers)


@pytest.mark.parametrize("devices", [10, 20, 300])
@pytest.mark.parametrize("nights", [3, 60])
@pytest.mark.parametrize(
    "noise",
    [
        lambda random, size: random.normal(0, 0.03, size),
        lambda random, size: random.exponential(0.3, size),
        lambda random, size: random.standard_t(5, size) * 0.2,
    ],
    ids=["normal", "skewed", "heavy"],
)
def test_healthy_devices_are_outliers_no_more_often_than_alpha_says(devices, nights, noise):
    random, alpha, fleets = np.random.default_rng(5), 0.05, 400
    false = sum(not named(judged(drawn(random, devices, nights, noise), "p99"), alpha).empty for _ in range(fleets))
    # 20 are expected at most; chance alone has more than 33 in one of 500 tests.
    assert false <= 33


def test_a_sick_device_is_found_among_skewed_nights_and_other_sick_ones():
    fleet = drawn(np.random.default_rng(6), 300, 60, lambda random, size: random.exponential(0.3, size))
    fleet.loc[fleet["device"] % 20 == 0, "p99_1"] += 0.9
    assert set(named(judged(fleet, "p99"), 0.002)["device"]) == set(range(0, 300, 20))


def test_no_night_of_a_healthy_fleet_raises_an_alarm(tmp_path):
    """As `measure.py alarms` asks. The mean of few nights, and a tail of 200 calls, are what raised some."""
    simulation.simulate([SEED], str(tmp_path / "set"), simulation.Plan(600, 14, 200, 12, True))
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    for night in range(1, 14):
        filters = Filters(until=simulation.FIRST_NIGHT + datetime.timedelta(days=night))
        assert not set(queries.regressions(engine, filters)["verdict"]) & {"worse", "better"}
        assert queries.changes(engine, filters).empty
        assert queries.outliers(engine, filters).empty


def test_a_few_devices_with_wrong_clocks_are_no_night(tmp_path):
    """Two devices a day ahead of the others, with a p99 far from their own mean: no level begins after them."""
    simulation.simulate([SEED], str(tmp_path / "set"), simulation.Plan(60, 14, 200, 12, True))
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    rows = engine.run(engine.series.select("series", "device", "build", "day", "time", "p50_ns", "p99_ns", "missed", "calls"))
    few = rows[(rows["day"] == rows["day"].min()) & rows["device"].isin(sorted(rows["device"])[:2])].copy()
    few["day"] = rows["day"].min() - datetime.timedelta(days=1)
    few[["p50_ns", "p99_ns"]] *= 20
    both = pa.Table.from_pandas(pd.concat([few, rows]), preserve_index=False)
    assert queries.changes(engines.Fetched(both, engine.data)).empty


def test_three_queries_share_one_percent():
    shared = [inspect.signature(ask).parameters["alpha"].default
              for ask in (queries.regressions, queries.changes, queries.outliers)]  # fmt: skip
    assert sum(shared) <= 0.01
    for name, alpha in zip(("regressions", "changes", "outliers"), shared, strict=True):
        options = lab.commands["query"].commands[name].params
        assert next(option.default for option in options if option.name == "alpha") == alpha


def test_too_few_devices_give_no_verdict(tmp_path):
    simulation.simulate([SEED], str(tmp_path / "set"), simulation.Plan(2, 15, 50, 1, True))
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert set(queries.regressions(engine)["verdict"]) == {"cannot tell"}
    assert queries.outliers(engine).empty


def test_an_unknown_group_is_refused(engine):
    with pytest.raises(LabError, match="cannot group by 'colour'"):
        queries.percentiles(engine, "colour")


@pytest.fixture(scope="module")
def writes(tmp_path_factory):
    """A simulated fleet that writes, and its planted regressions."""
    path = tmp_path_factory.mktemp("writes") / "set"
    simulation.simulate([SEED, WRITES], str(path), simulation.Plan(100, 42, 200, 4, False))
    return engines.connect(None, DataSet.open(path)), json.loads((path / "planted.json").read_text())["regressions"]


def test_layers_add_up_to_the_writes_for_every_grouping(writes):
    rows = writes[0].run(writes[0].series)
    rows = rows[rows["divided_calls"].notna()]
    for by in ("build", "kernel", "device"):
        answer = queries.layers(writes[0], by)
        assert answer["sum_ns"].sum() == rows["divided_ns"].sum() == rows["sum_ns"].sum()
        assert np.allclose(answer.groupby(by)["share"].sum(), 1)


def test_the_slower_layer_is_named(writes):
    slower = [note for note in writes[1] if "layer" in note]
    assert slower
    for note in slower:
        before = f"build-{int(note['build'][-3:]) - 1:03d}"
        answer = queries.layers(writes[0], base=before, new=note["build"])
        assert set(answer[answer["verdict"] == "slower"]["layer"]) == {"all", note["layer"]}


def test_slow_nights_are_no_slower_layer(writes):
    """On the nights of one build everything takes longer, as it did on other nights before."""
    times = ["divided_ns", *(f"{layer}_ns" for layer in LAYERS)]
    of = writes[0].series
    columns = ["series", "time", "device", "build", "day", "calls", "divided_calls", *times]
    rows = writes[0].run(of.filter(of.divided_calls > 0).select(columns))
    builds = sorted(rows["build"].unique())
    nights = sorted(rows["day"].unique())
    slow = rows["day"].isin(set(nights[::4]) | set(rows[rows["build"] == builds[-1]]["day"]))
    rows.loc[slow, times] = (rows.loc[slow, times] * 1.1).astype("int64")
    held = engines.Fetched(pa.Table.from_pandas(rows, preserve_index=False), writes[0].data)
    answer = queries.layers(held, base=builds[-2], new=builds[-1])
    assert "slower" not in set(answer[answer["layer"] == "all"]["verdict"])
    # Without other nights to compare with, nothing can be told.
    first = rows[rows["build"] == builds[-1]]["day"].mode()[0]
    few = rows[[abs(day - first) <= datetime.timedelta(days=2) for day in rows["day"]]]
    held = engines.Fetched(pa.Table.from_pandas(few, preserve_index=False), writes[0].data)
    answer = queries.layers(held, base=builds[-2], new=builds[-1])
    assert set(answer["verdict"]) == {"cannot tell"} and answer["lacks"].str.contains("5 nights; needs 6").all()


def test_a_distribution_contains_all_calls_and_agrees_with_the_percentiles(engine):
    shown, exact = queries.distribution(engine), queries.percentiles(engine)
    for row in exact.itertuples():
        of = shown[(shown["series"] == row.series) & (shown["build"] == row.build)]
        assert of["calls"].iloc[-1] == row.calls
        p99 = of[of["calls"] >= 0.99 * row.calls]["le_ns"].iloc[0]
        assert row.p99_ns <= p99 <= row.p99_ns * 1.03
