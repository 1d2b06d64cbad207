"""Tests queries on all engines, and the errors for invalid engines and data sets."""

import json
import shutil
import socket
import threading
import time

import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clickhouse import serve
from recorded import BINDER

from roundtrip_lab import engines, queries, schema
from roundtrip_lab.dataset import TABLES, DataSet, read_parquet
from roundtrip_lab.errors import LabError
from roundtrip_lab.queries import Filters

DEVICE = Filters(devices=("device-000007", "device-000011"))
SITE = Filters(labels=(("site", "north"),), series="latency")
QUERIES = {
    "percentiles by build": lambda engine: queries.percentiles(engine),
    "percentiles by day": lambda engine: queries.percentiles(engine, "day"),
    "percentiles by label": lambda engine: queries.percentiles(engine, "label:site"),
    "percentiles by device": lambda engine: queries.percentiles(engine, "device", limit=5),
    "percentiles of devices": lambda engine: queries.percentiles(engine, "kernel", DEVICE),
    "misses by kernel": lambda engine: queries.misses(engine, "kernel"),
    "misses of a site": lambda engine: queries.misses(engine, "build", SITE),
    "worst devices": lambda engine: queries.worst_devices(engine, limit=10),
    "outliers": lambda engine: queries.outliers(engine),
    "causes": lambda engine: queries.causes(engine),
    "causes by device": lambda engine: queries.causes(engine, "device", DEVICE),
    "new causes": lambda engine: queries.causes(engine, base="build-001", new="build-002"),
    "builds": lambda engine: queries.builds(engine),
    "distribution": lambda engine: queries.distribution(engine),
    "layers": lambda engine: queries.layers(engine),
    "layers of two builds": lambda engine: queries.layers(engine, base="build-000", new="build-001"),
    "regressions": lambda engine: queries.regressions(engine),
    "regression of two builds": lambda engine: queries.regressions(engine, base="build-000", new="build-003"),
    "changes": lambda engine: queries.changes(engine),
    "changes by kernel": lambda engine: queries.changes(engine, by="kernel"),
}


@pytest.fixture(scope="module")
def duckdb(small_fleet):
    """The engine that others are compared with."""
    return engines.connect(None, DataSet.open(small_fleet))


@pytest.fixture(scope="module")
def spark(small_fleet):
    """Spark, running on this machine."""
    if not shutil.which("java"):
        pytest.skip("no Java: Spark needs it")
    engine = engines.connect("spark://local", DataSet.open(small_fleet))
    yield engine
    engine.connection.disconnect()


@pytest.fixture(scope="module")
def clickhouse(small_fleet):
    """ClickHouse's own engine, behind its HTTP interface."""
    with serve() as port:
        engine = engines.connect(f"clickhouse://localhost:{port}/default", DataSet.open(small_fleet))
        engine.load()
        engine.port = port
        yield engine


def compare(one, other):
    """Compares results. Figures may differ after 9 digits, because engines add in different orders."""
    assert len(one) > 0 and list(one.columns) == list(other.columns)
    pd.testing.assert_frame_equal(one, other, check_dtype=False, rtol=1e-9)


@pytest.mark.parametrize("name", QUERIES)
def test_spark_and_duckdb_return_equal_results(name, duckdb, spark):
    compare(QUERIES[name](duckdb), QUERIES[name](spark))


@pytest.mark.parametrize("name", QUERIES)
def test_clickhouse_and_duckdb_return_equal_results(name, duckdb, clickhouse):
    compare(QUERIES[name](duckdb), QUERIES[name](clickhouse))


def test_duckdb_groups_by_hashes_as_others_do_by_names():
    """Names that repeat in another column, and none at all."""
    names = ["a", "b", None, "", "ab"]
    rows = pa.Table.from_pylist([{"series": a, "device": b, "p50_ns": n} for n in (1, 2) for a in names for b in names])
    engine = engines.Fetched(rows, None)

    def answer(of):
        key = of.key(engine.series, ["series", "device"])
        rows = engine.series.mutate(**key)
        return list(engine.run(rows.group_by(list(key)).agg(sum=rows.p50_ns.sum()))["sum"])

    assert answer(engine) == answer(engines.Engine(engine.connection, None, "plain")) == [3] * len(names) ** 2


@pytest.mark.parametrize(("name", "statements"), [("regressions", 5), ("layers of two builds", 4), ("changes", 2), ("outliers", 1)])
def test_a_query_reads_the_runs_of_a_fleet_only_so_often(name, statements, small_fleet, monkeypatch):
    """Each statement takes half a second with 10,000 devices and 90 nights."""
    engine, asked = engines.connect(None, DataSet.open(small_fleet)), []
    fetch = engine.fetch
    monkeypatch.setattr(engine, "fetch", lambda expression: asked.append(expression) or fetch(expression))
    QUERIES[name](engine)
    assert len(asked) == statements


