"""The answers that pages show. Each is kept until the data set changes. Then pages show the old ones
until the new ones are complete, so a page never waits for a query over months.
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

# How often the data set's folders are looked at.
LOOK_S = 5
WORST = 50


@dataclass(frozen=True)
class Fleet:
    """What is known of all devices together. `None` marks an answer that is still being computed."""

    asked: str
    percentiles: pd.DataFrame
    distribution: pd.DataFrame
    layers: pd.DataFrame
    regressions: pd.DataFrame | None = None
    changes: pd.DataFrame | None = None
    worst: pd.DataFrame | None = None
    outliers: pd.DataFrame | None = None

    @property
    def complete(self) -> bool:
        """Whether every answer is here."""
        return all(answer is not None for answer in (self.regressions, self.changes, self.worst, self.outliers))


class Answers:
    """Asks an engine, which `connect` opens anew when the data set has changed."""

    def __init__(self, connect: Callable[[], Engine]) -> None:
        self.connect = connect
        self.engine = connect()
        # An engine's connection answers one question at a time.
        self.asking = threading.Lock()
        # Guards what follows, and announces each change of `kept` and `refreshing`.
        self.news = threading.Condition()
        self.kept: Fleet | None = None
        self.failure = ""
        self.refreshing = False
        self.seen, self.looked = self.files(), time.monotonic()

    def start(self) -> None:
        """Starts to compute the answers, unless that is under way."""
        with self.news:
            self.begin()

    def begin(self) -> None:
        """The same, for a caller that holds `news`."""
        if not self.refreshing:
            self.refreshing = True
            threading.Thread(target=self.refresh, daemon=True).start()

    def run(self, ask: Callable[[Engine], object]) -> object:
        """Asks something that is not kept."""
        self.look()
        with self.asking:
            return ask(self.engine)

    def fleet(self) -> Fleet:
        """The answers so far. Waits only if there is none yet."""
        self.look()
        with self.news:
            if self.kept is None:
                self.begin()
            self.news.wait_for(lambda: self.kept is not None or not self.refreshing)
            if self.kept is None:
                raise LabError(self.failure)
            return self.kept

    def look(self) -> None:
        """Starts to compute the answers again if the data set has changed."""
        with self.news:
            if self.refreshing or time.monotonic() - self.looked < LOOK_S:
                return
            self.looked = time.monotonic()
            files = self.files()
            if files != self.seen:
                self.seen = files
                self.begin()

    def refresh(self) -> None:
        """Computes the answers. The terminal and the next page show what failed."""
        failure = "the answers could not be computed; the terminal that serves this page says why"
        try:
            # Pages of single devices use the other connection meanwhile.
            engine = self.connect()
            for fleet in in_parts(engine):
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
        """Shows these answers, unless complete ones are shown and some of these are missing."""
        with self.news:
            if fleet.complete or self.kept is None or not self.kept.complete:
                self.kept = fleet
                self.news.notify_all()

    def files(self) -> list[str]:
        """What the data set is made of now."""
        return [str(file) for file in self.engine.data.files("series")]


def in_parts(engine: Engine) -> Iterator[Fleet]:
    """Every question about the whole fleet, the quick ones first: what is known after each step."""
    fleet = Fleet(
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        queries.percentiles(engine),
        queries.distribution(engine),
        queries.layers(engine),
    )
    yield fleet
    rest = {
        "regressions": lambda: queries.regressions(engine),
        "worst": lambda: queries.worst_devices(engine, limit=WORST),
        "outliers": lambda: queries.outliers(engine),
        "changes": lambda: queries.changes(engine),
    }
    for name, ask in rest.items():
        fleet = replace(fleet, **{name: ask()})
        yield fleet
