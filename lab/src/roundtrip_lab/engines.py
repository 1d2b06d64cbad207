"""The engines that answer: DuckDB in this process, or a Spark or ClickHouse that is there already.

An engine offers the two tables. Queries are ibis expressions on them, the same for every engine.
"""

import contextlib
import hashlib
import os
import socket
import struct
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import ibis
import ibis.expr.types as ir
import pandas as pd
import pyarrow as pa

from roundtrip_lab.dataset import TABLES, DataSet, check_parquet, read_parquet
from roundtrip_lab.errors import LabError
from roundtrip_lab.schema import ADDED

MEMORY = "4GB"
# The timeout for connecting to another machine.
CONNECT_S = 10
# A copy that is being made has the time of its start in its name. After so long, its writer is dead.
LOADING_S = 86400
URLS = "duckdb, spark://local, spark://HOST:PORT or clickhouse://USER:PASSWORD@HOST:PORT/DATABASE"


class Engine:
    """The data set's tables in one engine."""

    def __init__(self, connection: ibis.BaseBackend, data: DataSet, name: str) -> None:
        self.connection, self.data, self.name = connection, data, name

    @cached_property
    def series(self) -> ir.Table:
        """The table `series`: one row per run and series."""
        return self._table("series")

    @cached_property
    def sums(self) -> ir.Table:
        """The table `sums`: one row per file and key."""
        return self._table("sums")

    @cached_property
    def files(self) -> dict[str, list[str]]:
        """What is there when the engine is first asked: both tables hold the same runs."""
        runs = self.data.files("series")
        return {"series": [str(file) for file in runs], "sums": [str(self.data.sums_of(file)) for file in runs]}

    def _table(self, name: str) -> ir.Table:
        if not self.files[name]:
            return ibis.memtable(TABLES[name].empty_table())
        table = self._anew(lambda: self.read(self.files[name], name))
        later = set(TABLES[name].names) - set(table.columns)
        if later - ADDED:
            raise self._failed(ValueError(f"{name} has other columns than ours"))
        kinds = ibis.Schema.from_pyarrow(TABLES[name])
        return table.mutate(**{column: ibis.null(kinds[column]) for column in later}).select(TABLES[name].names)

    def read(self, files: list[str], name: str) -> ir.Table:
        """The table that these files hold. Columns that came later than a file are null, or left out."""
        return self.connection.read_parquet(files, table_name=name)

    def key(self, rows: ir.Table, columns: list[str]) -> dict[str, ir.Value]:
        """What to join rows by that are equal in these columns: values by name."""
        return {name: rows[name] for name in columns}

    def run(self, expression: ir.Table) -> pd.DataFrame:
        """Runs an expression."""
        return self.fetch(expression).to_pandas()

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Runs an expression. Returns an Arrow table."""
        return self._anew(lambda: self.connection.to_pyarrow(expression))

    def _anew(self, ask: Callable[[], object]) -> object:
        """Asks, and asks again if a writer has merged some of the files meanwhile."""
        for last in (False, True):
            try:
                return ask()
            except Exception as error:
                if last or all(os.path.exists(file) for files in self.files.values() for file in files):
                    raise self._failed(error) from error
            self._list_again()

    def _list_again(self) -> None:
        """Lists the files that are valid now. Tables keep their names, so expressions on them stay valid."""
        del self.files
        for name in TABLES:
            if name in self.__dict__ and self.files[name]:
                self.read(self.files[name], name)

    def _failed(self, error: Exception) -> LabError:
        """What to tell: a file that is not ours, if there is one; else what the engine says."""
        for name in TABLES:
            for file in self.files[name]:
                check_parquet(Path(file), name)
        said = first_line(error)
        remedy = "; allow more open files (ulimit -n)" if "Too many open files" in said else ""
        return LabError(f"{self.name} failed: {said}{remedy}")


class DuckDb(Engine):
    """DuckDB in this process, without anything to install or start."""

    # Whether the columns of every file are read. That doubles the time to start, and is seldom
    # needed.
    mixed = False

    def read(self, files: list[str], name: str) -> ir.Table:
        # The first file says which columns there are: the newest has most.
        files = sorted(files, key=lambda file: -os.stat(file).st_mtime_ns)
        table = self._read(files, name)
        if not self.mixed and ADDED - set(table.columns):
            self.mixed = True
            table = self._read(files, name)
        return table

    def _read(self, files: list[str], name: str) -> ir.Table:
        if self.mixed:
            # A foreign file would be taken for one of nulls.
            for file in files:
                check_parquet(Path(file), name)
        # The columns say day and build; a folder's name is quoted, and may be cut.
        return self.connection.read_parquet(files, table_name=name, hive_partitioning=False, union_by_name=self.mixed)

    def key(self, rows: ir.Table, columns: list[str]) -> dict[str, ir.Value]:
        """A hash of 64 bits. It costs a third of comparing names; that two of a million groups share one has a
        probability of 3e-8."""
        return {"key": ibis.struct({name: rows[name] for name in columns}).hash()}

    def fetch(self, expression: ir.Table) -> pa.Table:
        try:
            return super().fetch(expression)
        except LabError:
            # A file may lack a column that came later.
            if self.mixed:
                raise
            self.mixed = True
            for name in TABLES:
                if self.files[name]:
                    self._read(self.files[name], name)
            return super().fetch(expression)


class Fetched(DuckDb):
    """Rows of `series` that an engine has found: further questions about them read no files."""

    files: ClassVar = {name: [] for name in TABLES}

    def __init__(self, rows: pa.Table, data: DataSet) -> None:
        super().__init__(embedded(), data, "duckdb")
        self.rows = rows

    def _table(self, name: str) -> ir.Table:
        return ibis.memtable(self.rows)


class Spark(Engine):
    """A cluster, or this machine's cores. It reads the files itself: the folder must be where its workers see it."""

    def read(self, files: list[str], name: str) -> ir.Table:
        from ibis.backends.pyspark.datatypes import PySparkSchema

        # Spark takes a file without our columns for one of nulls.
        for file in files:
            check_parquet(Path(file), name)
        schema = PySparkSchema.from_ibis(ibis.Schema.from_pyarrow(TABLES[name]))
        self.connection._session.read.schema(schema).parquet(*files).createOrReplaceTempView(name)
        return self.connection.table(name)


