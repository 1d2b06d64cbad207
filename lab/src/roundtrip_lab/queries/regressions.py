"""Builds that are slower or faster than the build before.

The unit is a device, not a call: calls of one device resemble each other. Each device is compared with itself,
under both builds; where too few devices ran both, the builds' devices are compared as they are.
"""

import ibis
import numpy as np
import pandas as pd
from scipy import stats

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters

FIGURES = ("p50", "p99", "missed")
# Fewer devices say nothing about a fleet.
LEAST_DEVICES = 6
MARGIN = 0.03


def regressions(
    engine: Engine,
    filters: Filters = Filters(),
    base: str | None = None,
    new: str | None = None,
    margin: float = MARGIN,
    alpha: float = 0.01,
) -> pd.DataFrame:
    """Every build against the one before it, or `new` against `base`.

    `worse` or `better`: the interval of the ratio lies outside of 1 ± margin. The intervals hold for all
    comparisons of the answer together, with a probability of 1 - alpha. `same`: the interval lies within the
    margin. Else `cannot tell`. For p50 and p99 the ratio is the geometric mean of the devices' ratios.
    """
    rows = filters.of(engine.series)
    pairs = successive(engine, rows, base, new)
    if pairs.empty:
        return pd.DataFrame(columns=COLUMNS)
    return judged(compared(engine, rows, pairs), pairs, margin, alpha)


COLUMNS = ["series", "base", "new", "figure", "ratio", "low", "high", "devices", "basis", "verdict"]


def successive(engine: Engine, rows: ibis.Table, base: str | None, new: str | None) -> pd.DataFrame:
    """Which builds are compared, by series: in the order of the days on which they were first measured."""
    seen = engine.run(
        rows.filter(rows.day.notnull()).group_by(["series", "build"]).agg(first=rows.day.min(), last=rows.day.max())
    )
    seen = seen.sort_values(["series", "first", "last", "build"])
    if base or new:
        both = [(base, new)] if base and new else [
            pair for pair in zip(seen["build"], seen["build"][1:]) if pair[1] == new or pair[0] == base
        ]
        found = [(series, *pair) for series, of in seen.groupby("series") for pair in dict.fromkeys(both)
                 if set(pair) <= set(of["build"])]  # fmt: skip
    else:
        found = [(series, *pair) for series, of in seen.groupby("series") for pair in zip(of["build"], of["build"][1:])]
    return pd.DataFrame(found, columns=["series", "base", "new"])


def compared(engine: Engine, rows: ibis.Table, pairs: pd.DataFrame) -> pd.DataFrame:
    """The differences of devices, and the devices of either side, as numbers, means and deviations."""
    rows = rows.filter(rows.p50_ns > 0)
    each = rows.group_by(["series", "build", "device"]).agg(
        p50=rows.p50_ns.cast("float64").ln().mean(),
        p99=rows.p99_ns.cast("float64").ln().mean(),
        missed=rows.missed.sum() / rows.calls.sum(),
    )
    wanted = ibis.memtable(pairs)
    base = each.rename(base="build", **{f"base_{name}": name for name in FIGURES})
    new = each.rename(new="build", **{f"new_{name}": name for name in FIGURES})
    both = wanted.join(base, ["series", "base"]).join(new, ["series", "new", "device"])
    columns = {
        f"{name}_{what}": value
        for name in FIGURES
        for what, value in moments(both[f"new_{name}"] - both[f"base_{name}"]).items()
    }
    paired = both.group_by(["series", "base", "new"]).agg(**columns)
    sides = each.group_by(["series", "build"]).agg(
        **{f"{name}_{what}": value for name in FIGURES for what, value in moments(each[name]).items()}
    )
    side = engine.run(sides)
    answer = pairs.merge(engine.run(paired), on=["series", "base", "new"], how="left")
    for name in ("base", "new"):
        renamed = side.rename(columns={column: f"{name}_{column}" for column in side.columns if "_" in column})
        answer = answer.merge(renamed.rename(columns={"build": name}), on=["series", name], how="left")
    return answer


def moments(value: ibis.expr.types.NumericValue) -> dict[str, ibis.expr.types.Value]:
    """What a t test needs."""
    return {"n": value.count(), "mean": value.mean(), "sd": value.std(how="sample")}


def judged(found: pd.DataFrame, pairs: pd.DataFrame, margin: float, alpha: float) -> pd.DataFrame:
    """A row for each pair of builds and figure."""
    each = alpha / (len(pairs) * len(FIGURES))
    rows = []
    for _, row in found.iterrows():
        for name in FIGURES:
            if row[f"base_{name}_n"] and row[f"new_{name}_n"]:
                rows.append([row["series"], row["base"], row["new"], name, *judge(row, name, margin, each)])
    return pd.DataFrame(rows, columns=COLUMNS)


def judge(row: pd.Series, name: str, margin: float, alpha: float) -> tuple:
    """The ratio, its interval, the devices it rests on, how, and what that means."""
    mean, error, freedom, devices, basis = difference(row, name)
    reach = stats.t.isf(alpha / 2, freedom) * error if freedom > 0 else np.nan
    low, high = mean - reach, mean + reach
    if name == "missed":
        share = row["base_missed_mean"]
        ratio, low, high = ((share + change) / share if share else np.nan for change in (mean, low, high))
    else:
        ratio, low, high = np.exp(mean), np.exp(low), np.exp(high)
    return ratio, low, high, devices, basis, verdict(low, high, margin)


def difference(row: pd.Series, name: str) -> tuple[float, float, float, int, str]:
    """Mean difference, its standard error, degrees of freedom, devices, and what was compared."""
    count = row[f"{name}_n"]
    if count >= LEAST_DEVICES:
        return row[f"{name}_mean"], row[f"{name}_sd"] / np.sqrt(count), count - 1, int(count), "same devices"
    sizes = [row[f"{side}_{name}_n"] for side in ("base", "new")]
    mean = row[f"new_{name}_mean"] - row[f"base_{name}_mean"]
    if min(sizes) < LEAST_DEVICES:
        return mean, np.nan, 0, int(min(sizes)), "few devices"
    parts = [row[f"{side}_{name}_sd"] ** 2 / size for side, size in zip(("base", "new"), sizes, strict=True)]
    weight = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    freedom = sum(parts) ** 2 / weight if weight else min(sizes) - 1
    return mean, np.sqrt(sum(parts)), freedom, int(min(sizes)), "other devices"


def verdict(low: float, high: float, margin: float) -> str:
    """What an interval of a ratio says."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return "cannot tell"
    if low > 1 + margin:
        return "worse"
    if high < 1 / (1 + margin):
        return "better"
    return "same" if low >= 1 / (1 + margin) and high <= 1 + margin else "cannot tell"
