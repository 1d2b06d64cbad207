"""Small fleets with the troubles of real labs, as rows of figures in memory.

Nights differ, weekends are slower or faster, clocks are wrong, two branches take turns, devices are of two kinds, and
builds are named by hashes. At most one build is slower, everywhere or in a part of the fleet.
"""

import datetime
import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from roundtrip_lab import engines, schema

MONDAY = datetime.date(2026, 1, 5)
# Standard deviations of logarithms: devices, runs, nights, and the tails of runs.
OF_DEVICES, OF_RUNS, OF_NIGHTS, OF_TAILS = 0.08, 0.03, 0.004, 0.05
CALLS, DEADLINE_NS = 200, 90_000
KERNELS = ("6.1.0", "6.6.0", "6.12.0")


@dataclass(frozen=True)
class Fleet:
    """What a fleet is like. A build arrives on `rollout` nights. `step` is the ratio of the build of night `at`."""

    devices: int = 30
    nights: int = 38
    build_nights: int = 7
    rollout: int = 3
    weekend: float = 0.0
    random_weekends: bool = False
    wrong_clocks: int = 0
    branches: int = 1
    kinds: float = 0.0
    step: float = 1.0
    at: int = 28
    # Which devices the step is confined to: all, those of one kernel, or the tenth with a label.
    part: str = "all"


def build(branch: int, number: int) -> str:
    """The name of a build: a hash, whose order says nothing."""
    return hashlib.sha256(f"{branch} {number}".encode()).hexdigest()[:10]


def rows(of: Fleet, seed: int) -> tuple[pa.Table, np.ndarray]:
    """The runs of a fleet, and the true night of each."""
    random = np.random.default_rng(seed)
    count = of.devices
    factor = random.normal(0, OF_DEVICES, count) + of.kinds * (random.random(count) < 0.3)
    kernel, rare = np.arange(count) % len(KERNELS), np.arange(count) % 10 == 4
    inside = {"all": np.ones(count, bool), "kernel": kernel == 1, "label": rare}[of.part]
    offset = np.zeros(count, int)
    offset[random.permutation(count)[: of.wrong_clocks]] = random.integers(-60, 3, of.wrong_clocks)
    rollout = random.integers(of.rollout, size=count)
    night, device = (grid.ravel() for grid in np.meshgrid(np.arange(of.nights), np.arange(count), indexing="ij"))
    here = random.random(len(night)) >= 0.03
    night, device = night[here], device[here]
    signs = random.choice([-1, 1], of.nights // 7 + 1) if of.random_weekends else np.ones(of.nights // 7 + 1)
    whole = random.normal(0, OF_NIGHTS, of.nights)
    whole += of.weekend * signs[np.arange(of.nights) // 7] * (np.arange(of.nights) % 7 >= 5)
    branch = night % of.branches
    number = np.maximum(0, (night - rollout[device]) // of.build_nights)
    # Branches differ, as main and stable do.
    level = factor[device] + whole[night] + 0.15 * branch + random.normal(0, OF_RUNS, len(night))
    slower = (number >= of.at // of.build_nights) & (branch == 0) & inside[device]
    level += np.log(of.step) * slower
    p50 = (50_000 * np.exp(level)).astype(np.int64)
    p99 = (p50 * 1.6 * np.exp(random.normal(0, OF_TAILS, len(night)))).astype(np.int64)
    days = [MONDAY + datetime.timedelta(days=int(day)) for day in night + offset[device]]
    columns = {
        "series": ["latency simulated"] * len(night),
        "build": [build(on, at) for on, at in zip(branch, number, strict=True)],
        "device": [f"device-{at:03}" for at in device],
        "day": pa.array(days, pa.date32()),
        "model": ["alpha"] * len(night),
        "kernel": [KERNELS[at] for at in kernel[device]],
        "machine": ["aarch64"] * len(night),
        "labels": pa.array(
            [[("branch", ("main", "stable")[on]), ("rack", "z" if odd else "a")]
             for on, odd in zip(branch, rare[device], strict=True)], schema.LABELS),
        "time": ["call"] * len(night),
        "calls": np.full(len(night), CALLS),
        "missed": random.binomial(CALLS, 0.004, len(night)),
        "deadline_ns": np.full(len(night), DEADLINE_NS),
        "p50_ns": p50,
        "p99_ns": p99,
    }  # fmt: skip
    return pa.table(columns), night


def engine(table: pa.Table) -> engines.Engine:
    """An engine that holds these rows."""
    return engines.Fetched(table, None)
