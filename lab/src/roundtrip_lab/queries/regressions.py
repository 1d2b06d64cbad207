"""Builds that are slower or faster than the build before.

The unit is a device, not a call: calls of one device resemble each other. Each device is compared with itself,
under both builds; where too few devices ran both, the builds' devices are compared as they are.
"""

from collections.abc import Callable

import ibis
import numpy as np
import pandas as pd
from scipy import special

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, named_builds

FIGURES = ("p50", "p99", "missed")
# Fewer devices do not represent a fleet.
LEAST_DEVICES = 6
MARGIN = 0.03
# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.003


def regressions(
    engine: Engine,
    filters: Filters = Filters(),
    base: str | None = None,
    new: str | None = None,
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> pd.DataFrame:
    """Every build against the one before it, or `new` against `base`.

    `worse` or `better`: the interval of the ratio lies outside of 1 ± margin. The intervals hold for all
    comparisons of the answer together, with a probability of 1 - alpha. `same`: the interval lies within the
    margin. Else `cannot tell`. For p50 and p99 the ratio is the geometric mean of the devices' ratios.
    """
    named_builds(engine, base, new)
    rows = filters.of(engine.series)
    found = compared(engine, rows.filter(rows.p50_ns > 0), figures_of, base, new)
    return judged(found[found["base"].notna()], margin, alpha)


COLUMNS = ["series", "base", "new", "figure", "ratio", "low", "high", "devices", "basis", "verdict"]


def figures_of(rows: ibis.Table) -> dict[str, ibis.expr.types.Value]:
    """The figures of one device under one build."""
    return {
        "p50": rows.p50_ns.cast("float64").ln().mean(),
        "p99": rows.p99_ns.cast("float64").ln().mean(),
        "missed": rows.missed.sum() / rows.calls.sum(),
    }


def compared(engine: Engine, rows: ibis.Table, of: Callable, base: str | None, new: str | None) -> pd.DataFrame:
    """Of each build: its devices, and their differences to the build before, as numbers, means and deviations.

    `of` makes the figures of a device's rows. Builds follow each other in the order of the days on which they were
    first measured.
    """
    rows = rows.filter(rows.day.notnull())
    if new:
        rows = rows.filter(rows.build.isin([base, new]))
    figures = of(rows)
    each = rows.group_by(["series", "build", "device"]).agg(**figures)
    builds = rows.group_by(["series", "build"]).agg(first_day=rows.day.min())
    order = (builds.build == new).cast("int8") if new else builds.first_day
    in_order = ibis.window(group_by="series", order_by=[order, builds.build])
    builds = builds.mutate(place=ibis.row_number().over(in_order)).drop("first_day")
    each = each.join(builds, ["series", "build"])
    of_device = ibis.window(group_by=["series", "device"], order_by="place")
    each = each.mutate(
        follows=each.place - each.place.lag().over(of_device) == 1,
        **{f"step_{name}": each[name] - each[name].lag().over(of_device) for name in figures},
    )
    steps = {f"step_{name}": each.follows.ifelse(each[f"step_{name}"], None) for name in figures}
    values = steps | {f"new_{name}": each[name] for name in figures}
    found = engine.run(
        each.group_by(["series", "build", "place"]).agg(
            **{f"{key}_{what}": moment for key, value in values.items() for what, moment in moments(value).items()}
        )
    )
    found = found.sort_values(["series", "place"], ignore_index=True).rename(columns={"build": "new"})
    before = found.groupby("series").shift()
    renamed = {name: name.replace("new_", "base_") for name in before.columns if name.startswith("new_")}
    before = before[["new", *renamed]].rename(columns=renamed | {"new": "base"})
    return pd.concat([found, before], axis=1)


def moments(value: ibis.expr.types.NumericValue) -> dict[str, ibis.expr.types.Value]:
    """The moments that a t test needs."""
    return {"n": value.count(), "mean": value.mean(), "sd": value.std(how="sample")}


def judged(found: pd.DataFrame, margin: float, alpha: float) -> pd.DataFrame:
    """One row per pair of builds and figure."""
    each = alpha / max(1, len(found) * len(FIGURES))
    rows = []
    for _, row in found.iterrows():
        for name in FIGURES:
            if row[f"base_{name}_n"] and row[f"new_{name}_n"]:
                rows.append([row["series"], row["base"], row["new"], name, *judge(row, name, margin, each)])
    return pd.DataFrame(rows, columns=COLUMNS)


def judge(row: pd.Series, name: str, margin: float, alpha: float) -> tuple:
    """The ratio, its interval, the number of devices, the basis, and the verdict."""
    mean, error, freedom, devices, basis = difference(row, name)
    reach = special.stdtrit(freedom, 1 - alpha / 2) * error if freedom > 0 else np.nan
    low, high = mean - reach, mean + reach
    if name == "missed":
        share = row["base_missed_mean"]
        ratio, low, high = ((share + change) / share if share else np.nan for change in (mean, low, high))
    else:
        ratio, low, high = np.exp(mean), np.exp(low), np.exp(high)
    return ratio, low, high, devices, basis, verdict(low, high, margin)


def difference(row: pd.Series, name: str) -> tuple[float, float, float, int, str]:
    """Mean difference, its standard error, degrees of freedom, devices, and what was compared."""
    count = row[f"step_{name}_n"]
    if count >= LEAST_DEVICES:
        return row[f"step_{name}_mean"], row[f"step_{name}_sd"] / np.sqrt(count), count - 1, int(count), "same devices"
    sizes = [row[f"{side}_{name}_n"] for side in ("base", "new")]
    mean = row[f"new_{name}_mean"] - row[f"base_{name}_mean"]
    if min(sizes) < LEAST_DEVICES:
        return mean, np.nan, 0, int(min(sizes)), "few devices"
    parts = [row[f"{side}_{name}_sd"] ** 2 / size for side, size in zip(("base", "new"), sizes, strict=True)]
    weight = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    freedom = sum(parts) ** 2 / weight if weight else min(sizes) - 1
    return mean, np.sqrt(sum(parts)), freedom, int(min(sizes)), "other devices"


def verdict(low: float, high: float, margin: float) -> str:
    """The verdict on the interval of a ratio."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return "cannot tell"
    if low > 1 + margin:
        return "worse"
    if high < 1 / (1 + margin):
        return "better"
    return "same" if low >= 1 / (1 + margin) and high <= 1 + margin else "cannot tell"
