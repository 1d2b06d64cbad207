"""How the durations of a fleet are distributed: what a curve is drawn from."""

import math

import pandas as pd

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, grouped
from roundtrip_lab.queries.percentiles import KEYS, of_devices

# Steps of 2% are less than a pixel wide.
STEPS_PER_E = 32 / math.log(2)


def distribution(engine: Engine, by: str = "build", filters: Filters = Filters()) -> pd.DataFrame:
    """How many calls took at most `le_ns`, by series and one more column. Exact, at the values it has."""
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    each = rows.select(*KEYS, bucket=rows.buckets.unnest())
    each = each.select(*KEYS, le=each.bucket["le_ns"], n=each.bucket["count"])
    each = each.mutate(step=((each.le + 1).cast("float64").ln() * STEPS_PER_E).floor())
    found = engine.run(each.group_by([*KEYS, "step"]).agg(le_ns=each.le.max(), calls=each.n.sum()))
    found = found.sort_values([*KEYS, "le_ns"], ignore_index=True)
    found["calls"] = found.groupby(KEYS)["calls"].cumsum()
    return found[[*KEYS, "le_ns", "calls"]].rename(columns={"group": by})