def test_a_night_of_a_fleet_is_not_cut_into_small_groups(fleet):
    """With 512 rows in a group, a query over months took twice as long."""
    for file in (fleet[0] / "series").rglob("*.parquet"):
        found = pq.read_metadata(file)
        assert found.num_row_groups == 1 + (found.num_rows - 1) // 4096


def test_every_query_is_compared():
    compared = " ".join(QUERIES)
    for name in ("percentiles", "misses", "worst devices", "outliers", "causes", "regressions", "changes", "layers",
                 "distribution", "builds"):  # fmt: skip
        assert name in compared
    # The others are the filters, their check, the order, and the runs of one device.
    assert len(queries.__all__) == 14


def test_the_error_for_a_missing_clickhouse_copy_says_how_to_make_one(small_fleet, clickhouse):
    url = f"clickhouse://localhost:{clickhouse.port}/system"
    with pytest.raises(LabError, match="has no copy of this data set; make one with --load"):
        queries.percentiles(engines.connect(url, DataSet.open(small_fleet)))


def test_a_copy_of_another_data_set_or_of_an_earlier_state_does_not_answer(tmp_path, make_run, command, monkeypatch):
    """One copy used to answer for every data set, and after every collect."""
    for name in ("one", "other"):
        command("collect", make_run(name, device=name), "--into", tmp_path / name)
    with serve() as port:
        def ask(name, *words):
            url = f"clickhouse://localhost:{port}/default"
            done = command("query", "percentiles", "--from", tmp_path / name, "--engine", url, "--format", "json", *words)
            return str(done.exception) if done.exception else {row["runs"] for row in json.loads(done.stdout)}

        url = f"clickhouse://localhost:{port}/default"
        # The engine may still have the tables of other tests.
        earlier = set(engines.connect(url, DataSet.open(tmp_path / "one")).connection.list_tables())
        assert ask("one", "--load") == {1}
        assert "no copy of this data set" in ask("other")
        assert ask("other", "--load") == {1} and ask("one") == {1}
        command("collect", make_run("late", device="late"), "--into", tmp_path / "one")
        assert "only a copy from before the last collect" in ask("one")
        # A copy that fails on the way is not seen, and leaves nothing.
        engine = engines.connect(f"clickhouse://localhost:{port}/default", DataSet.open(tmp_path / "one"))
        before, command_of = set(engine.connection.list_tables()), engine.connection.con.command

        def lost(statement, *others, **options):
            if statement.startswith("RENAME"):
                raise OSError("lost")
            return command_of(statement, *others, **options)

        with monkeypatch.context() as patched, pytest.raises(LabError, match="lost"):
            patched.setattr(engine.connection.con, "command", lost)
            engine.load()
        assert set(engine.connection.list_tables()) == before and "before the last collect" in ask("one")
        assert ask("one", "--load") == {2}
        assert len(set(engine.connection.list_tables()) - earlier) == 4


@pytest.mark.parametrize("url", ["spark://localhost:{}", "clickhouse://user:secret@localhost:{}/lab"])
def test_a_silent_server_ends_in_time(url, small_fleet, monkeypatch):
    monkeypatch.setattr(engines, "CONNECT_S", 1)
    with socket.create_server(("localhost", 0)) as silent:
        with pytest.raises(LabError, match="cannot reach .*timed out"):
            engines.connect(url.format(silent.getsockname()[1]), DataSet.open(small_fleet))


def test_a_copy_whose_writer_was_killed_is_removed_a_day_later(small_fleet):
    with serve() as port:
        engine = engines.connect(f"clickhouse://localhost:{port}/default", DataSet.open(small_fleet))
        now = int(time.time())
        old, new, other = f"series_loading_{now - 90_000}_ab", f"sums_loading_{now - 3600}_ab", "others_loading_1_ab"
        for table in (old, new, other):
            engine.connection.create_table(table, schema=ibis.schema({"one": "int64"}), engine="MergeTree")
        engine.load()
        there = set(engine.connection.list_tables())
        assert {new, other} <= there and old not in there
        for table in (new, other):
            engine._drop(table)


@pytest.mark.parametrize("url", ["spark://localhost:{}", "clickhouse://user:secret@localhost:{}/lab"])
def test_an_unreachable_engine_is_reported_in_one_line_without_the_password(url, small_fleet, command):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        error = str(command("query", "misses", "--from", small_fleet, "--engine", url.format(taken.getsockname()[1])).exception)
    assert error.startswith("cannot reach") and "\n" not in error and "secret" not in error


def test_an_invalid_response_of_an_engine_is_reported_in_one_line(small_fleet, command):
    with socket.create_server(("localhost", 0)) as server:
        def answer():
            while True:
                try:
                    with server.accept()[0] as peer:
                        peer.recv(1000)
                        peer.sendall(b"HTTP/1.1 500 no\r\ncontent-length: 2\r\n\r\nno")
                except OSError:
                    return

        threading.Thread(target=answer, daemon=True).start()
        url = f"clickhouse://localhost:{server.getsockname()[1]}/lab"
        error = str(command("query", "misses", "--from", small_fleet, "--engine", url).exception)
    assert error.startswith("cannot reach") and "\n" not in error


