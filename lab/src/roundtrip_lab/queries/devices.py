"""Devices that are worse than others of the same model."""

import numpy as np
import pandas as pd
from scipy import special

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import NONE, Filters

Z_95 = 1.959964
# Devices with fewer nights are not judged.
LEAST_NIGHTS = 3
FIGURES = ("p50", "p99")


def worst_devices(engine: Engine, filters: Filters = Filters(), limit: int = 20) -> pd.DataFrame:
    """Devices by share of missed deadlines (the lower end of its interval), then by mean."""
    rows = filters.of(engine.series)
    each = rows.group_by(["series", "device"]).agg(
        runs=rows.count(),
        calls=rows.calls.sum(),
        missed=rows.missed.sum(),
        max_ns=rows.max_ns.max(),
        mean_ns=rows.sum_ns.sum() / rows.calls.sum(),
    )
    calls, share = each.calls.cast("float64"), each.missed.fill_null(0) / each.calls
    z2 = Z_95**2
    spread = Z_95 * (share * (1 - share) / calls + z2 / (4 * calls * calls)).sqrt()
    each = each.filter(each.calls > 0).mutate(
        missed_share=each.missed / each.calls, low=(share + z2 / (2 * calls) - spread) / (1 + z2 / calls)
    )
    order = [each.low.desc(), each.mean_ns.desc(), each.series, each.device]
    answer = engine.run(each.order_by(order).limit(limit))
    answer["missed"] = answer["missed"].astype("Int64")
    return answer[["series", "device", "runs", "calls", "mean_ns", "max_ns", "missed", "missed_share", "low"]]


def outliers(engine: Engine, filters: Filters = Filters(), alpha: float = 0.01) -> pd.DataFrame:
    """Devices whose typical call or tail differs from that of their peers.

    A run is compared with the runs of the same series, model, build and day, as the logarithm of its p50 and
    p99. A device is the mean of its nights. It is an outlier if that lies further from the median device than
    chance puts any one of all devices, with a probability of `alpha`, by the median absolute deviation.
    """
    rows = filters.of(engine.series)
    rows = rows.filter(rows.day.notnull() & (rows.p50_ns > 0)).mutate(model=rows.model.fill_null(NONE))
    rows = rows.mutate(**{name: rows[f"{name}_ns"].cast("float64").ln() for name in FIGURES})
    peers = rows.group_by(["series", "model", "build", "day"]).agg(**{f"{n}_peers": rows[n].mean() for n in FIGURES})
    rows = rows.join(peers, ["series", "model", "build", "day"])
    each = rows.group_by(["series", "model", "device"]).agg(
        nights=rows.count(), **{name: (rows[name] - rows[f"{name}_peers"]).mean() for name in FIGURES}
    )
    devices = engine.run(each.filter(each.nights >= LEAST_NIGHTS))
    found = [judged(group, name, alpha / len(FIGURES)) for _, group in devices.groupby(["series", "model"])
             for name in FIGURES]  # fmt: skip
    columns = ["series", "model", "device", "figure", "nights", "ratio", "deviations"]
    answer = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=columns)
    order = answer["deviations"].abs() if len(answer) else answer["deviations"]
    return answer.iloc[order.argsort()[::-1]].reset_index(drop=True)[columns]


def judged(group: pd.DataFrame, name: str, alpha: float) -> pd.DataFrame:
    """The outliers of one figure among the devices of one series and model."""
    middle = group[name].median()
    spread = (group[name] - middle).abs().median() / special.ndtri(0.75)
    limit = -special.ndtri(alpha / max(1, len(group)) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = (group[name] - middle) / spread
    # Fewer than 10 devices do not show what is usual.
    far = group[(deviations.abs() > limit) & (len(group) >= 10)]
    return far.assign(figure=name, ratio=np.exp(far[name] - middle), deviations=deviations[far.index])
