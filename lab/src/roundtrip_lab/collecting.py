"""Adds run directories to the data set, and counts what happened to each run."""

import datetime
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from roundtrip_lab import explanations, layers, runs, schema
from roundtrip_lab.dataset import DataSet, day_name
from roundtrip_lab.errors import LabError
from roundtrip_lab.known import known
from roundtrip_lab.words import inert


@dataclass
class Collected:
    """How many runs were added, skipped or rejected."""

    new: int = 0
    known: int = 0
    empty: int = 0
    undated: int = 0
    unexplained: int = 0
    undivided: int = 0
    damaged: list[tuple[Path, str]] = field(default_factory=list)

    def words(self, path: str) -> Iterator[str]:
        """The summary, then one line for each problem."""
        yield f"{self.new} runs added to {inert(path)}, {self.known} were already in it"
        for source, reason in self.damaged:
            yield f"quarantined: {inert(str(source))}: {inert(reason)}"
        if self.empty:
            yield f"{self.empty} runs hold no durations: a signal ended them, or nothing could be measured"
        if self.undated:
            yield f"{self.undated} runs have no plausible date: they count for their build, and for no day"
        if self.unexplained:
            yield f"{self.unexplained} runs hold slow calls or writes that nothing explained: name the binary with --roundtrip"
        if self.undivided:
            yield (f"{self.undivided} runs hold recorded writes that nothing divided among the layers: name the binary with "
                   "--roundtrip; it says what is wrong with a recording")  # fmt: skip


def collect(given: Iterable[Path], path: str, program: str | None, batch_rows: int) -> Collected:
    """Adds runs to the data set at `path`, in batches."""
    given = list(given)
    for source in given:
        if not source.exists():
            raise LabError(f"no such run: {source}")
    collector = Collector(DataSet.create(path), program)
    for directory in directories(given):
        collector.add(directory)
        if sum(map(len, collector.rows)) >= batch_rows:
            collector.store()
    collector.store()
    if collector.result.new:
        collector.data.tidy()
    return collector.result


def directories(given: Iterable[Path]) -> Iterator[Path]:
    """The given run directories, and those below given directories. Does not follow symbolic links."""
    for source in given:
        if not source.is_dir() or os.path.lexists(source / "run.json"):
            yield source
            continue
        count = 0
        unreadable: list[Path] = []
        for place, folders, files in os.walk(source, onerror=lambda error: unreadable.append(Path(error.filename))):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if "run.json" in files or os.path.islink(os.path.join(place, "run.json")):
                folders.clear()
                count += 1
                yield Path(place)
        # They become a line of the result.
        yield from unreadable
        if not count and not unreadable:
            yield source


class Collector:
    """Reads runs, and stores the rows of complete runs in batches."""

    def __init__(self, data: DataSet, program: str | None) -> None:
        self.data, self.program = data, program
        self.result = Collected()
        self.rows: list[pa.Table] = []
        self.today = datetime.datetime.now(datetime.UTC).date()
        self.known: dict[tuple[str, str], set[str]] = {}

    def add(self, directory: Path) -> None:
        """Reads one run. Records an invalid run in quarantine, so that it costs no other run."""
        try:
            rows = self.read(directory)
            if rows:
                self.rows.append(pa.Table.from_pylist(rows, schema.SERIES))
        except LabError:
            raise
        except runs.Damaged as reason:
            self.refuse(directory, str(reason))
        except Exception as error:
            self.refuse(directory, f"it cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:200]}")

    def refuse(self, directory: Path, reason: str) -> None:
        """Records a run that cannot be collected."""
        self.data.quarantine(directory, reason)
        self.result.damaged.append((directory, reason))

    def read(self, directory: Path) -> list[dict]:
        """The rows of one run; none if the data set already contains it."""
        if not os.path.isdir(directory):
            raise runs.Damaged("not a directory")
        run = runs.read(directory)
        if self.is_known(run):
            self.result.known += 1
            return []
        slow, explained = explanations.kept(run.document), None
        writes, divided = layers.recorded(run.document), {}
        if self.program and explanations.can_explain(run.document):
            explained = explanations.ask(self.program, run)
        if writes and self.program:
            divided = explanations.divide(self.program, run)
        rows = runs.rows(run, known(explained, divided), self.today)
        self.result.unexplained += bool(slow and explained is None)
        self.result.undivided += bool(writes and not divided)
        self.result.empty += not rows
        self.result.undated += bool(rows and rows[0]["day"] is None)
        return rows

    def is_known(self, run: runs.Run) -> bool:
        """Whether the run was collected before. Checked early, because explaining a run is slow."""
        day, build = runs.place(run.document, self.today)
        place = day_name(day), build
        if place not in self.known:
            self.known[place] = self.data.known(*place)
        before = run.run_id in self.known[place]
        self.known[place].add(run.run_id)
        return before

    def store(self) -> None:
        """Writes the buffered rows."""
        if self.rows:
            # Another collector may have added a run meanwhile. `append` checks under the lock.
            new, known = self.data.append(pa.concat_tables(self.rows))
            self.result.new += new
            self.result.known += known
            self.rows = []
