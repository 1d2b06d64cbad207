"""The answers that pages show. They hold until the data set changes; then the old ones are shown for as long as
it takes to ask again, so that nobody waits for a query over months.
"""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from roundtrip_lab import queries
from roundtrip_lab.engines import Engine
from roundtrip_lab.errors import LabError
from roundtrip_lab.words import inert

# How often the data set's folders are looked at.
LOOK_S = 5
WORST = 50


@dataclass
class Fleet:
    """What is known of all devices together."""

    asked: str
    percentiles: pd.DataFrame
    distribution: pd.DataFrame
    layers: pd.DataFrame
    regressions: pd.DataFrame
    changes: pd.DataFrame
    worst: pd.DataFrame
    outliers: pd.DataFrame


class Answers:
    """Asks an engine, which `connect` opens anew when the data set has changed."""

    def __init__(self, connect: Callable[[], Engine]) -> None:
        self.connect = connect
        self.engine = connect()
        # An engine's connection answers one question at a time.
        self.asking = threading.Lock()
        self.noting = threading.Lock()
        self.kept: Fleet | None = None
        self.refreshing = False
        self.seen, self.looked = self.files(), time.monotonic()

    def start(self) -> None:
        """Asks about the fleet before anybody wants to know."""
        self.refreshing = True
        threading.Thread(target=self.refresh, daemon=True).start()

    def run(self, ask: Callable[[Engine], object]) -> object:
        """Asks something that is not kept."""
        self.look()
        with self.asking:
            return ask(self.engine)

    def fleet(self) -> Fleet:
        """What is kept; the first time, and after a failure, what is asked now."""
        self.look()
        kept = self.kept
        if kept is None:
            with self.asking:
                kept = self.kept = self.kept or ask_all(self.engine)
        return kept

    def look(self) -> None:
        """Begins to ask again if the data set has changed."""
        with self.noting:
            if self.refreshing or time.monotonic() - self.looked < LOOK_S:
                return
            self.looked = time.monotonic()
            files = self.files()
            if files == self.seen:
                return
            self.seen, self.refreshing = files, True
        threading.Thread(target=self.refresh, daemon=True).start()

    def refresh(self) -> None:
        """Asks again. What fails is told where the program was started, and on the next page."""
        try:
            engine = self.connect()
            # Not the engine that answers meanwhile.
            kept = ask_all(engine)
            with self.asking:
                self.engine, self.kept = engine, kept
        except LabError as error:
            self.kept = None
            print(f"roundtrip-lab: {inert(str(error))}", file=sys.stderr)
        finally:
            self.refreshing = False

    def files(self) -> list[str]:
        """What the data set is made of now."""
        return [str(file) for file in self.engine.data.files("series")]


def ask_all(engine: Engine) -> Fleet:
    """Every question about the whole fleet."""
    return Fleet(
        time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        queries.percentiles(engine),
        queries.distribution(engine),
        queries.layers(engine),
        queries.regressions(engine),
        queries.changes(engine),
        queries.worst_devices(engine, limit=WORST),
        queries.outliers(engine),
    )
