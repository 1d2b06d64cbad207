"""Tests verdicts on fleets with the troubles of real labs: what is found, what is not, and what cannot be judged."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scenarios
from recorded import SEED
from scenarios import Fleet

from roundtrip_lab import engines, queries, schema, simulation
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.queries import Filters


def of(fleet, seed=1):
    """An engine with a fleet's runs."""
    return scenarios.engine(scenarios.rows(fleet, seed)[0])


def said(engine):
    """Every alarm of the three queries that share one percent."""
    answer = queries.regressions(engine)
    alarms = {(row.new, row.where, row.verdict) for row in answer.itertuples() if row.verdict in ("worse", "better")}
    alarms |= {("change", row.figure, str(row.day)) for row in queries.changes(engine).itertuples()}
    return alarms | {("outlier", device) for device in queries.outliers(engine)["device"]}


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet(weekend=0.1, nights=42),
        Fleet(weekend=-0.1, random_weekends=True, nights=42),
        Fleet(weekend=0.1, nights=17, build_nights=5),
        Fleet(branches=2, nights=42),
        Fleet(wrong_clocks=3, nights=42),
        Fleet(kinds=0.5, nights=42),
    ],
    ids=["weekends", "odd weekends", "builds of five nights", "branches", "clocks", "two kinds of devices"],
)
def test_a_healthy_fleet_with_troubles_raises_no_alarm(fleet):
    for seed in (1, 2):
        assert said(of(fleet, seed)) == set()


@pytest.mark.parametrize(("part", "ratio", "name"), [("kernel", 1.12, "kernel 6.6.0"), ("label", 1.2, "label rack z")])
def test_a_regression_of_one_kernel_or_label_is_found_with_its_name(part, ratio, name):
    answer = queries.regressions(of(Fleet(devices=36, nights=35, at=28, step=ratio, part=part)))
    alarms = answer[answer["verdict"].isin(["worse", "better"]) & (answer["figure"] == "p50")]
    assert list(alarms["where"]) == [name] and list(alarms["new"]) == [scenarios.build(0, 4)]
    assert alarms["low"].iloc[0] <= ratio <= alarms["high"].iloc[0]


def test_the_order_of_rows_does_not_change_the_answer():
    """Engines return rows in orders of their own."""
    rows = scenarios.rows(Fleet(nights=35, at=28, step=1.15, branches=2), 1)[0]
    table = pa.concat_tables([rows, rows.set_column(0, "series", pa.array(["another"] * len(rows)))])
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    answers = [queries.regressions(scenarios.engine(given)) for given in (table, shuffled)]
    pd.testing.assert_frame_equal(*answers, rtol=1e-9)


def test_a_regression_of_all_devices_names_no_part():
    answer = queries.regressions(of(Fleet(nights=35, at=28, step=1.15)))
    assert set(answer[answer["verdict"] == "worse"]["where"]) == {"all devices"}


def test_what_cannot_be_judged_says_what_it_lacks():
    few = of(Fleet(devices=5, nights=21))
    answer = queries.regressions(few)
    assert set(answer["verdict"]) == {"cannot tell"}
    assert set(answer["lacks"]) == {"5 devices; needs 6"}
    assert queries.outliers(few).attrs["lacks"] == "5 devices of one model, 21 nights; needs 10 and 3"
    short = of(Fleet(devices=12, nights=4, build_nights=2, rollout=1))
    assert set(queries.regressions(short)["lacks"]) == {"4 nights; needs 6"}
    assert queries.changes(short).attrs["lacks"] == "4 nights; needs 6"
    assert queries.regressions(of(Fleet(nights=4, rollout=1))).attrs["lacks"] == "1 build on a branch; needs 2"


def test_the_command_says_what_an_answer_lacks(command, make_run, tmp_path):
    make_run("one")
    command("collect", tmp_path / "runs", "--into", tmp_path / "set", "--no-explain")
    for query, lacks in {"outliers": "1 device of one model, 1 night; needs 10 and 3", "changes": "1 night; needs 6",
                         "regressions": "1 build on a branch; needs 2", "causes": "no run has an explained slow call",
                         "layers": "no series has writes whose time was divided among the layers",
                         "misses --time oneway": "no series has a deadline"}.items():  # fmt: skip
        done = command("query", *query.split(), "--from", tmp_path / "set")
        assert f"cannot be judged: {lacks}" in done.stderr and "nothing found" not in done.stderr
    two = command("query", "layers", "--from", tmp_path / "set", "--base", "b1", "--new", "b2")
    assert "the data set has no build 'b2'" in str(two.exception)


def test_runs_that_could_show_no_cause_do_not_dilute_the_others():
    """The new build has ten times as many runs without a slow call: no cause is rarer for that."""
    table = scenarios.rows(Fleet(nights=14), 1)[0]
    rows = table.to_pylist()
    cause = {"call": 1, "latency_ns": 9, "kind": "competitor", "owner": "server", "who": "kswapd0", "excess_ns": 5}
    new = scenarios.build(0, 1)
    for number, row in enumerate(rows):
        shows = number % 10 == 0 if row["build"] == new else True
        row |= {"run_id": f"run-{number}", "explained": int(shows), "causes": [cause] if shows and number % 7 < 5 else []}
    fields = [schema.SERIES.field(name) for name in ("run_id", "explained", "causes")]
    wide = pa.Table.from_pylist(rows, pa.schema([*table.schema, *fields]))
    answer = queries.causes(scenarios.engine(wide), base=scenarios.build(0, 0), new=new)
    assert set(answer["verdict"]) == {"cannot tell"} and answer["new_of"].iloc[0] < 30
    none = wide.set_column(wide.schema.get_field_index("explained"), "explained", pa.array([0] * len(wide)))
    lacks = queries.causes(scenarios.engine(none), base=scenarios.build(0, 0), new=new).attrs["lacks"]
    assert "has no run with an explained slow call" in lacks


def test_a_filter_may_leave_one_branch_or_one_night(tmp_path):
    simulation.simulate([SEED], str(tmp_path / "set"), simulation.Plan(20, 9, 50, 1, True))
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    for filters in (Filters(build="build-001"), Filters(until=simulation.FIRST_NIGHT), Filters(devices=("device-000001",))):
        assert not set(queries.regressions(engine, filters)["verdict"]) & {"worse", "better"}
        assert queries.changes(engine, filters).empty and queries.outliers(engine, filters).empty
    assert json.loads((tmp_path / "set" / "planted.json").read_text())["regressions"] == []
