"""The data set: Parquet files that any engine can read, and rules that keep it consistent.

    DATASET/dataset.json                            marks the folder as a data set; has the schema's version
    DATASET/series/day_folder=…/build_folder=…/GENERATION-ID.parquet      a row for each run and series
    DATASET/sums/day_folder=…/build_folder=…/GENERATION-ID.parquet        the same runs, merged
    DATASET/quarantine/NAME.json                    what could not be collected, and why

A file is written under a hidden name and renamed when it is complete. The file of `sums` is renamed first, so
every file of `series` has its sums. A file of `sums` without its file of `series` was left by a crash: readers
ignore it, and the next writer removes it. Writers add files under a lock, which the kernel releases if the
writer dies. They never change an existing file.

Many small files are slow to read. If a folder has MANY files, or several and no new one for QUIET_S, a writer
writes their rows to one file of the next generation. Only the files of a folder's highest generation are valid,
so renaming this file makes the others invalid. The writer then removes them: programs that know nothing of
generations count each run once. A reader that had listed them lists again.

The folders' names are not those of columns, because other programs would read them as columns.
"""

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import re
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roundtrip_lab import schema, sums
from roundtrip_lab.errors import LabError

TABLES = {"series": schema.SERIES, "sums": schema.SUMS}
# Rows are sorted by device, so a query for one device reads one row group of each file. Each group has a cost of its
# own: with 512 rows, reading all of them took twice as long.
ROWS_PER_GROUP = 4096
NO_DAY = "unknown"
MANY = 32
# The seconds without a new file after which a folder is merged, and the most such folders that one writer merges.
QUIET_S, MOST_MERGED = 3600, 16
NAME = re.compile(r"([0-9]{4})-[0-9a-f]{32}\.parquet")


