"""Where writes spend their time, by layer; and which layer takes longer in one build than in another.

The layers of a write are all of it, so their sums are those of the writes, however many runs are merged.
"""

import numpy as np
import pandas as pd
from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.builds import builds
from roundtrip_lab.queries.filters import Filters, grouped, named_builds, time
from roundtrip_lab.queries.nights import Nights, nights_of
from roundtrip_lab.queries.percentiles import KEYS, of_devices
from roundtrip_lab.queries.regressions import MARGIN, compare
from roundtrip_lab.queries.steps import of_two, steps
from roundtrip_lab.schema import LAYERS

# The whole write, beside its parts.
WHOLE = "all"
PARTS = (WHOLE, *LAYERS)
LACKS = "no series has writes whose time was divided among the layers"
COLUMNS = ["series", "layer", "base_ns", "new_ns", "change_ns", "low_ns", "high_ns", "devices", "basis", "verdict", "lacks"]


def layers(
    engine: Engine,
    by: str = "build",
    filters: Filters = Filters(),
    base: str | None = None,
    new: str | None = None,
    margin: float = MARGIN,
    alpha: float = 0.01,
) -> pd.DataFrame:
    """The time of each layer, by series and one more column; or of `new` compared with `base`."""
    if base or new:
        named_builds(engine, base, new)
        every = filters.of(engine.series)
        every = every.filter(every.day.notnull() & (every.divided_calls > 0))
        found = steps(engine, every.filter(every.build.isin([base, new])), per_write, of_two(base, new)).found
        nights = nights_of(engine, every, builds(engine, days=False), tuple(TIMES), of_run)
        answer = judged(found[found["base"].notna()], nights, margin, alpha)
        answer.attrs["lacks"] = "" if len(answer) else f"{LACKS} under both builds"
        return answer
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    rows = rows.filter(rows.divided_calls > 0)
    sums = {layer: time(rows[f"{layer}_ns"]) for layer in LAYERS}
    found = engine.run(rows.group_by(KEYS).agg(writes=rows.divided_calls.sum(), whole=time(rows.divided_ns), **sums))
    answer = found.melt([*KEYS, "writes", "whole"], list(LAYERS), "layer", "sum_ns")
    answer["mean_ns"] = answer["sum_ns"] / answer["writes"]
    answer["sum_ns"] = answer["sum_ns"].map(int)
    answer["share"] = answer["sum_ns"] / answer["whole"]
    # The unexplained time is always shown, even if it is 0.
    answer = answer[(answer["sum_ns"] > 0) | (answer["layer"] == "unexplained")]
    answer = answer.sort_values([*KEYS, "sum_ns", "layer"], ascending=[True, True, False, True], ignore_index=True)
    answer = answer[[*KEYS, "layer", "writes", "sum_ns", "mean_ns", "share"]].rename(columns={"group": by})
    answer.attrs["lacks"] = LACKS if answer.empty else ""
    return answer


TIMES = {f"in_{WHOLE}": "divided_ns"} | {f"in_{layer}": f"{layer}_ns" for layer in LAYERS}


def per_write(rows: object) -> dict[str, object]:
    """The mean time per write in each layer, for one device."""
    calls = rows.divided_calls.sum()
    return {part: time(rows[name]) / calls for part, name in TIMES.items()}


def of_run(rows: object) -> dict[str, object]:
    """The same for each run."""
    return {part: rows[name] / rows.divided_calls for part, name in TIMES.items()}


def judged(found: pd.DataFrame, nights: dict[str, Nights], margin: float, alpha: float) -> pd.DataFrame:
    """A row for each series and layer; what took most of the change comes first.

    A layer is slower if the whole interval of its change lies above the margin, a part of the whole write in
    `base`. The intervals hold together with a probability of 1 - alpha. `lacks` says what a verdict would need.
    """
    rows = []
    each = alpha / max(1, len(found) * len(PARTS))
    for _, row in found.iterrows():
        least = margin * row[f"base_in_{WHOLE}_mean"]
        for layer in PARTS:
            means = [row[f"{side}_in_{layer}_mean"] for side in ("base", "new")]
            if any(means) or layer in (WHOLE, "unexplained"):
                of = compare(row, f"in_{layer}", nights[row["series"]])
                low, high = of.interval(each)
                said = verdict(low, high, least)
                rows.append([row["series"], layer, *means, of.mean, low, high, of.devices, of.basis, said, of.lacks])
    answer = pd.DataFrame(rows, columns=COLUMNS)
    answer["size"] = answer["change_ns"].abs()
    answer["part"] = answer["layer"] != WHOLE
    answer = answer.sort_values(["series", "part", "size", "layer"], ascending=[True, True, False, True], ignore_index=True)
    return answer[COLUMNS]


def verdict(low: float, high: float, least: float) -> str:
    """The verdict on the interval of a change."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return "cannot tell"
    if low > least or high < -least:
        return "slower" if low > least else "faster"
    return "same" if low >= -least and high <= least else "cannot tell"
