"""Simulates a fleet: calls are drawn from real histograms, and the regressions and faulty devices are known.

Generates the rows of one night at a time, and appends them as `collect` does. The devices' run directories are
not generated.
"""

import datetime
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from roundtrip_lab import runs, schema
from roundtrip_lab.collecting import directories
from roundtrip_lab.dataset import DataSet, write_whole
from roundtrip_lab.errors import LabError
from roundtrip_lab.histogram import highest_in_bucket
from roundtrip_lab.known import Known
from roundtrip_lab.sums import list_of

FIRST_NIGHT = datetime.date(2026, 1, 5)
BUILD_NIGHTS = 7
# The number of nights within which a build reaches all devices.
ROLLOUT_NIGHTS = 4
# How much devices, runs and nights differ: standard deviations of the logarithm of a duration.
OF_DEVICES, OF_RUNS, OF_NIGHTS = 0.08, 0.03, 0.004
SICK, SKEWED, WITHOUT_CLOCK, ABSENT, TWICE, LATE = 0.003, 0.005, 0.001, 0.03, 0.01, 0.02
# The share of slower builds, by kind.
SLOWER, LONGER_TAIL = 0.25, 0.25
MODELS = ("alpha", "beta", "gamma")
SITES = ("north", "south", "east", "west")
SERIES = 2


@dataclass(frozen=True)
class Plan:
    """The size of the fleet, and the number of nights."""

    devices: int
    nights: int
    calls: int
    seed: int
    healthy: bool


@dataclass
class Seed:
    """A series of a real run, from which calls are drawn."""

    row: dict
    values_ns: np.ndarray
    reached: np.ndarray
    deadline_ns: int
    causes: list[tuple[str, str, str]]
    # How the time of writes is divided among the layers; None for calls.
    layers: np.ndarray | None


@dataclass
class Fleet:
    """The state of the whole simulation."""

    plan: Plan
    random: np.random.Generator
    seeds: list[Seed]
    planted: list[dict] = field(default_factory=list)
    sick: list[str] = field(default_factory=list)


def simulate(given: Iterable[Path], path: str, plan: Plan) -> str:
    """Generates the data set. Returns a summary."""
    seeds = read_seeds(given)
    if (Path(path) / "dataset.json").exists():
        raise LabError(f"{path} is already a data set; choose a new folder for a simulated fleet")
    data = DataSet.create(path)
    fleet = Fleet(plan, np.random.default_rng(plan.seed), seeds)
    new = known = 0
    for table in nights(fleet):
        added, twice = data.append(table)
        new, known = new + added, known + twice
    # No more runs will be added.
    data.tidy(quiet_s=0, most=sys.maxsize)
    truth = {"plan": asdict(plan), "regressions": fleet.planted, "sick": fleet.sick}
    write_whole(data.path / "planted.json", (json.dumps(truth) + "\n").encode())
    return f"{new} runs of {plan.devices} devices in {path}, {known} duplicates recognised; planted: {len(fleet.planted)}"


def read_seeds(given: Iterable[Path]) -> list[Seed]:
    """The largest series of these runs: two of calls, or one of calls and one of writes."""
    rows = []
    for directory in directories(given):
        try:
            rows += runs.rows(runs.read(directory), Known(), datetime.date.max - datetime.timedelta(days=2))
        except runs.Damaged as reason:
            raise LabError(f"{directory} is damaged: {reason}") from reason
    calls = [row for row in rows if row["test"] == "latency" and row["time"] == "call" and row["calls"] >= 100]
    # Callers with an ordinary policy come first, because they are typical of a fleet.
    calls = sorted(calls, key=lambda row: (row["caller"] != "other", -row["calls"]))
    writes = [row for row in rows if row["test"] == "observed_writes" and (row["divided_calls"] or 0) >= 30]
    writes = sorted(writes, key=lambda row: -row["divided_calls"])[:1]
    if not calls:
        raise LabError("none of these runs has 100 calls of `roundtrip ipc latency`; add one that has")
    return [seed(row) for row in calls[: SERIES - len(writes)] + writes]