class ClickHouse(Engine):
    """A ClickHouse server. Its tables are copies that `load` creates.

    A copy's name has the data set's identity and a digest of its files. So a copy of another data set, or one from
    before the last collect, is never taken for this one. Its tables get this name when they are complete.
    """

    def _anew(self, ask: Callable[[], object]) -> object:
        # A copy does not change when a writer merges files.
        try:
            return ask()
        except Exception as error:
            raise self._failed(error) from error

    @cached_property
    def copy(self) -> str:
        """The end of the names of this data set's copy."""
        return f"{self.data.identity[:12]}_{self.version}"

    @cached_property
    def version(self) -> str:
        """A digest of the files. Their names are unique, and files never change."""
        names = "".join(f"{Path(file).relative_to(self.data.path)}\n" for file in self.files["series"])
        return hashlib.sha256(names.encode()).hexdigest()[:12]

    def _table(self, name: str) -> ir.Table:
        there = self.connection.list_tables()
        if f"{name}_{self.copy}" in there:
            return self.connection.table(f"{name}_{self.copy}")
        older = [table for table in there if table.startswith(f"series_{self.data.identity[:12]}_")]
        state = "only a copy from before the last collect" if older else "no copy of this data set"
        raise LabError(f"{self.name} has {state}; make one with --load")

    def load(self) -> None:
        """Copies the data set to the server, and removes its earlier copies. Readers see a copy only if it is complete."""
        there = self.connection.list_tables()
        for table in there:
            name, _, made = table.partition("_loading_")
            begun_s = made.partition("_")[0]
            if name in TABLES and begun_s.isdigit() and time.time() - int(begun_s) > LOADING_S:
                self._drop(table)
        if {f"{name}_{self.copy}" for name in TABLES} <= set(there):
            return
        made = f"loading_{int(time.time())}_{uuid.uuid4().hex[:12]}"
        try:
            for name, schema in TABLES.items():
                columns = ibis.Schema.from_pyarrow(schema)
                columns = ibis.schema({column: required(kind) for column, kind in columns.items()})
                self.connection.create_table(f"{name}_{made}", schema=columns, engine="MergeTree")
                for file in map(Path, self.files[name]):
                    self.connection.con.insert_arrow(f"{name}_{made}", read_parquet(file, table=name))
            for name in TABLES:
                # What is left of a copy that was interrupted here.
                self._drop(f"{name}_{self.copy}")
            renamed = ", ".join(f"{name}_{made} TO {name}_{self.copy}" for name in TABLES)
            self.connection.con.command(f"RENAME TABLE {renamed}")
        except Exception as error:
            for name in TABLES:
                with contextlib.suppress(Exception):
                    self._drop(f"{name}_{made}")
            raise self._failed(error) from error
        mine = tuple(f"{name}_{self.data.identity[:12]}_" for name in TABLES)
        for table in self.connection.list_tables():
            if table.startswith(mine) and not table.endswith(self.copy):
                self._drop(table)

    def _drop(self, table: str) -> None:
        """Removes a table. Its name has only letters, digits and underscores."""
        self.connection.con.command(f"DROP TABLE IF EXISTS {table}")