def test_an_error_of_spark_is_reported_without_the_name_of_a_method():
    error = "An error occurred while calling None.org.apache.Session.\n: java.lang.Failure: no space\n\tat org.apache"
    assert engines.first_line(RuntimeError(error)) == "java.lang.Failure: no space"
    assert engines.first_line(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("url", ["mysql://x", "trino", "spark//x", "http://[::1"])
def test_an_unknown_engine_is_refused(url, small_fleet):
    with pytest.raises(LabError, match="unknown engine|is no URL"):
        engines.connect(url, DataSet.open(small_fleet))


@pytest.fixture
def copied(small_fleet, tmp_path):
    """A data set to damage."""
    shutil.copytree(small_fleet, tmp_path / "set")
    return DataSet.open(tmp_path / "set")


def test_a_foreign_parquet_file_is_named(copied, command):
    place = copied.files("series")[0].parent
    pq.write_table(pa.table({"a": [1]}), place / "other.parquet")
    error = str(command("query", "misses", "--from", copied.path).exception)
    assert "other.parquet is a foreign Parquet file" in error
    # A foreign file that replaced one of ours under its name.
    (place / "other.parquet").unlink()
    for table in ("sums", "series"):
        pq.write_table(pa.table({"a": [1]}), copied.files(table)[0])
    error = str(command("query", "percentiles", "--from", copied.path).exception)
    assert "foreign Parquet file" in error and "\n" not in error


def test_older_files_without_new_columns_are_read(copied, command):
    whole = command("query", "layers", "--from", copied.path, "--format", "json").stdout
    old = copied.files("series")[:3]
    for file in old:
        for table, place in (("series", file), ("sums", copied.sums_of(file))):
            rows = pq.ParquetFile(place).read()
            kept = [name for name in rows.column_names if name not in schema.ADDED]
            pq.write_table(rows.select(kept), place)
            assert read_parquet(place, table=table).schema.equals(TABLES[table])
    assert json.loads(command("query", "misses", "--from", copied.path, "--format", "json").stdout)
    fewer = json.loads(command("query", "layers", "--from", copied.path, "--format", "json").stdout)
    total = [sum(row["sum_ns"] for row in rows) for rows in (fewer, json.loads(whole))]
    assert 0 < total[0] < total[1]


def test_the_error_for_a_filter_without_matches_lists_the_valid_values(small_fleet, command):
    for words, reason in {
        ("--build", "nope"): "no build 'nope'; it has build-000",
        ("--kernel", "nope"): "no kernel 'nope'; it has 6.1.0",
        ("--device", "nope"): "no device 'nope'; it has device-000000",
        ("--series", "nope"): "no series has 'nope' in its name; there are latency simulated",
        ("--label", "site=nope"): "no label site 'nope'; it has east",
        ("--label", "nope=x"): "no run has a label 'nope'",
        ("--since", "2026-02-02", "--until", "2026-02-01"): "lies behind",
    }.items():
        error = str(command("query", "misses", "--from", small_fleet, *words).exception)
        assert reason in error and "\n" not in error


def test_a_damaged_parquet_file_is_named(copied, command):
    file = copied.files("sums")[0]
    file.write_bytes(file.read_bytes()[:-40])
    error = str(command("query", "misses", "--from", copied.path).exception)
    assert str(file) in error and "\n" not in error


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "it has no dataset.json"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"schema": "other", "version": 1}', "the schema in its dataset.json is 'other'"),
        ('{"schema": "roundtrip.lab", "version": 1}', "has version 1"),
        ('{"schema": "roundtrip.lab", "version": 2}', "has no id"),
    ],
)
def test_a_folder_that_is_not_a_data_set_is_reported_in_one_line(content, reason, tmp_path, command):
    if content is not None:
        (tmp_path / "dataset.json").write_text(content)
    error = str(command("query", "misses", "--from", tmp_path).exception)
    assert reason in error and "\n" not in error


def test_a_file_in_place_of_a_folder_is_reported_in_one_line(tmp_path, command):
    (tmp_path / "file").write_text("")
    DataSet.create(tmp_path / "set")
    (tmp_path / "set" / "series").write_text("")
    for path in (tmp_path / "file", tmp_path / "set"):
        for words in (["query", "misses", "--from"], ["collect", BINDER, "--into"]):
            error = str(command(*words, path).exception)
            assert "is a file: a data set has a folder there" in error and "\n" not in error


def test_queries_of_an_empty_data_set_return_no_rows(tmp_path, command):
    DataSet.create(tmp_path / "set")
    for name in ("percentiles", "misses", "worst-devices", "outliers", "causes", "layers", "regressions", "changes"):
        assert command("query", name, "--from", tmp_path / "set", "--format", "json").stdout == "[]\n"
