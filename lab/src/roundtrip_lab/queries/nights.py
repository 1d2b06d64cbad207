"""Whole nights: how much slower all devices of a fleet are on one night than on others, whatever the build.

Each device is compared with its own mean, so that a night on which other devices took part is no slower night. What
recurs on the same days of the week is a pattern, which is subtracted. What remains is chance: the nights of a build
are a sample, so this is a part of the error of each comparison between builds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd

from roundtrip_lab.engines import Engine

WEEK = 7
# A day of the week has a pattern if it was seen in so many weeks and differs by so many standard errors.
LEAST_WEEKS, LEAST_ERRORS = 3, 4.0
# Fewer nights do not show how much nights differ.
LEAST_NIGHTS = 6
# A night with a smaller part of the usual number of devices is left out: wrong clocks make such nights.
LEAST_PART = 0.5
NORMAL_MEDIAN = 0.6744897501960817
# The standard error of a median, in standard errors of a mean.
OF_MEDIAN = 1.2533141373155001


def figures_of(rows: ir.Table) -> dict[str, ir.Value]:
    """What is compared of each run: logarithms, and the share of missed deadlines."""
    return {
        "p50": rows.p50_ns.cast("float64").ln(),
        "p99": rows.p99_ns.cast("float64").ln(),
        "missed": rows.missed / rows.calls,
    }


def nightly(
    engine: Engine, rows: ir.Table, groups: list[str], names: tuple[str, ...], of: Callable = figures_of
) -> ir.Table:
    """For each series, group, build and night: the devices, and the mean and variance of their distances from their own means.

    `of` makes the figures of each run.
    """
    figures = of(rows)
    mine = engine.key(rows, ["series", *groups, "device"])
    kept = {name: rows[name] for name in ("series", *groups, "build", "day")}
    rows = rows.select(**kept | {name: figures[name] for name in names} | mine)
    own = rows.group_by(list(mine)).agg(**{f"{name}_own": rows[name].mean() for name in names})
    rows = rows.join(own, list(mine))
    far = {name: rows[name] - rows[f"{name}_own"] for name in names}
    return rows.group_by(["series", *groups, "build", "day"]).agg(
        devices=rows.count(),
        **{name: value.mean() for name, value in far.items()},
        **{f"{name}_square": (value * value).mean() for name, value in far.items()},
    )


def of_all_builds(found: pd.DataFrame, groups: list[str], names: tuple[str, ...]) -> pd.DataFrame:
    """The nights of all builds together. Nights with too few devices are left out."""
    keys = ["series", *groups, "day"]
    found = found.copy()
    columns = [*names, *(f"{name}_square" for name in names)]
    found[columns] = found[columns].mul(found["devices"], axis=0)
    nights = found.groupby(keys, as_index=False)[["devices", *columns]].sum(min_count=1)
    nights[columns] = nights[columns].div(nights["devices"], axis=0)
    usual = nights.groupby(["series", *groups])["devices"].transform(of_most)
    return nights[nights["devices"] >= LEAST_PART * usual].sort_values(keys, ignore_index=True)


def of_most(devices: pd.Series) -> int:
    """The devices of the night on which the median run was made. Many nights of few runs do not move it."""
    devices = devices.sort_values()
    return devices[devices.cumsum() >= devices.sum() / 2].iloc[0]


@dataclass
class Noise:
    """How nights differ: by day of the week, and by chance. `variance` is without that of the devices' own runs."""

    pattern: np.ndarray
    variance: float
    freedom: float
    nights: int


