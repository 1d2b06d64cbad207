"""Tests queries on all engines, and the errors for invalid engines and data sets."""

import json
import shutil
import socket
import threading

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


def test_every_query_is_compared():
    compared = " ".join(QUERIES)
    for name in ("percentiles", "misses", "worst devices", "outliers", "causes", "regressions", "changes", "layers",
                 "distribution"):  # fmt: skip
        assert name in compared
    # The others are the filters, their check, and the runs of one device.
    assert len(queries.__all__) == 12


def test_the_error_for_missing_clickhouse_tables_says_how_to_load_them(small_fleet, clickhouse):
    url = f"clickhouse://localhost:{clickhouse.port}/system"
    with pytest.raises(LabError, match="has no table sums; copy the data set there with --load"):
        queries.percentiles(engines.connect(url, DataSet.open(small_fleet)))


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
        ('{"schema": "roundtrip.lab", "version": 2}', "has version 2"),
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
