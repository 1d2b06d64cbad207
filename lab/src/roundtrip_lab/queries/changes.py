"""Days on which a fleet became slower or faster, whatever the reason.

Each device is compared with its own mean, so that a night on which other devices took part is no change. A
night is the mean over its devices. The nights are divided into the levels that fit them best. A level has to
last; the nights between two such levels are the transition, as of a build that arrives over several nights. A
change is reported if chance would make one as large in only `alpha` of all answers.
"""

import ibis
import numpy as np
import pandas as pd
from scipy import stats

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, grouped

FIGURES = ("p50", "p99")
# The fewest nights that make a level.
LEAST_NIGHTS = 3
# How much a difference of second order tells about the noise, against a free night: they overlap, and a median
# uses less of them than a variance. On equal nights, of normal or of heavy-tailed noise, a Monte Carlo run had
# changes in less than half of the answers that `alpha` allows.
FREEDOM = 0.25
# The median of the absolute value of a standard normal variable.
NORMAL_MEDIAN = float(stats.norm.ppf(0.75))
# A night with a smaller part of the usual number of devices is left out: the test gives all nights equal weight.
LEAST_PART = 0.5
# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.002
COLUMNS = ["series", "group", "figure", "day", "ratio", "p", "nights_before", "nights_after"]


def changes(
    engine: Engine, filters: Filters = Filters(), by: str | None = None, margin: float = 0.02, alpha: float = ALPHA
) -> pd.DataFrame:
    """Change points by series, and by one more column if asked. `ratio`: level after to level before."""
    nights = engine.run(levels(filters, engine, by))
    usual = nights.groupby(["series", "group"])["devices"].transform("median")
    # Wrong clocks put a few devices before the first night: their mean is no night like the others.
    nights = nights[nights["devices"] >= LEAST_PART * usual].sort_values(["series", "group", "day"])
    groups = list(nights.groupby(["series", "group"]))
    rows = []
    for (series, group), of in groups:
        for name in FIGURES:
            found = splits(of[name].to_numpy(), alpha / (len(groups) * len(FIGURES)), np.log1p(margin))
            ends = [0, *[place for place, *_ in found], len(of)]
            for index, (place, step, p) in enumerate(found):
                before, after = place - ends[index], ends[index + 2] - place
                rows.append([series, group, name, of["day"].iloc[place], np.exp(step), p, before, after])
    answer = pd.DataFrame(rows, columns=COLUMNS)
    return answer.rename(columns={"group": by}) if by else answer.drop(columns="group")


def levels(filters: Filters, engine: Engine, by: str | None) -> ibis.Table:
    """Each night's mean over devices of the logarithm relative to the device's own mean."""
    rows = filters.of(engine.series)
    rows = rows.filter(rows.day.notnull() & (rows.p50_ns > 0))
    rows = grouped(rows, by) if by else rows.mutate(group=ibis.literal(""))
    rows = rows.mutate(**{name: rows[f"{name}_ns"].cast("float64").ln() for name in FIGURES})
    own = rows.group_by(["series", "device"]).agg(**{f"{name}_own": rows[name].mean() for name in FIGURES})
    rows = rows.join(own, ["series", "device"])
    return rows.group_by(["series", "group", "day"]).agg(
        devices=rows.count(), **{name: (rows[name] - rows[f"{name}_own"]).mean() for name in FIGURES}
    )


def splits(values: np.ndarray, alpha: float, least: float) -> list[tuple[int, float, float]]:
    """The changes in order: the index of the first value that left the old level, the step, and p.

    p is corrected for the number of places that a change was looked for in.
    """
    if len(values) < 2 * LEAST_NIGHTS:
        return []
    noise, freedom = noise_of(values)
    if not noise:
        return []
    places = 2 * len(values)
    ends = divided(values, (noise * stats.t.isf(alpha / places, freedom)) ** 2)
    levels = [Level(begin, values[begin:end]) for begin, end in zip(ends, ends[1:]) if end - begin >= LEAST_NIGHTS]
    while True:
        changes = []
        for old, new in zip(levels, levels[1:]):
            step = float(new.values.mean() - old.values.mean())
            error = noise * np.sqrt(1 / len(old.values) + 1 / len(new.values))
            p = min(1.0, places * float(stats.t.sf(abs(step) / error, freedom)))
            changes.append((old.begin + old.nights, step, p))
        weak = [at for at, (_, step, p) in enumerate(changes) if p > alpha or abs(step) < least]
        if not weak:
            return changes
        # Two levels that do not differ enough are one.
        at = min(weak, key=lambda at: abs(changes[at][1]))
        levels[at : at + 2] = [levels[at].joined(levels[at + 1])]


class Level:
    """Nights on one level: where they begin, how many there are up to the next transition, and their values."""

    def __init__(self, begin: int, values: np.ndarray, nights: int | None = None):
        self.begin, self.values = begin, values
        self.nights = len(values) if nights is None else nights

    def joined(self, later: "Level") -> "Level":
        """Both, with the transition between them."""
        return Level(self.begin, np.concatenate([self.values, later.values]), later.begin + later.nights - self.begin)


def noise_of(values: np.ndarray) -> tuple[float, float]:
    """The standard deviation of a night around its level, and its degrees of freedom.

    From differences of second order, which neither levels nor steady transitions between them change.
    """
    differences = np.abs(values[:-2] - 2 * values[1:-1] + values[2:])
    # More than half of them are 0 if nights are exactly equal.
    typical = np.median(differences) / NORMAL_MEDIAN or np.sqrt((differences**2).mean())
    return float(typical) / np.sqrt(6), max(1.0, FREEDOM * len(differences))


def divided(values: np.ndarray, penalty: float) -> list[int]:
    """The ends of the levels, from 0, that have the least sum of squares plus a penalty for each level."""
    values = values - values.mean()
    sums, squares = (np.concatenate([[0], np.cumsum(of)]) for of in (values, values**2))
    least, begins = np.zeros(len(values) + 1), np.zeros(len(values) + 1, int)
    for end in range(1, len(values) + 1):
        begin = np.arange(end)
        around = squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / (end - begin)
        costs = least[begin] + around + penalty
        begins[end] = int(costs.argmin())
        least[end] = costs[begins[end]]
    ends = [len(values)]
    while ends[-1]:
        ends.append(int(begins[ends[-1]]))
    return ends[::-1]