def seed(row: dict) -> Seed:
    """The histogram to draw from, and a deadline that one call in 300 misses."""
    values = np.array([bucket["le_ns"] for bucket in row["buckets"]], dtype=np.float64)
    reached = np.cumsum([bucket["count"] for bucket in row["buckets"]]) / row["calls"]
    deadline = int(values[np.searchsorted(reached, 1 - 1 / 300)] * 1.2)
    causes = [("competitor", "server", "kswapd0"), ("competitor", "server", "kworker/u8:2"), ("interrupt", "client",
              "timer interrupt"), ("io", "server", "fsync"), ("work", "server", "looper-1")]  # fmt: skip
    parts = np.array([row[f"{layer}_ns"] or 0 for layer in schema.LAYERS]) if row["divided_calls"] else None
    return Seed(row, values, reached, deadline, causes if parts is None else [], parts)


def nights(fleet: Fleet) -> Iterable[pa.Table]:
    """The rows that arrive each night."""
    plan, random = fleet.plan, fleet.random
    world = World(fleet)
    waiting: list[tuple[int, pa.Table]] = []
    for night in range(plan.nights + 6):
        arrived = [table for when, table in waiting if when == night]
        waiting = [pair for pair in waiting if pair[0] != night]
        if night < plan.nights:
            made = world.night(night)
            runs_made = made["run_id"].to_numpy(False)
            names = np.unique(runs_made)
            fate = dict(zip(names, random.random(len(names)), strict=True))
            chance = np.array([fate[name] for name in runs_made])
            late, twice = chance < LATE, chance > 1 - TWICE
            waiting.append((night + 1 + int(random.integers(5)), made.filter(pa.array(late))))
            waiting.append((night + 1, made.filter(pa.array(twice))))
            arrived.append(made.filter(pa.array(~late)))
        if arrived and sum(len(table) for table in arrived):
            yield pa.concat_tables(arrived)


