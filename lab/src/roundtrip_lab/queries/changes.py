"""Days on which a fleet became slower or faster, whatever the reason.

Each device is compared with its own mean, so that a night on which other devices took part is no change. A
night is the mean over its devices. Where the nights split best into two levels is a change, if chance splits
as well in only `alpha` of all answers; then each side is searched likewise.
"""

import ibis
import numpy as np
import pandas as pd
from scipy import special

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, grouped

FIGURES = ("p50", "p99")
# The fewest nights that make a level.
LEAST_NIGHTS = 3
# The part of the usual number of devices that makes a night: the test takes nights for equally certain.
LEAST_PART = 0.5
# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.003
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
    """The changes in order: the index of the new level's first value, the step, and p."""
    places = []
    search(values, 0, len(values), alpha, places)
    # Drops steps that are no longer significant beside later ones, and steps that are too small.
    while True:
        ends = [0, *sorted(places), len(values)]
        steps = [
            (ends[i], *tested(values[ends[i - 1] : ends[i]], values[ends[i] : ends[i + 1]], len(values)))
            for i in range(1, len(ends) - 1)
        ]
        weak = [step for step in steps if step[2] > alpha or abs(step[1]) < least]
        if not weak:
            return steps
        places.remove(min(weak, key=lambda step: abs(step[1]))[0])


def search(values: np.ndarray, begin: int, end: int, alpha: float, places: list[int]) -> None:
    """Binary segmentation: finds the best split, then searches both sides."""
    candidates = range(begin + LEAST_NIGHTS, end - LEAST_NIGHTS + 1)
    tests = [(tested(values[begin:at], values[at:end], len(values))[1], at) for at in candidates]
    if tests and min(tests)[0] <= alpha:
        at = min(tests)[1]
        places.append(at)
        search(values, begin, at, alpha, places)
        search(values, at, end, alpha, places)


def tested(before: np.ndarray, after: np.ndarray, places: int) -> tuple[float, float]:
    """The step, and its p value (Student's t), corrected for the number of places it was looked for in."""
    step = float(after.mean() - before.mean())
    freedom = len(before) + len(after) - 2
    spread = np.sqrt((((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum()) / max(1, freedom))
    error = spread * np.sqrt(1 / len(before) + 1 / len(after))
    if not error:
        return step, 0.0 if step else 1.0
    return step, min(1.0, places * 2 * float(special.stdtr(freedom, -abs(step) / error)))