@dataclass
class DataSet:
    """A directory with a data set. `identity` differs from that of any other data set."""

    path: Path
    identity: str

    @classmethod
    def open(cls, path: str | os.PathLike) -> "DataSet":
        """Opens an existing data set. Raises LabError if it is not one."""
        path = readable(path)
        note = path / "dataset.json"
        for place in (path, path / "series", path / "sums", path / "quarantine"):
            if place.exists() and not place.is_dir():
                raise LabError(f"{place} is a file: a data set has a folder there")
        try:
            content = json.loads(note.read_text())
            name, version, identity = content["schema"], content["version"], str(content.get("id", ""))
        except FileNotFoundError as error:
            fix = "create one: roundtrip-lab collect RUN… --into " + str(path)
            raise LabError(f"{path} is not a data set: it has no dataset.json; {fix}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(f"{note} cannot be read: {error}") from error
        if name != "roundtrip.lab":
            raise LabError(f"{path} is not a data set: the schema in its dataset.json is {name!r}")
        if version != schema.VERSION:
            raise LabError(f"{path} has version {version!r} of the schema; this program reads {schema.VERSION}")
        if not re.fullmatch("[0-9a-f]{32}", identity):
            raise LabError(f"{note} has no id of 32 digits")
        return cls(path, identity)

    @classmethod
    def create(cls, path: str | os.PathLike) -> "DataSet":
        """Opens a data set, or creates it in a new or empty directory."""
        path = readable(path)
        if path.is_file() or (path / "dataset.json").exists():
            return cls.open(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            foreign = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
            ours = {"dataset.json", "series", "sums", "quarantine"}
            if not set(foreign) <= ours:
                raise LabError(f"{path} contains other files; choose a new or empty folder")
            content = {"schema": "roundtrip.lab", "version": schema.VERSION, "id": uuid.uuid4().hex}
            write_new(path / "dataset.json", (json.dumps(content) + "\n").encode())
        except OSError as error:
            raise LabError(f"cannot create a data set in {path}: {error.strerror}") from error
        return cls.open(path)

    def files(self, table: str) -> list[Path]:
        """The valid files of a table. A file of `sums` is valid only with its file of `series`."""
        found = []
        for day in sorted((self.path / "series").glob("day_folder=*")):
            for place in sorted(day.glob("build_folder=*")):
                found += current(place)
        if table == "series":
            return found
        return [self.sums_of(file) for file in found]

    def sums_of(self, file: Path) -> Path:
        """The file of `sums` that belongs to a file of `series`."""
        return self.path / "sums" / file.relative_to(self.path / "series")

    def append(self, rows: pa.Table) -> tuple[int, int]:
        """Adds runs, given as rows of `series`. Returns the number of new and of known runs."""
        new = old = 0
        twice = rows.select(["run_id", "series"]).to_pandas().duplicated()
        for (day, build), part in partitions(rows.filter(pa.array(~twice))):
            added, known = self._append_to(day, build, part)
            new, old = new + added, old + known
        return new, old

    def _append_to(self, day: str, build: str, rows: pa.Table) -> tuple[int, int]:
        place = partition(day, build)
        with self._locked():
            self._sweep(place)
            known = self.known(day, build)
            ids = rows["run_id"].to_pylist()
            fresh = [run_id not in known for run_id in ids]
            rows = rows.filter(pa.array(fresh))
            new, given = len(set(rows["run_id"].to_pylist())), len(set(ids))
            before = current(self.path / "series" / place)
            if new and len(before) + 1 >= MANY and not any(map(newer, before)):
                self._merge(place, before, rows)
            elif new:
                self._commit(place, rows, generation_of(before[0]) if before else 0)
            return new, given - new

    def tidy(self, quiet_s: float = QUIET_S, most: int = MOST_MERGED) -> None:
        """Merges each folder's files if the newest is `quiet_s` seconds old: the latest days first, at most `most` folders."""
        for place in sorted((self.path / "series").glob("day_folder=*/build_folder=*"), reverse=True):
            if not most:
                break
            with self._locked():
                files = current(place)
                added_s = max((file.stat().st_mtime for file in files), default=0.0)
                if len(files) > 1 and time.time() - added_s >= quiet_s and not any(map(newer, files)):
                    self._merge(place.relative_to(self.path / "series"), files)
                    most -= 1

    def _merge(self, place: Path, files: list[Path], *rows: pa.Table) -> None:
        """Writes the rows of all files of a folder to one file, and removes the others."""
        every = pa.concat_tables([*(read_parquet(file) for file in files), *rows])
        self._commit(place, every, generation_of(files[0]) + 1)
        self._sweep(place)

    def _commit(self, place: Path, rows: pa.Table, generation: int) -> None:
        name = f"{generation:04d}-{uuid.uuid4().hex}.parquet"
        rows = rows.sort_by([("device", "ascending"), ("series", "ascending")])
        hidden = {table: self.path / table / place / f".{name}.writing" for table in ("sums", "series")}
        try:
            for table, content in (("sums", sums.of(rows)), ("series", rows)):
                hidden[table].parent.mkdir(parents=True, exist_ok=True)
                write_parquet(hidden[table], content)
            for table in ("sums", "series"):
                hidden[table].rename(self.path / table / place / name)
                sync(self.path / table / place)
        except (Exception, KeyboardInterrupt):
            for file in hidden.values():
                file.unlink(missing_ok=True)
            raise

    def known(self, day: str, build: str) -> set[str]:
        """The runs of a day and a build, and the build's runs without a day, because a run's date can become valid later."""
        ids: set[str] = set()
        for place in {partition(day, build), partition(NO_DAY, build)}:
            for file in current(self.path / "series" / place):
                ids.update(pc.unique(read_parquet(file, ["run_id"])["run_id"]).to_pylist())
        return ids

    def _sweep(self, place: Path) -> None:
        """Removes files that killed writers left, and files that were merged."""
        for table in ("series", "sums"):
            for file in (self.path / table / place).glob(".*.writing"):
                file.unlink()
        valid = {file.name for file in current(self.path / "series" / place)}
        for table in ("series", "sums"):
            for file in (self.path / table / place).glob("*.parquet"):
                if file.name not in valid:
                    file.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.path / ".lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def quarantine(self, source: Path, reason: str) -> Path:
        """Records a run that could not be collected, and why. The run is not moved."""
        place = self.path / "quarantine"
        place.mkdir(exist_ok=True)
        absolute = str(source.absolute())
        note = place / f"{folder(source.name)[:80]}-{hashlib.sha256(os.fsencode(absolute)).hexdigest()[:12]}.json"
        content = {"schema": "roundtrip.lab.quarantine", "version": 1, "source": absolute, "reason": reason}
        write_whole(note, (json.dumps(content) + "\n").encode())
        return note

    def quarantined(self) -> list[dict]:
        """The recorded runs that could not be collected."""
        return [json.loads(note.read_text()) for note in sorted((self.path / "quarantine").glob("[!.]*.json"))]


def readable(path: str | os.PathLike) -> Path:
    """The path of a data set. Raises LabError if engines cannot open it, because it is not UTF-8."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise LabError(f"{path}: the path of a data set has to be UTF-8; choose another name") from error
    return Path(path)


def current(place: Path) -> list[Path]:
    """The valid files of a directory: those of the highest generation. Raises LabError for an unknown file."""
    files = sorted(place.glob("[!.]*.parquet"))
    highest = max((generation_of(file) for file in files), default=0)
    return [file for file in files if generation_of(file) == highest]


def generation_of(file: Path) -> int:
    """A file's generation: how often the directory's rows had been merged before."""
    name = NAME.fullmatch(file.name)
    if not name:
        raise LabError(f"{file} is a foreign Parquet file, which roundtrip-lab did not write; move it away")
    return int(name[1])


def partitions(rows: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    """Splits rows by day and build."""
    for pair in rows.select(["day", "build"]).group_by(["day", "build"]).aggregate([]).to_pylist():
        on_day = pc.is_null(rows["day"]) if pair["day"] is None else pc.equal(rows["day"], pair["day"])
        part = rows.filter(pc.and_(pc.fill_null(on_day, False), pc.equal(rows["build"], pair["build"])))
        yield (day_name(pair["day"]), pair["build"]), part


def day_name(day: datetime.date | None) -> str:
    """The name of a day's directory."""
    return NO_DAY if day is None else day.isoformat()


def partition(day: str, build: str) -> Path:
    """The directory of a day and build, relative to the table's."""
    return Path(f"day_folder={day}") / f"build_folder={folder(build)}"


def folder(name: str) -> str:
    """Encodes any text as a directory name. The exact text is in a column."""
    # A file's name may have bytes that are not UTF-8, which Python shows as unpaired surrogates.
    quoted = urllib.parse.quote(name.encode(errors="surrogateescape"), safe="")
    if not name.strip("."):
        quoted = quoted.replace(".", "%2E")
    if len(quoted) <= 120:
        return quoted or "%00"
    return quoted[:100] + "-" + hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a small file atomically."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(hidden, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        hidden.rename(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def write_new(path: Path, content: bytes) -> None:
    """The same, unless another program has written the file meanwhile."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    write_whole(hidden, content)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(hidden, path)
    finally:
        hidden.unlink()


def write_parquet(path: Path, rows: pa.Table) -> None:
    """Writes a Parquet file that survives a power cut."""
    note = {"roundtrip.lab": str(schema.VERSION)}
    rows = rows.replace_schema_metadata(note)
    try:
        pq.write_table(rows, path, compression="zstd", row_group_size=ROWS_PER_GROUP)
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror or error}") from error


def read_parquet(path: Path, columns: list[str] | None = None, table: str = "series") -> pa.Table:
    """Reads columns of a file. Columns newer than the file are null. Raises LabError for another program's file."""
    check_parquet(path, table)
    wanted = [field for field in TABLES[table] if columns is None or field.name in columns]
    file = pq.ParquetFile(path)
    there = set(file.schema_arrow.names)
    rows = file.read([field.name for field in wanted if field.name in there])
    found = [rows[f.name] if f.name in there else pa.nulls(len(rows), f.type) for f in wanted]
    return pa.table(found, schema=pa.schema(wanted))


def newer(path: Path) -> bool:
    """Whether a file has unknown columns, which a copy would lose."""
    return not set(pq.read_schema(path).names) <= set(schema.SERIES.names)


def check_parquet(path: Path, table: str) -> None:
    """Raises LabError for another program's file. The file may lack newer columns, and may have unknown ones."""
    try:
        found = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0][:160]
        # The system's own errors say nothing of the contents.
        if getattr(error, "errno", None):
            raise LabError(f"{path} cannot be read: {reason}") from error
        raise LabError(f"{path} is not a Parquet file of a data set: {reason}; move it away") from error
    version = (found.metadata or {}).get(b"roundtrip.lab", b"").decode()
    if version != str(schema.VERSION):
        raise LabError(f"{path} is a foreign Parquet file, which roundtrip-lab did not write; move it away")
    if any(differs(found, field) for field in TABLES[table]):
        raise LabError(f"{path} has other columns than version {version} of the schema; move it away")


def differs(found: pa.Schema, field: pa.Field) -> bool:
    """Whether a column of a file differs from the schema, or is missing although it must exist."""
    place = found.get_field_index(field.name)
    return field.name not in schema.ADDED if place < 0 else found.field(place).type != field.type


def sync(path: Path) -> None:
    """Makes renames in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