class World:
    """The devices and builds, with their simulated faults."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, plan, random = fleet, fleet.plan, fleet.random
        count, self.random = plan.devices, random
        self.names = np.array([f"device-{number:06d}" for number in range(count)])
        self.model = random.integers(len(MODELS), size=count)
        self.site = random.integers(len(SITES), size=count)
        self.factor = random.normal(0, OF_DEVICES, count) + self.model * 0.2
        self.rollout = random.integers(ROLLOUT_NIGHTS, size=count)
        self.offset_s = np.where(random.random(count) < SKEWED, random.integers(-14 * 3600, 14 * 3600, count), 0)
        self.no_clock = random.random(count) < WITHOUT_CLOCK
        self.sick = random.random(count) < SICK
        self.sick[random.integers(count)] = True
        self.sick &= not plan.healthy
        fleet.sick = self.names[self.sick].tolist()
        self.builds = [f"build-{number:03d}" for number in range((plan.nights - 1) // BUILD_NIGHTS + 1)]
        self.shift, self.tail, self.stretch = self.plant()
        self.layers = [None if seed.layers is None else self.plant_layers(number) for number, seed in enumerate(fleet.seeds)]

    def plant(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The slowdown of each series by build: of all calls, the share of longer calls, and their factor."""
        size = (len(self.builds), len(self.fleet.seeds))
        shift, tail, stretch = np.zeros(size), np.zeros(size), np.ones(size)
        for build in range(1, size[0]):
            shift[build], tail[build], stretch[build] = shift[build - 1], 0, 1
            for series in range(size[1]):
                kind = self.random.random()
                # A longer tail lasts for one build. The next build is normal again, and gets no regression.
                if self.fleet.plan.healthy or kind >= SLOWER + LONGER_TAIL or tail[build - 1, series]:
                    continue
                note = {"build": self.builds[build], "series": self.series_name(series)}
                if kind < SLOWER:
                    ratio = self.random.uniform(1.06, 1.3)
                    shift[build, series] += np.log(ratio)
                    note |= {"kind": "slower", "ratio": ratio, "figures": ["p50", "p99"]}
                else:
                    tail[build, series] = self.random.uniform(0.015, 0.03)
                    stretch[build, series] = self.random.uniform(2.5, 5)
                    note |= {"kind": "longer tail", "share": tail[build, series], "ratio": stretch[build, series],
                             "figures": ["p99"]}  # fmt: skip
                    if self.fleet.seeds[series].causes:
                        note["who"] = f"vendor.{self.builds[build]}"
                self.fleet.planted.append(note)
        return shift, tail, stretch

    def plant_layers(self, series: int) -> np.ndarray:
        """Each build's shares of the layers. If a build is slower, one layer grows, and the note names that layer."""
        parts = self.fleet.seeds[series].layers.astype(np.float64)
        slower = {note["build"]: note for note in self.fleet.planted if note["series"] == self.series_name(series)}
        found = []
        for build in self.builds:
            note = slower.get(build, {})
            if note.get("kind") == "slower":
                layer = int(self.random.integers(len(parts)))
                parts[layer] += (note["ratio"] - 1) * parts.sum()
                note["layer"] = schema.LAYERS[layer]
            found.append(parts / parts.sum())
        return np.array(found)

    def series_name(self, series: int) -> str:
        """The name of the seed's series, marked as simulated."""
        seed = self.fleet.seeds[series]
        words = seed.row["series"].split()
        words[1 : 2 if seed.row.get("driver") else 1] = ["simulated"]
        return " ".join([*words[:-1], f"{seed.deadline_ns}ns"])

    def night(self, night: int) -> pa.Table:
        """One run of each device that took part."""
        here = np.flatnonzero(self.random.random(len(self.names)) >= ABSENT)
        age = night - self.rollout[here]
        build = np.clip(age // BUILD_NIGHTS, 0, len(self.builds) - 1)
        tables = [self.of_series(number, night, here, build) for number in range(len(self.fleet.seeds))]
        return pa.concat_tables(tables)

    def of_series(self, number: int, night: int, here: np.ndarray, build: np.ndarray) -> pa.Table:
        """One series of each run of a night."""
        seed, random, plan = self.fleet.seeds[number], self.random, self.fleet.plan
        size = (len(here), plan.calls)
        drawn = np.minimum(np.searchsorted(seed.reached, random.random(size)), len(seed.values_ns) - 1)
        level = self.factor[here] + self.shift[build, number] + random.normal(0, OF_NIGHTS)
        level = level + random.normal(0, OF_RUNS, len(here)) + 0.5 * self.sick[here]
        longer = random.random(size) < self.tail[build, number][:, None]
        stretch = np.where(longer, self.stretch[build, number][:, None], 1.0)
        calls = (seed.values_ns[drawn] * np.exp(level)[:, None] * stretch).astype(np.int64)
        order = np.argsort(calls, axis=1)
        calls, longer = np.take_along_axis(calls, order, 1), np.take_along_axis(longer, order, 1)
        counted = {"buckets": histograms(calls)} | figures(calls, seed.deadline_ns)
        counted["causes"] = self.causes(seed, calls, longer, build)
        if seed.layers is not None:
            counted |= self.divided(counted, self.layers[number][build])
        return self.table(seed, number, night, here, build, counted)

    def divided(self, counted: dict, shares: np.ndarray) -> dict[str, np.ndarray]:
        """Each run's time by layer, which varies between runs and adds up to the total."""
        parts = shares * np.exp(self.random.normal(0, OF_RUNS, shares.shape))
        sums = (parts / parts.sum(axis=1, keepdims=True) * counted["sum_ns"][:, None]).astype(np.int64)
        sums[:, -1] += counted["sum_ns"] - sums.sum(axis=1)
        none = np.zeros(len(sums), dtype=np.int64)
        return {
            "divided_calls": counted["calls"], "divided_ns": counted["sum_ns"], "slow_calls": none, "explained": none,
        } | {f"{layer}_ns": sums[:, place] for place, layer in enumerate(schema.LAYERS)}  # fmt: skip

    def causes(self, seed: Seed, calls: np.ndarray, longer: np.ndarray, build: np.ndarray) -> pa.Array:
        """A cause for each call that missed its deadline."""
        row, place = np.nonzero(calls > seed.deadline_ns) if seed.causes else (np.empty(0, dtype=np.int64),) * 2
        usual = seed.values_ns[np.searchsorted(seed.reached, 0.5)]
        drawn = self.random.integers(max(1, len(seed.causes)), size=len(row))
        who = np.array([cause[2] for cause in seed.causes], dtype=object)[drawn]
        kind = np.array([cause[0] for cause in seed.causes], dtype=object)[drawn]
        owner = np.array([cause[1] for cause in seed.causes], dtype=object)[drawn]
        planted = longer[row, place]
        vendor = np.array([f"vendor.{name}" for name in self.builds], dtype=object)[build[row]]
        who, kind, owner = np.where(planted, vendor, who), np.where(planted, "competitor", kind), np.where(
            planted, "server", owner)  # fmt: skip
        offsets = np.searchsorted(row, np.arange(len(calls) + 1))
        latency = calls[row, place]
        number = np.arange(len(row)) - offsets[row] + 1
        fields = {"call": number, "latency_ns": latency, "kind": kind, "owner": owner, "who": who,
                  "excess_ns": np.maximum(0, latency - usual).astype(np.int64)}  # fmt: skip
        return list_of(offsets, schema.SERIES.field("causes").type, fields)

    def table(self, seed: Seed, number: int, night: int, here: np.ndarray, build: np.ndarray, counted: dict) -> pa.Table:
        """The rows of one series, with the columns that describe each run."""
        plan, count = self.fleet.plan, len(here)
        tonight = FIRST_NIGHT + datetime.timedelta(days=night)
        clock = datetime.datetime.combine(tonight, datetime.time(12), datetime.UTC)
        shown = [clock + datetime.timedelta(seconds=int(offset)) for offset in self.offset_s[here]]
        lost = self.no_clock[here]
        dates = ["1970-01-01T00:00:10Z" if no else when.strftime("%Y-%m-%dT%H:%M:%SZ") for no, when in zip(lost, shown)]
        models, sites = self.model[here], self.site[here]
        columns = {
            "run_id": [f"{plan.seed & 0xFFFFFFFF:08x}{night:08x}{device:016x}" for device in here],
            "source": ["simulated"] * count,
            "date": dates,
            "device": self.names[here],
            "roundtrip_version": [seed.row["roundtrip_version"]] * count,
            "partial": np.zeros(count, dtype=bool),
            "warnings": np.zeros(count, dtype=np.int64),
            "day": [runs.day(date, tonight) for date in dates],
            "build": np.array(self.builds)[build],
            "kernel": np.array(["6.1.0", "6.6.0", "6.12.0"])[models],
            "machine": ["aarch64"] * count,
            "model": np.array(MODELS)[models],
            "driver": ["simulated"] * count,
            "labels": [[("site", SITES[site])] for site in sites],
            "series": [self.series_name(number)] * count,
            "deadline_ns": np.full(count, seed.deadline_ns),
            "lost": np.zeros(count, dtype=np.int64),
            "clamped": np.zeros(count, dtype=np.int64),
        } | counted
        given = [name for name, _ in schema.KEY if name not in columns]
        columns |= {name: pa.nulls(count, schema.SERIES.field(name).type) for name in schema.ADDED - set(columns)}
        columns |= {name: [seed.row.get(name)] * count for name in given}
        return pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema.SERIES}, schema=schema.SERIES)


