"""Tests that other programs read the data set with their own readers, as docs/lab.md says."""

import datetime
import re
import shutil

import duckdb
import pandas as pd
import pytest
from recorded import ROOT

from roundtrip_lab.collecting import collect
from roundtrip_lab.dataset import MANY

BUILDS = ("AB12", "a/b=c d", "007", "x" * 200)
PAGE = (ROOT / "docs" / "lab.md").read_text().split("### Reading it without the lab\n")[1].split("\n#")[0]
RECIPES = dict(re.findall(r"With (\w+):\n\n```text\n(.*?)```", PAGE, re.S))


@pytest.fixture
def folder(tmp_path, make_run):
    """A data set with merged files, runs without a day, and builds whose names no folder can have."""
    for number in range(MANY + 2):
        run = make_run(f"r{number:02}", device=f"d{number}")
        collect([run], str(tmp_path / "fleet"), None, 1)
    for number, build in enumerate(BUILDS):
        run = make_run(
            f"build-{number}", device="d", build=build, date="1970-01-01T00:00:10Z" if number == 2 else "2026-11-21T10:00:00Z"
        )
        collect([run], str(tmp_path / "fleet"), None, 1)
    return tmp_path


def check(rows):
    """Each run once, with its own build and day."""
    assert rows["run_id"].nunique() == MANY + 2 + len(BUILDS)
    assert not rows.duplicated(["run_id", "series"]).any()
    assert set(rows["build"]) == {"b1", *BUILDS}
    days = {None if pd.isna(day) else pd.Timestamp(day).date() for day in rows["day"]}
    assert days == {None, datetime.date(2026, 11, 20), datetime.date(2026, 11, 21)}
    (by_build,) = rows[rows["build"] == "007"]["day"].unique()
    assert pd.isna(by_build)


def test_pandas_reads_the_data_set(folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {}
    exec(RECIPES["pandas"], names)
    check(names["runs"])


def test_duckdb_reads_the_data_set(folder, monkeypatch):
    monkeypatch.chdir(folder)
    by_build = duckdb.sql(RECIPES["DuckDB"]).df()
    assert set(by_build["build"]) == {"b1", *BUILDS}
    assert by_build["runs"].sum() == MANY + 2 + len(BUILDS)
    check(duckdb.sql("FROM read_parquet('fleet/series/**/*.parquet', union_by_name = true)").df())


def test_spark_reads_the_data_set(folder, monkeypatch):
    if not shutil.which("java"):
        pytest.skip("no Java: Spark needs it")
    from pyspark.sql import SparkSession

    monkeypatch.chdir(folder)
    names = {"spark": SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()}
    # A session that other tests have started keeps its own current folder.
    exec(RECIPES["Spark"].replace("fleet/", f"file://{folder}/fleet/"), names)
    check(names["runs"].select("run_id", "series", "build", "day").toPandas())
