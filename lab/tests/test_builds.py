"""Tests the order of builds and their branches, for queries and for the page."""

import subprocess

import pandas as pd
import pyarrow as pa
import pytest
import scenarios
from scenarios import MONDAY, Fleet

from roundtrip_lab import answers, engines, queries, views
from roundtrip_lab.collecting import collect
from roundtrip_lab.dataset import DataSet
from roundtrip_lab.errors import LabError
from roundtrip_lab.queries import Order


def of(fleet, seed=1):
    """An engine with a fleet's runs."""
    return scenarios.engine(scenarios.rows(fleet, seed)[0])


def in_order(engine, order=Order()):
    """The builds of each branch, in order."""
    found = queries.builds(engine, order)
    return {branch: list(of["build"]) for branch, of in found.groupby("branch")}


def names(branch=0, count=6):
    """The builds of a branch as the scenario makes them."""
    return [scenarios.build(branch, number) for number in range(count)]


def worse(engine, **given):
    """The builds that are slower."""
    answer = queries.regressions(engine, **given)
    return set(answer[answer["verdict"] == "worse"]["new"])


def test_wrong_clocks_of_a_few_devices_do_not_move_a_build():
    """One device that shows a day of January for every build made its build the first, and acquitted the culprit."""
    table, _ = scenarios.rows(Fleet(devices=40, step=1.2, at=21, nights=42), 3)
    rows = table.to_pandas()
    rows.loc[rows["device"] == "device-007", "day"] = MONDAY - pd.Timedelta(days=90)
    engine = scenarios.engine(pa.Table.from_pandas(rows, table.schema, preserve_index=False))
    assert in_order(engine) == {"main": names()}
    assert worse(engine) == {scenarios.build(0, 3)}


def test_each_branch_has_its_own_order_and_no_build_is_compared_with_another_branch():
    engine = of(Fleet(branches=2, nights=42))
    assert in_order(engine) == {"main": names(0), "stable": names(1)}
    answer = queries.regressions(engine)
    pairs = set(zip(answer["base"], answer["new"], strict=True))
    assert pairs == {pair for branch in (0, 1) for pair in zip(names(branch), names(branch)[1:], strict=False)}
    assert not set(answer["verdict"]) & {"worse", "better"}


def test_a_run_of_several_series_is_one_run(make_run, tmp_path):
    for name in ("one", "two"):
        make_run(name, device=name)
    collect([tmp_path / "runs"], str(tmp_path / "set"), None, 100)
    engine = engines.connect(None, DataSet.open(tmp_path / "set"))
    assert len(engine.run(engine.series)) > 2
    assert list(queries.builds(engine)["runs"]) == [2]


def test_an_order_can_be_given_as_a_file_a_label_or_a_repository(tmp_path):
    engine = of(Fleet(nights=42))
    known = names()
    (tmp_path / "order").write_text("\n".join([*reversed(known[1:]), "other"]) + "\n")
    found = queries.builds(engine, Order(str(tmp_path / "order")))
    # A build that the file does not name has no place, and is compared with none.
    assert list(found["build"]) == [known[0], *reversed(known[1:])]
    assert pd.isna(found["place"][0]) and list(found["place"][1:]) == [0, 1, 2, 3, 4]
    table = scenarios.rows(Fleet(nights=42), 1)[0]
    numbers = {build: f"v{10 - place}" for place, build in enumerate(known)}
    labels = [[("version", numbers[build])] for build in table["build"].to_pylist()]
    labelled = table.set_column(
        table.schema.get_field_index("labels"), "labels", pa.array(labels, table.schema.field("labels").type)
    )
    assert in_order(scenarios.engine(labelled), Order("label:version")) == {"(none)": known[::-1]}
    for wrong in ("label:nothing", str(tmp_path / "none"), f"git:{tmp_path}"):
        with pytest.raises(LabError):
            queries.builds(engine, Order(wrong))


def test_git_says_the_order_of_builds_that_are_commits(tmp_path):
    def git(*words):
        given = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *given, "-C", str(tmp_path), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for number in range(6):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "HEAD")[:12])
    table = scenarios.rows(Fleet(nights=42), 1)[0]
    # The newest commit was measured first.
    renamed = dict(zip(names(), reversed(commits), strict=True))
    builds = pa.array([renamed[build] for build in table["build"].to_pylist()])
    engine = scenarios.engine(table.set_column(table.schema.get_field_index("build"), "build", builds))
    assert in_order(engine) == {"main": commits[::-1]}
    assert in_order(engine, Order(f"git:{tmp_path}")) == {"main": commits}


def test_the_page_and_the_query_agree_on_builds_that_are_named_by_hashes():
    engine = of(Fleet(step=1.2, at=35, nights=42, branches=2))
    *_, fleet = answers.in_parts(scenarios.engine(with_columns(engine)))
    said = views.worse_builds(fleet.regressions)
    shown = views.series(fleet.percentiles, fleet.distribution, fleet.layers, said, fleet.builds)
    lines = [line["name"] for line in shown[0]["lines"]]
    order = in_order(engine)
    assert sorted(lines, key=lines.index) == lines and {*lines} == {*order["main"], *order["stable"]}
    for branch in order.values():
        assert [name for name in lines if name in branch] == branch
    newest = {line["name"] for line in shown[0]["lines"] if line["newest"]}
    assert newest == {order["main"][-1], order["stable"][-1]}
    assert {build for _, build in said} == {order["main"][-1]}
    text = views.headline(shown, fleet.percentiles, fleet.regressions)["text"]
    assert text == "The newest build of a branch is slower than the one before in 1 of 1 series"


def with_columns(engine):
    """The rows with the columns that other queries read."""
    table = engine.rows
    buckets = [[{"le_ns": 1, "count": 1}]] * len(table)
    for name, kind in {
        "min_ns": "int64",
        "max_ns": "int64",
        "sum_ns": "int64",
        "divided_calls": "int64",
        "divided_ns": "int64",
    }.items():
        table = table.append_column(name, pa.array([1] * len(table) if name[0] in "ms" else [None] * len(table), kind))
    from roundtrip_lab import schema

    for layer in schema.LAYERS:
        table = table.append_column(f"{layer}_ns", pa.nulls(len(table), pa.int64()))
    return table.append_column("buckets", pa.array(buckets, schema.BUCKETS))
