"""Days on which a fleet became slower or faster, whatever the reason.

A night is the mean over its devices, each compared with itself, without the pattern of the days of the week (see
`nights`). The nights of each branch are divided into the levels that fit them best. A level has to last; the nights
between two such levels are the transition, as of a build that arrives over several nights. A change is reported if
chance would make one as large in only `alpha` of all answers.
"""

from collections import defaultdict

import ibis
import numpy as np
import pandas as pd
from scipy import stats

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.builds import Order, builds
from roundtrip_lab.queries.filters import Filters, grouped
from roundtrip_lab.queries.nights import NORMAL_MEDIAN, branch_of, nightly, of_all_builds, pattern_of, weekdays
from roundtrip_lab.words import count_of

FIGURES = ("p50", "p99")
# The fewest nights that make a level.
LEAST_NIGHTS = 3
# Differences of second order beyond so many deviations count as that many: steps make such. What the mean square of a
# standard normal variable becomes.
CLIP = 2.5
CLIPPED = float(stats.norm.expect(lambda z: np.minimum(np.abs(z), CLIP) ** 2))
# How much a difference of second order tells about the noise, against a free night: neighbours overlap, which leaves
# 0.51 of them, and clipping costs a tenth. On equal nights, of normal or of heavy-tailed noise, a Monte Carlo run had
# changes in fewer answers than `alpha` allows.
FREEDOM = 0.45
# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.002
GROUPS = ["branch", "group"]
COLUMNS = ["series", *GROUPS, "figure", "day", "ratio", "p", "nights_before", "nights_after"]


def changes(
    engine: Engine,
    filters: Filters = Filters(),
    by: str | None = None,
    margin: float = 0.02,
    alpha: float = ALPHA,
    order: Order = Order(),
) -> pd.DataFrame:
    """Change points by series and branch, and by one more column if asked. `ratio`: level after to level before."""
    rows = filters.of(engine.series)
    rows = rows.filter(rows.day.notnull() & (rows.p50_ns > 0))
    rows = grouped(rows, by) if by else rows.mutate(group=ibis.literal(""))
    rows = branch_of(rows, builds(engine, order, days=False))
    nights = of_all_builds(engine.run(nightly(engine, rows, GROUPS, FIGURES)), GROUPS, FIGURES)
    groups = list(nights.groupby(["series", *GROUPS]))
    each, rows = alpha / max(1, len(groups) * len(FIGURES)), []
    for name in FIGURES:
        # Too few calls have no p99.
        known = nights[nights[name].notna()]
        values = {}
        for series, of in known.groupby("series"):
            parts = dict(list(of.groupby(GROUPS)))
            pattern = pattern_of(list(parts.values()), name)
            values |= {(series, *key): (part["day"], part[name].to_numpy() - pattern[weekdays(part["day"])])
                       for key, part in parts.items()}  # fmt: skip
        noise = shared({key: of for key, (_, of) in values.items()})
        for (series, branch, group), (days, of) in values.items():
            found = splits(of, each, np.log1p(margin), noise[series, group])
            ends = [0, *[place for place, *_ in found], len(of)]
            for index, (place, step, p) in enumerate(found):
                before, after = place - ends[index], ends[index + 2] - place
                rows.append([series, branch, group, name, days.iloc[place], np.exp(step), p, before, after])
    rows.sort(key=lambda row: (*row[:3], FIGURES.index(row[3]), row[4]))
    answer = pd.DataFrame(rows, columns=COLUMNS)
    answer = answer.rename(columns={"group": by}) if by else answer.drop(columns="group")
    most = max((len(of) for _, of in groups), default=0)
    answer.attrs["lacks"] = f"{count_of(most, 'night')}; needs {2 * LEAST_NIGHTS}" if most < 2 * LEAST_NIGHTS else ""
    return answer


def shared(values: dict[tuple, np.ndarray]) -> dict[tuple, tuple[float, float]]:
    """The noise of a night on any branch, and its degrees of freedom: the branches' nights are those of the same devices."""
    found = defaultdict(list)
    for (series, _, group), nights in values.items():
        found[series, group] += [noise_of(nights)] if len(nights) >= 2 * LEAST_NIGHTS else []
    pooled = {
        key: (sum(noise**2 * freedom for noise, freedom in of), sum(freedom for _, freedom in of)) for key, of in found.items()
    }
    return {key: (np.sqrt(square / freedom) if freedom else 0.0, freedom) for key, (square, freedom) in pooled.items()}


def splits(
    values: np.ndarray, alpha: float, least: float, noise_of_all: tuple[float, float] = (0.0, 0.0)
) -> list[tuple[int, float, float]]:
    """The changes in order: the index of the first value that left the old level, the step, and p.

    p is corrected for the number of places that a change was looked for in. A branch is at least as noisy as all are.
    """
    if len(values) < 2 * LEAST_NIGHTS:
        return []
    noise, freedom = noise_of(values)
    noise, freedom = max(noise, noise_of_all[0]), max(freedom, noise_of_all[1])
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
    noise = np.sqrt((np.minimum(differences, CLIP * typical) ** 2).mean() / CLIPPED)
    return float(noise) / np.sqrt(6), max(1.0, FREEDOM * len(differences))


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