def noise_of(nights: pd.DataFrame, groups: list[str], name: str) -> Noise:
    """How the nights of one series differ. `nights` has those of all its groups, from `of_all_builds`."""
    nights = nights[nights[name].notna()]
    parts = [of for _, of in nights.groupby(groups)] if groups else [nights]
    pattern = pattern_of(parts, name)
    left = [of[name].to_numpy() - pattern[weekdays(of["day"])] for of in parts]
    away = np.concatenate([values - smooth(values) for values in left]) if left else np.empty(0)
    longest = max(map(len, left), default=0)
    if longest < LEAST_NIGHTS:
        return Noise(pattern, np.nan, 0, longest)
    own = ((nights[f"{name}_square"] - nights[name] ** 2) / nights["devices"]).mean()
    # A night is a part of what it is compared with.
    variance = float((away**2).mean()) * WEEK / (WEEK - 1)
    return Noise(pattern, max(0.0, variance - float(own)), max(1.0, len(away) / 2), longest)


class Nights:
    """When the builds of a series ran, and how its nights differ."""

    def __init__(self, ran: pd.DataFrame, noise: dict[str, Noise]) -> None:
        self.noise = noise
        table = ran.pivot_table(index="build", columns="day", values="devices", aggfunc="sum", fill_value=0)
        self.place = {build: row for row, build in enumerate(table.index)}
        ran_by = table.to_numpy(dtype=np.float64)
        self.shares = ran_by / ran_by.sum(axis=1, keepdims=True)
        self.days = weekdays(table.columns)

    def between(self, base: str, new: str, name: str) -> tuple[float, float, float]:
        """What the nights of two builds contribute to their difference: its size, its variance, and degrees of freedom."""
        weight = self.shares[self.place[new]] - self.shares[self.place[base]]
        noise = self.noise[name]
        return float(weight @ noise.pattern[self.days]), noise.variance * float(weight @ weight), noise.freedom


def nights_of(
    engine: Engine, rows: ir.Table, branches: pd.DataFrame, names: tuple[str, ...], of: Callable = figures_of
) -> dict[str, Nights]:
    """The nights of each series: those of all builds show how nights differ, whichever builds are compared."""
    found = engine.run(nightly(engine, branch_of(rows, branches), ["branch"], names, of))
    together = dict(list(of_all_builds(found, ["branch"], names).groupby("series")))
    return {
        series: Nights(ran, {name: noise_of(together[series], ["branch"], name) for name in names})
        for series, ran in found.groupby("series")
    }


def pattern_of(parts: list[pd.DataFrame], name: str) -> np.ndarray:
    """How much each day of the week differs from the nights around it; 0 where this could be chance."""
    pattern = np.zeros(WEEK)
    parts = [of[of[name].notna()] for of in parts]
    if not parts or not sum(map(len, parts)):
        return pattern
    days = np.concatenate([weekdays(of["day"]) for of in parts])
    away = np.concatenate([of[name].to_numpy() - smooth(of[name].to_numpy()) for of in parts])
    counts = np.bincount(days, minlength=WEEK)
    middle = np.array([np.median(away[days == day]) if counts[day] else 0.0 for day in range(WEEK)])
    spread = np.median(np.abs(away - middle[days])) / NORMAL_MEDIAN
    sure = (counts >= LEAST_WEEKS) & (np.abs(middle) > LEAST_ERRORS * OF_MEDIAN * spread / np.sqrt(np.maximum(counts, 1)))
    pattern[sure] = middle[sure]
    return pattern


def weekdays(days: pd.Series | pd.Index) -> np.ndarray:
    """The day of the week of each day, from 0."""
    return np.asarray(pd.DatetimeIndex(days).day_of_week)


def smooth(values: np.ndarray) -> np.ndarray:
    """The median of the week around each night: neither a weekend nor the night itself moves it, and a step stays one."""
    half = WEEK // 2
    return np.array([np.median(values[max(0, at - half) : at + half + 1]) for at in range(len(values))])


def branch_of(rows: ir.Table, builds: pd.DataFrame) -> ir.Table:
    """The rows with their build's branch."""
    branches = builds.groupby("branch")["build"].agg(list)
    if len(branches) < 2:
        return rows.mutate(branch=ibis.literal(branches.index[0] if len(branches) else ""))
    cases = [(rows.build.isin(names), branch) for branch, names in branches.items()]
    return rows.mutate(branch=ibis.cases(*cases, else_=""))
