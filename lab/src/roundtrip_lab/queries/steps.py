"""What each device has under a build and under the one before it on its branch, for all builds of all series.

The engine reduces runs to a row for each series, build and device. The rest needs the order of builds, and is
computed from these rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from roundtrip_lab.engines import Engine

# Fewer devices do not represent a fleet.
LEAST_DEVICES = 6


@dataclass
class Steps:
    """Devices under neighbouring builds.

    `found` has a row for each build of each series: `base` (none for the first build), `new`, and for each figure the
    number, mean and deviation of the devices' figures under both builds and of their differences. The devices of its
    row N are those from `starts[N]` to `starts[N + 1]`: their differences (NaN if a device did not run the build
    before), and the codes and values of their other columns.
    """

    found: pd.DataFrame
    starts: np.ndarray
    differences: dict[str, np.ndarray]
    columns: dict[str, tuple[np.ndarray, list]]


def steps(
    engine: Engine, rows: ir.Table, of: Callable, builds: pd.DataFrame, others: dict[str, Callable] | None = None
) -> Steps:
    """Compares neighbouring builds. `of` makes the figures of a device's rows, `others` its other columns.

    `builds` says the branch and the place of each build that takes part.
    """
    figures, others = of(rows), others or {}
    made = {name: make(rows) for name, make in others.items()}
    each = engine.fetch(rows.group_by(["series", "build", "device"]).agg(**figures, **made))
    builds = builds[builds["place"].notna()]
    place, branch = (dict(zip(builds["build"], builds[name], strict=True)) for name in ("place", "branch"))
    codes = {name: encoded(each[name]) for name in ("series", "build", "device", *others)}
    _, names = codes["build"]
    branches = {name: number for number, name in enumerate(dict.fromkeys(branch.values()))}
    order = np.array([(branches[branch[name]], place[name]) if name in place else (-1, -1) for name in names], dtype=np.int64)
    order = order.reshape(-1, 2)
    there = order[codes["build"][0], 0] >= 0
    each = each.filter(pa.array(there))
    codes = {name: (of_name[there], values) for name, (of_name, values) in codes.items()}
    series, build, device = (codes[name][0] for name in ("series", "build", "device"))
    on, at = order[build, 0], order[build, 1]
    # The builds of each series and branch, in order: a row of `found` each.
    _, some, row = np.unique(series * len(names) + build, return_index=True, return_inverse=True)
    keys = np.stack([series, on, at, build])[:, some]
    in_order = np.lexsort(keys[::-1])
    keys, row = keys[:, in_order], np.argsort(in_order)[row]
    first = np.ones(keys.shape[1], dtype=bool)
    first[1:] = (keys[:2, 1:] != keys[:2, :-1]).any(axis=0)
    sorted_rows = np.lexsort([row, device])
    row, device = row[sorted_rows], device[sorted_rows]
    follows = np.zeros(len(row), dtype=bool)
    follows[1:] = (device[1:] == device[:-1]) & (row[1:] == row[:-1] + 1) & ~first[row[1:]]
    found = pd.DataFrame({"series": np.array(codes["series"][1], dtype=object)[keys[0]]})
    found["branch"] = np.array(list(branches), dtype=object)[keys[1]]
    found["new"] = np.array(names, dtype=object)[keys[3]]
    found["base"] = found["new"].shift().where(~first, None)
    differences, summed, by_row = {}, {}, np.argsort(row, kind="stable")
    for name in figures:
        values = np.asarray(each[name].cast(pa.float64()), dtype=np.float64)[sorted_rows]
        step = np.full(len(values), np.nan)
        step[1:] = np.where(follows[1:], values[1:] - values[:-1], np.nan)
        differences[name] = step[by_row]
        for key, of_key in ((f"step_{name}", step), (f"new_{name}", values)):
            for what, moment in moments(of_key, row, len(found)).items():
                summed[f"{key}_{what}"] = moment
        for what in ("n", "mean", "sd"):
            summed[f"base_{name}_{what}"] = pd.Series(summed[f"new_{name}_{what}"]).shift().where(~first)
    found = pd.concat([found, pd.DataFrame(summed, index=found.index)], axis=1)
    columns = {name: (codes[name][0][sorted_rows][by_row], codes[name][1]) for name in others}
    return Steps(found, np.searchsorted(row[by_row], np.arange(len(found) + 1)), differences, columns)


def encoded(column: pa.ChunkedArray) -> tuple[np.ndarray, list]:
    """A number for each value in the order of the values, whatever the order of rows, and the values. Null is a value."""
    filled = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    values = filled.dictionary.to_pylist()
    order = sorted(range(len(values)), key=lambda at: (values[at] is not None, values[at] or ""))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[filled.indices.to_numpy(zero_copy_only=False).astype(np.int64)], [values[at] for at in order]


def moments(values: np.ndarray, group: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Number, mean and deviation of each group's values that are known."""
    known = np.isfinite(values)
    values, group = values[known], group[known]
    number = np.bincount(group, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, values, size) / number
        squares = np.bincount(group, (values - mean[group]) ** 2, size)
        return {"n": number, "mean": mean, "sd": np.sqrt(squares / (number - 1))}


def of_two(base: str, new: str) -> pd.DataFrame:
    """The order of two builds that are named."""
    return pd.DataFrame({"build": [base, new], "branch": "", "place": [0, 1]})


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
    return mean, np.sqrt(sum(parts)), freedom(parts, [size - 1 for size in sizes]), int(min(sizes)), "other devices"


def freedom(variances: list[float], freedoms: list[float]) -> float:
    """The degrees of freedom of a sum of variances (Welch and Satterthwaite)."""
    weight = sum(variance**2 / of for variance, of in zip(variances, freedoms, strict=True) if of > 0)
    return sum(variances) ** 2 / weight if weight else min(freedoms)
