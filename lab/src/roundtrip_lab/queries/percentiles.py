"""Percentiles and missed deadlines. Computed from merged histograms, never from percentiles."""

import math

import ibis
import ibis.expr.types as ir
import pandas as pd

from roundtrip_lab.engines import Engine, Fetched
from roundtrip_lab.histogram import resolvable
from roundtrip_lab.queries.filters import Filters, grouped

PERCENTS = {"p50_ns": 50.0, "p90_ns": 90.0, "p99_ns": 99.0, "p999_ns": 99.9}
Z_95 = 1.959964
KEYS = ["series", "group"]
COUNTED = ["calls", "missed", "deadline_ns", "min_ns", "max_ns"]
# Devices are counted one by one, and only the worst are shown with percentiles.
DEVICES = 5


def percentiles(engine: Engine, by: str = "build", filters: Filters = Filters(), limit: int = DEVICES) -> pd.DataFrame:
    """Percentiles of all calls, by series and one more column. By device: of the `limit` worst."""
    if by == "device" and not filters.devices:
        from roundtrip_lab.queries.devices import worst_devices

        worst = worst_devices(engine, filters, limit)
        filters = Filters(**{**vars(filters), "devices": tuple(dict.fromkeys(worst["device"]))})
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    if filters.devices:
        # Few rows match, so they are read only once.
        engine = Fetched(engine.fetch(rows.select(*KEYS, *COUNTED, "buckets")), engine.data)
        rows = engine.series
    key = engine.key(rows, KEYS)
    rows = rows.mutate(**key)
    counted = engine.run(counts(rows, list(dict.fromkeys([*KEYS, *key]))))
    found = engine.run(ranks(rows, list(key)))
    answer = counted.merge(found, on=list(key), how="left").sort_values(KEYS, ignore_index=True)
    for name, percent in PERCENTS.items():
        # The highest value of a bucket may be above the longest call.
        found = answer[name].clip(answer["min_ns"], answer["max_ns"]).astype("Int64")
        answer[name] = found.where(resolvable(answer["calls"], percent))
    answer["max_ns"] = answer["max_ns"].astype("Int64")
    answer = with_misses(answer)
    return answer[
        [*KEYS, "runs", "calls", *PERCENTS, "max_ns", "deadline_ns", "missed", "missed_share", "low", "high"]
    ].rename(columns={"group": by})


def fetched(engine: Engine, device: str) -> Engine:
    """The runs of one device, of which several questions are asked."""
    rows = engine.series
    # Not every engine gives maps away.
    wanted = [name for name in rows.columns if name not in ("causes", "labels")]
    return Fetched(engine.fetch(rows.filter(rows.device == device).select(wanted)), engine.data)


def misses(engine: Engine, by: str = "build", filters: Filters = Filters()) -> pd.DataFrame:
    """Calls that took longer than their deadline, by series and one more column, the largest share first."""
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    rows = rows.filter(rows.deadline_ns.notnull())
    answer = with_misses(engine.run(counts(rows, KEYS))).merge(worst(engine, rows, KEYS), on=KEYS, how="left")
    answer = answer.sort_values(["missed_share", *KEYS], ascending=[False, True, True], ignore_index=True)
    columns = [*KEYS, "runs", "calls", "deadline_ns", "missed", "missed_share", "low", "high", "worst_ns", "worst"]
    answer = answer[columns].rename(columns={"group": by})
    answer.attrs["lacks"] = "no series has a deadline" if answer.empty else ""
    return answer


def worst(engine: Engine, rows: ir.Table, keys: list[str]) -> pd.DataFrame:
    """The slowest explained call or write of each group, and what Roundtrip says about it. Groups without one are left out."""
    rows = rows.filter(rows.worst_ns.notnull())
    found = engine.run(rows.group_by(keys).agg(worst_ns=rows.worst_ns.max(), worst=rows.worst.argmax(rows.worst_ns)))
    found["worst_ns"] = found["worst_ns"].astype("Int64")
    return found


def of_devices(by: str, filters: Filters) -> bool:
    """Whether the query needs `series`, because `sums` has no devices."""
    names = {"device", "label:device", "label:serial"}
    return by in names or bool(filters.devices) or any(f"label:{key}" in names for key, _ in filters.labels)


def counts(rows: ir.Table, keys: list[str]) -> ir.Table:
    """The aggregates of a group."""
    # A run has one row in each series.
    runs = rows.runs.sum() if "runs" in rows.columns else rows.count()
    return rows.group_by(keys).agg(
        runs=runs,
        calls=rows.calls.sum(),
        missed=rows.missed.sum(),
        deadline_ns=rows.deadline_ns.max(),
        min_ns=rows.min_ns.min(),
        max_ns=rows.max_ns.max(),
    )


def ranks(rows: ir.Table, keys: list[str]) -> ir.Table:
    """The bucket in which the call of each rank lies, as `roundtrip` reads one histogram."""
    each = rows.select(*keys, bucket=rows.buckets.unnest())
    each = each.select(*keys, le=each.bucket["le_ns"], n=each.bucket["count"])
    merged = each.group_by([*keys, "le"]).agg(n=each.n.sum().cast("int64"))
    ascending = ibis.window(group_by=keys, order_by="le", preceding=None, following=0)
    merged = merged.mutate(
        reached=merged.n.sum().over(ascending), total=merged.n.sum().over(ibis.window(group_by=keys))
    )
    # As in Roundtrip's own: 99.9% of 1000 is a little above 999 in binary.
    wanted = {
        name: merged.le.min(where=merged.reached >= (merged.total.cast("float64") * (percent / 100) * (1 - 1e-12)).ceil())
        for name, percent in PERCENTS.items()
    }
    return merged.group_by(keys).agg(**wanted)


def with_misses(answer: pd.DataFrame) -> pd.DataFrame:
    """The share of missed deadlines with its 95% interval (Wilson), if calls were independent."""
    ends = [wilson(missed, calls) for missed, calls in zip(answer["missed"], answer["calls"], strict=True)]
    for place, name in enumerate(("missed_share", "low", "high")):
        answer[name] = pd.Series([end[place] for end in ends], dtype="float64")
    for name in ("deadline_ns", "missed"):
        answer[name] = answer[name].astype("Int64")
    return answer


def wilson(missed: float, calls: float) -> tuple[float, float, float]:
    """A share and its interval; NaN without a deadline."""
    if pd.isna(missed) or not calls:
        return (math.nan,) * 3
    share, z = missed / calls, Z_95
    middle = share + z * z / (2 * calls)
    half = z * math.sqrt(share * (1 - share) / calls + z * z / (4 * calls * calls))
    scale = 1 + z * z / calls
    return share, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
