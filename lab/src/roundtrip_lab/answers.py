"""Keeps the query results that pages show. After the data set changes, pages show the old results until the new
ones are complete, so a page never waits for a query over months.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from roundtrip_lab import queries
from roundtrip_lab.engines import Engine
from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

# How often to check whether the data set has changed, in seconds.
LOOK_S = 5
WORST = 50


@dataclass(frozen=True)
class Fleet:
    """The results for the whole fleet. `None` means that a result is still being computed."""

    asked: str
    builds: pd.DataFrame
    percentiles: pd.DataFrame
    distribution: pd.DataFrame
    layers: pd.DataFrame
    regressions: pd.DataFrame | None = None
    changes: pd.DataFrame | None = None
    worst: pd.DataFrame | None = None
    outliers: pd.DataFrame | None = None

    @property
    def complete(self) -> bool:
        """Whether all results have been computed."""
        return all(answer is not None for answer in (self.regressions, self.changes, self.worst, self.outliers))


class Answers:
    """Queries an engine. When the data set has changed, `connect` opens a new one."""

    def __init__(self, connect: Callable[[], Engine], order: queries.Order = queries.Order()) -> None:
        self.connect, self.order = connect, order
        self.engine = connect()
        # An engine's connection runs one query at a time.
        self.asking = threading.Lock()
        # Guards the following attributes. Notifies of each change of `kept` and `refreshing`.
        self.news = threading.Condition()
        self.kept: Fleet | None = None
        self.failure = ""
        self.refreshing = False
        self.seen, self.looked = self.files(), time.monotonic()

    def start(self) -> None:
        """Starts to compute the results, unless they are already being computed."""
        with self.news:
            self.begin()

    def begin(self) -> None:
        """The same; the caller must hold `news`."""
        if not self.refreshing:
            self.refreshing = True
            threading.Thread(target=self.refresh, daemon=True).start()

    def run(self, ask: Callable[[Engine], object]) -> object:
        """Runs a query whose result is not kept."""
        self.look()
        with self.asking:
            return ask(self.engine)

    def fleet(self) -> Fleet:
        """The results so far. Waits only if there are none yet."""
        self.look()
        with self.news:
            if self.kept is None:
                self.begin()
            self.news.wait_for(lambda: self.kept is not None or not self.refreshing)
            if self.kept is None:
                raise LabError(self.failure)
            return self.kept

    def look(self) -> None:
        """Starts to compute the results again if the data set has changed."""
        with self.news:
            if self.refreshing or time.monotonic() - self.looked < LOOK_S:
                return
            self.looked = time.monotonic()
            files = self.files()
            if files != self.seen:
                self.seen = files
                self.begin()

    def refresh(self) -> None:
        """Computes the results. The terminal and the next page show a failure."""
        failure = "the results could not be computed; see the terminal that serves this page"
        try:
            # Meanwhile pages of single devices use the previous connection.
            engine = self.connect()
            for fleet in in_parts(engine, self.order):
                self.publish(fleet)
            with self.asking:
                self.engine = engine
            failure = ""
        except LabError as error:
            failure = str(error)
            print(f"roundtrip-lab: {inert(failure)}", file=sys.stderr)
        finally:
            with self.news:
                self.kept, self.failure = None if failure else self.kept, failure
                self.refreshing = False
                self.news.notify_all()

    def publish(self, fleet: Fleet) -> None:
        """Shows these results, unless they are incomplete and complete ones are shown already."""
        with self.news:
            if fleet.complete or self.kept is None or not self.kept.complete:
                self.kept = fleet
                self.news.notify_all()

    def files(self) -> list[str]:
        """The files that the data set currently consists of."""
        return [str(file) for file in self.engine.data.files("series")]


def in_parts(engine: Engine, order: queries.Order = queries.Order()) -> Iterator[Fleet]:
    """Runs all queries about the whole fleet, the fast ones first. Yields the results after each step."""
    fleet = Fleet(
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        queries.builds(engine, order),
        queries.percentiles(engine),
        queries.distribution(engine),
        queries.layers(engine),
    )
    yield fleet
    rest = {
        "regressions": lambda: queries.regressions(engine, order=order),
        "worst": lambda: queries.worst_devices(engine, limit=WORST),
        "outliers": lambda: queries.outliers(engine),
        "changes": lambda: queries.changes(engine, order=order),
    }
    for name, ask in rest.items():
        fleet = replace(fleet, **{name: ask()})
        yield fleet