def required(kind: ibis.expr.datatypes.DataType) -> ibis.expr.datatypes.DataType:
    """ClickHouse knows no list or map that is null, and ours never are."""
    return kind.copy(nullable=False) if kind.is_array() or kind.is_map() else kind


def connect(url: str | None, data: DataSet, load: bool = False) -> Engine:
    """Opens an engine: `duckdb` (the default), spark://…, clickhouse://… With `load`, copies the data set to it."""
    if load and not (url or "").startswith("clickhouse:"):
        raise LabError("--load is for clickhouse://: other engines read the files themselves")
    if url in (None, "duckdb"):
        return DuckDb(embedded(), data, "duckdb")
    try:
        scheme = urllib.parse.urlsplit(url).scheme
    except ValueError as error:
        raise LabError(f"{url!r} is no URL: {error}") from error
    if scheme not in ("spark", "clickhouse"):
        raise LabError(f"unknown engine {hidden(url)!r}: say {URLS}")
    try:
        engine = spark(url, data) if scheme == "spark" else clickhouse(url, data)
    except ImportError as error:
        raise LabError(f"{error}; install it: pip install 'roundtrip-lab[{scheme}]'") from error
    except LabError:
        raise
    except Exception as error:
        raise LabError(f"cannot reach {hidden(url)}: {first_line(error)}") from error
    if load:
        engine.load()
    return engine


def embedded() -> ibis.BaseBackend:
    """A DuckDB in this process. Files never change, so what their ends say of them is read once."""
    connection = ibis.duckdb.connect(memory_limit=MEMORY)
    connection.raw_sql("SET parquet_metadata_cache = true")
    return connection


def spark(url: str, data: DataSet) -> Engine:
    """`spark://local` runs Spark on this machine's cores."""
    from pyspark.sql import SparkSession

    local = url.removeprefix("spark://").strip("/") == "local"
    if not local:
        with answers(url, 7077) as master:
            # Spark itself waits a minute for a master that is silent. One that works answers even what it does not
            # know: here a request (type 6 of Spark's protocol) for a stream.
            asked = b"/roundtrip-lab"
            master.sendall(struct.pack(">qBi", 13 + len(asked), 6, len(asked)) + asked)
            master.recv(1)
    session = (
        SparkSession.builder.master("local[*]" if local else url)
        .appName("roundtrip-lab")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8" if local else "200")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return Spark(ibis.pyspark.connect(session), data, hidden(url))


def clickhouse(url: str, data: DataSet) -> Engine:
    """`clickhouse://USER:PASSWORD@HOST:PORT/DATABASE`, with the HTTP port."""
    parts = urllib.parse.urlsplit(url)
    answers(url, 8123).close()
    address = f"http://{parts.netloc.rpartition('@')[2] or 'localhost'}"
    # Later requests may take minutes. A server that is silent now would never answer.
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    directly.open(f"{address if parts.port else address + ':8123'}/ping", timeout=CONNECT_S).close()
    connection = ibis.clickhouse.connect(
        host=parts.hostname or "localhost",
        port=parts.port or 8123,
        database=parts.path.strip("/") or "default",
        user=urllib.parse.unquote(parts.username or "default"),
        password=urllib.parse.unquote(parts.password or ""),
        connect_timeout=CONNECT_S,
    )
    return ClickHouse(connection, data, hidden(url))


def answers(url: str, port: int) -> socket.socket:
    """Connects to the address. Raises OSError if nothing listens there. Spark itself would retry for minutes."""
    parts = urllib.parse.urlsplit(url)
    return socket.create_connection((parts.hostname or "localhost", parts.port or port), timeout=CONNECT_S)


def hidden(url: str) -> str:
    """The URL without its password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def first_line(error: BaseException) -> str:
    """An engine's error message, without its stack trace, and without Py4J's first line, which names a method."""
    lines = [line.strip(" :\t") for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    return next(iter(lines), type(error).__name__)[:300]