def histograms(calls: np.ndarray) -> pa.Array:
    """The histogram of each row of ascending calls."""
    highest = highest_in_bucket(calls)
    first = np.ones(highest.shape, dtype=bool)
    first[:, 1:] = highest[:, 1:] != highest[:, :-1]
    places = np.flatnonzero(first)
    counts = np.diff(np.append(places, highest.size))
    offsets = np.concatenate([[0], np.cumsum(first.sum(axis=1))])
    return list_of(offsets, schema.BUCKETS, {"le_ns": highest.ravel()[places], "count": counts})


def figures(calls: np.ndarray, deadline_ns: int) -> dict[str, np.ndarray]:
    """The figures of a run besides the histogram."""
    count = calls.shape[1]
    missed = (calls > deadline_ns).sum(axis=1)
    percentile = {
        f"p{percent}_ns": np.minimum(highest_in_bucket(calls[:, int(np.ceil(percent / 100 * count)) - 1]), calls[:, -1])
        for percent in (50, 90, 99)
    }
    return percentile | {
        "calls": np.full(len(calls), count), "min_ns": calls[:, 0], "max_ns": calls[:, -1],
        "sum_ns": calls.sum(axis=1), "missed": missed, "slow_calls": missed, "explained": missed,
    }  # fmt: skip
