"""What delayed slow calls, by build; and which causes differ between two builds."""

import numpy as np
import pandas as pd

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, grouped, named_builds
from roundtrip_lab.queries.percentiles import of_devices

CAUSE = ["kind", "owner", "who"]


def causes(
    engine: Engine, by: str = "build", filters: Filters = Filters(), base: str | None = None, new: str | None = None,
    alpha: float = 0.01,
) -> pd.DataFrame:
    """Causes with their time beyond the usual, by one column; or `new` compared with `base`."""
    if base or new:
        named_builds(engine, base, new)
        return compared(engine, filters, base, new, alpha)
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    each = rows.select("group", cause=rows.causes.unnest())
    number = each.cause["causes"] if "runs" in rows.columns else each.cause["excess_ns"] * 0 + 1
    each = each.select("group", *[each.cause[name].name(name) for name in CAUSE],
                       excess_ns=each.cause["excess_ns"], causes=number)  # fmt: skip
    found = engine.run(
        each.group_by(["group", *CAUSE]).agg(causes=each.causes.sum(), excess_ns=each.excess_ns.sum())
    )
    explained = engine.run(
        rows.group_by("group").agg(
            calls=rows.calls.sum(), slow_calls=rows.slow_calls.sum(), explained=rows.explained.sum()
        )
    )
    answer = found.merge(explained, on="group")
    answer["share"] = answer["excess_ns"] / answer.groupby("group")["excess_ns"].transform("sum")
    answer = answer.sort_values(["group", "excess_ns", *CAUSE], ascending=[True, False, True, True, True])
    columns = ["group", *CAUSE, "causes", "excess_ns", "share", "explained", "slow_calls", "calls"]
    return answer[columns].rename(columns={"group": by}).reset_index(drop=True)


def compared(engine: Engine, filters: Filters, base: str, new: str, alpha: float) -> pd.DataFrame:
    """In how many runs of each build a cause delayed a call. A run counts once per cause."""
    from scipy import stats  # It takes a second to load, and only this needs it.

    rows = filters.of(engine.series)
    rows = rows.filter(rows.build.isin([base, new]))
    runs = engine.run(rows.group_by("build").agg(runs=rows.run_id.nunique())).set_index("build")["runs"]
    runs = runs.reindex([base, new], fill_value=0)
    each = rows.select("run_id", "device", "build", cause=rows.causes.unnest())
    each = each.select("run_id", "device", "build", *[each.cause[name].name(name) for name in CAUSE],
                       excess_ns=each.cause["excess_ns"])  # fmt: skip
    found = engine.run(
        each.group_by(["build", *CAUSE]).agg(
            runs=each.run_id.nunique(), devices=each.device.nunique(), excess_ns=each.excess_ns.sum()
        )
    )
    sides = [
        found[found["build"] == build].drop(columns="build").set_index(CAUSE).add_prefix(f"{side}_")
        for side, build in (("base", base), ("new", new))
    ]
    both = sides[0].join(sides[1], how="outer").fillna(0).astype("int64").reset_index()
    both["p"] = [
        float(stats.fisher_exact([[a, runs[base] - a], [b, runs[new] - b]]).pvalue)
        for a, b in zip(both["base_runs"], both["new_runs"], strict=True)
    ]
    both["p"] = np.minimum(1.0, both["p"] * len(both))
    both["base_share"], both["new_share"] = both["base_runs"] / runs[base], both["new_runs"] / runs[new]
    both["verdict"] = [word(row, alpha) for row in both.to_dict("records")]
    both = both.sort_values(["p", "new_runs", *CAUSE], ascending=[True, False, True, True, True], ignore_index=True)
    columns = ["verdict", *CAUSE, "base_share", "new_share", "base_runs", "new_runs", "new_devices", "new_excess_ns", "p"]
    return both[columns]


def word(row: dict, alpha: float) -> str:
    """The verdict on a cause."""
    if row["p"] > alpha:
        return "cannot tell"
    if row["new_share"] > row["base_share"]:
        return "more" if row["base_runs"] else "new"
    return "less" if row["new_runs"] else "gone"
