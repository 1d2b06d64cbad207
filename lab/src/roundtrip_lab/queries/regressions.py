"""Builds that are slower or faster than the build before on their branch.

The unit is a device, not a call: calls of one device resemble each other. Each device is compared with itself,
under both builds; where too few devices ran both, the builds' devices are compared as they are. Builds also ran on
different nights. How much whole nights differ is a part of the error, as far as the nights of both builds differ.

A build that is slower only with one kernel, model or label is found too: its devices are compared with the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.builds import Order, builds
from roundtrip_lab.queries.filters import NONE, Filters, label, label_keys, named_builds
from roundtrip_lab.queries.nights import LEAST_NIGHTS, Nights, nights_of
from roundtrip_lab.queries.steps import LEAST_DEVICES, Steps, difference, freedom, of_two, steps
from roundtrip_lab.words import count_of

FIGURES = ("p50", "p99", "missed")
MARGIN = 0.03
# Its part of the 1% that regressions, changes and outliers share on a healthy fleet.
ALPHA = 0.003
# The fewest devices of a kernel, model or label, and the most values of a label that are told apart.
LEAST_PART, MOST_VALUES = 3, 24
EVERY = "all devices"
# The chance that only a part of the fleet seems to be slower is this share of ALPHA.
OF_PARTS = 0.5
COLUMNS = ["series", "base", "new", "figure", "where", "ratio", "low", "high", "devices", "basis", "verdict", "lacks"]


def regressions(
    engine: Engine,
    filters: Filters = Filters(),
    base: str | None = None,
    new: str | None = None,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    order: Order = Order(),
) -> pd.DataFrame:
    """Every build against the one before it on its branch, or `new` against `base`.

    `worse` or `better`: the interval of the ratio lies outside of 1 ± margin. The intervals hold for all
    comparisons of the answer together, with a probability of 1 - alpha. `same`: the interval lies within the
    margin. Else `cannot tell`. For p50 and p99 the ratio is the geometric mean of the devices' ratios. `where` is
    the kernel, model or label that a difference is confined to. `lacks` says what a comparison would need.
    """
    named_builds(engine, base, new)
    branches = builds(engine, order, days=not new)
    in_order = of_two(base, new) if new else branches
    every = filters.of(engine.series)
    every = every.filter(every.day.notnull() & (every.p50_ns > 0))
    rows = every.filter(every.build.isin([base, new])) if new else every
    keys = label_keys(engine, {"build", order.branch}) if "labels" in rows.columns else []
    others = {name: (lambda rows, name=name: rows[name].max()) for name in ("kernel", "model", "machine")}
    others |= {f"label {key}": (lambda rows, key=key: label(rows, key).max()) for key in keys}
    found = steps(engine, rows, figures_of, in_order, others)
    nights = nights_of(engine, every, branches, FIGURES)
    answer = judged(found, nights, margin, alpha)
    answer.attrs["lacks"] = "" if len(answer) else lacking(found)
    return answer


def figures_of(rows: object) -> dict[str, object]:
    """The figures of one device under one build."""
    return {
        "p50": rows.p50_ns.cast("float64").ln().mean(),
        "p99": rows.p99_ns.cast("float64").ln().mean(),
        "missed": rows.missed.sum() / rows.calls.sum(),
    }


@dataclass
class Compared:
    """One figure of two builds: the difference, its variance by devices and by nights, and degrees of freedom."""

    mean: float
    devices_variance: float
    devices_freedom: float
    nights_variance: float
    nights_freedom: float
    devices: int
    basis: str
    lacks: str

    def interval(self, alpha: float) -> tuple[float, float]:
        """The interval of the difference."""
        parts = [self.devices_variance, self.nights_variance]
        of = freedom(parts, [self.devices_freedom, self.nights_freedom])
        known = not self.lacks and np.isfinite(sum(parts)) and of > 0
        reach = special.stdtrit(of, 1 - alpha / 2) * np.sqrt(sum(parts)) if known else np.nan
        return self.mean - reach, self.mean + reach


def judged(found: Steps, nights: dict[str, Nights], margin: float, alpha: float) -> pd.DataFrame:
    """A row for each pair of builds and figure, followed by the part of the fleet that a difference is confined to."""
    pairs = found.found[found.found["base"].notna()]
    # A share of missed deadlines has no base of its own in each part.
    of_parts = {(at, name): list(parts(found, at, name)) for at in pairs.index for name in FIGURES if name != "missed"}
    each = alpha * (1 - OF_PARTS) / max(1, len(pairs) * len(FIGURES))
    of_part = alpha * OF_PARTS / max(1, 2 * sum(map(len, of_parts.values())))
    rows = []
    for at, row in pairs.iterrows():
        for name in FIGURES:
            if not (row[f"base_{name}_n"] and row[f"new_{name}_n"]):
                continue
            about = [row["series"], row["base"], row["new"], name]
            compared = compare(row, name, nights[row["series"]])
            share = row["base_missed_mean"] if name == "missed" else None
            rows.append([*about, EVERY, *judge(compared, each, margin, share)])
            found_part = confined(of_parts.get((at, name), []), compared, of_part, margin)
            if found_part:
                rows.append([*about, *found_part])
    return pd.DataFrame(rows, columns=COLUMNS)


def compare(row: pd.Series, name: str, nights: Nights) -> Compared:
    """One figure of two builds, for all devices."""
    mean, error, of, devices, basis = difference(row, name)
    shift, variance, nights_freedom = nights.between(row["base"], row["new"], name)
    seen = nights.noise[name].nights
    lacks = [f"{count_of(devices, 'device')}; needs {LEAST_DEVICES}"] if basis == "few devices" else []
    if seen < LEAST_NIGHTS:
        lacks.append(f"{count_of(seen, 'night')}; needs {LEAST_NIGHTS}")
    return Compared(mean - shift, error**2, of, variance, nights_freedom, devices, basis, ", ".join(lacks))


def judge(compared: Compared, alpha: float, margin: float, share: float | None) -> list:
    """The ratio, its interval, the number of devices, the basis, the verdict, and what is lacking."""
    ratio, low, high = (as_ratio(value, share) for value in (compared.mean, *compared.interval(alpha)))
    return [ratio, low, high, compared.devices, compared.basis, verdict(low, high, margin), compared.lacks]


def as_ratio(difference: float, share: float | None) -> float:
    """The ratio of two builds: from a difference of logarithms, or of shares if that of the base is given."""
    if share is None:
        return float(np.exp(difference))
    return (share + difference) / share if share else np.nan


def parts(found: Steps, at: int, name: str) -> Iterator[tuple[str, np.ndarray, np.ndarray, float, int]]:
    """The kernels, models and labels of a comparison with enough devices.

    For each its name, the differences of its devices and of the others, and the variance within all parts with its
    degrees of freedom.
    """
    mine = np.arange(found.starts[at], found.starts[at + 1])
    mine = mine[np.isfinite(found.differences[name][mine])]
    steps = found.differences[name][mine]
    if len(steps) < LEAST_DEVICES + LEAST_PART:
        return
    for column, (codes, values) in found.columns.items():
        counts = np.bincount(codes[mine], minlength=len(values))
        present = np.flatnonzero(counts)
        if not 2 <= len(present) <= MOST_VALUES:
            continue
        counts, group = counts[present], np.searchsorted(present, codes[mine])
        means = np.bincount(group, steps) / counts
        within = len(steps) - len(present)
        variance = float(((steps - means[group]) ** 2).sum()) / max(1, within)
        for place, code in enumerate(present):
            if counts[place] >= LEAST_PART and values[code] not in (None, NONE) and within >= LEAST_DEVICES:
                inside = group == place
                yield f"{column} {values[code]}", steps[inside], steps[~inside], variance, within


def confined(found: list, whole: Compared, alpha: float, margin: float) -> list | None:
    """The part that differs most from the rest of the fleet, if it is worse or better and the rest is not as much."""
    best, names = None, []
    for name, inside, outside, variance, within in found:
        mean = float(inside.mean()) + whole.mean - float(np.concatenate([inside, outside]).mean())
        compared = Compared(mean, max(variance, own(inside)) / len(inside), within, whole.nights_variance,
                            whole.nights_freedom, len(inside), "same devices", whole.lacks)  # fmt: skip
        low, high = np.exp(compared.interval(alpha))
        said = verdict(low, high, margin)
        error = np.sqrt(variance * (1 / len(inside) + 1 / len(outside)))
        apart = float(inside.mean() - outside.mean())
        least = np.log1p(margin)
        sure = error > 0 and abs(apart) > special.stdtrit(within, 1 - alpha / 2) * error + least
        together = len(inside) >= LEAST_DEVICES or (np.sign(mean) * inside > least).all()
        if said not in ("worse", "better") or not sure or not together:
            continue
        size = abs(apart) / error
        row = [float(np.exp(mean)), low, high, len(inside), "same devices", said, ""]
        if best is None or size > best[0] * (1 + 1e-9):
            best, names = (size, row), [name]
        elif size >= best[0] * (1 - 1e-9):
            # The same devices under another name.
            names.append(name)
    return [", ".join(names), *best[1]] if best else None


def own(steps: np.ndarray) -> float:
    """The variance of a part's own differences, if it has enough devices to show one."""
    return float(steps.var(ddof=1)) if len(steps) >= LEAST_DEVICES else 0.0


def lacking(found: Steps) -> str:
    """Why there is no comparison."""
    count = found.found["new"].nunique()
    return f"{count_of(count, 'build')} on a branch; needs 2"


def verdict(low: float, high: float, margin: float) -> str:
    """The verdict on the interval of a ratio."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return "cannot tell"
    if low > 1 + margin:
        return "worse"
    if high < 1 / (1 + margin):
        return "better"
    return "same" if low >= 1 / (1 + margin) and high <= 1 + margin else "cannot tell"
