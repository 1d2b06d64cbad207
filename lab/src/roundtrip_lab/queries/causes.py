"""What delayed slow calls, by build; and which causes differ between two builds."""

import numpy as np
import pandas as pd

from roundtrip_lab.engines import Engine
from roundtrip_lab.queries.filters import Filters, grouped, named_builds, time
from roundtrip_lab.queries.percentiles import of_devices, worst

CAUSE = ["kind", "owner", "who"]


def causes(
    engine: Engine, by: str = "build", filters: Filters = Filters(), base: str | None = None, new: str | None = None,
    alpha: float = 0.01,
) -> pd.DataFrame:
    """Causes with their time beyond the usual, by one column, each with the sentence about the slowest call or write
    of its group; or `new` compared with `base`."""
    if base or new:
        named_builds(engine, base, new)
        return compared(engine, filters, base, new, alpha)
    rows = grouped(filters.of(engine.series if of_devices(by, filters) else engine.sums), by)
    each = rows.select("group", cause=rows.causes.unnest())
    number = each.cause["causes"] if "runs" in rows.columns else each.cause["excess_ns"] * 0 + 1
    each = each.select("group", *[each.cause[name].name(name) for name in CAUSE],
                       excess_ns=each.cause["excess_ns"], causes=number)  # fmt: skip
    found = engine.run(
        each.group_by(["group", *CAUSE]).agg(causes=each.causes.sum(), excess_ns=time(each.excess_ns))
    )
    found["excess_ns"] = found["excess_ns"].map(int)
    explained = engine.run(
        rows.group_by("group").agg(
            calls=rows.calls.sum(), slow_calls=rows.slow_calls.sum(), explained=rows.explained.sum()
        )
    )
    answer = found.merge(explained, on="group").merge(worst(engine, rows, ["group"]), on="group", how="left")
    answer["share"] = answer["excess_ns"] / answer.groupby("group")["excess_ns"].transform("sum")
    answer = answer.sort_values(["group", "excess_ns", *CAUSE], ascending=[True, False, True, True, True])
    columns = ["group", *CAUSE, "causes", "excess_ns", "share", "explained", "slow_calls", "calls", "worst_ns", "worst"]
    answer = answer[columns].rename(columns={"group": by}).reset_index(drop=True)
    answer.attrs["lacks"] = "" if explained["explained"].sum() else "no run has an explained slow call"
    return answer


def compared(engine: Engine, filters: Filters, base: str, new: str, alpha: float) -> pd.DataFrame:
    """In how many runs of each build a cause delayed a call. A run counts once per cause.

    Only runs with an explained slow call count: others could not have shown a cause. How many runs were recorded, or
    had a slow call, differs between builds for other reasons.
    """
    from scipy import stats  # It takes a second to load, and only this needs it.

    rows = filters.of(engine.series)
    rows = rows.filter(rows.build.isin([base, new]) & (rows.explained > 0))
    runs = engine.run(rows.group_by("build").agg(runs=rows.run_id.nunique())).set_index("build")["runs"]
    runs = runs.reindex([base, new], fill_value=0)
    each = rows.select("run_id", "device", "build", cause=rows.causes.unnest())
    each = each.select("run_id", "device", "build", *[each.cause[name].name(name) for name in CAUSE],
                       excess_ns=each.cause["excess_ns"])  # fmt: skip
    found = engine.run(
        each.group_by(["build", *CAUSE]).agg(
            runs=each.run_id.nunique(), devices=each.device.nunique(), excess_ns=time(each.excess_ns)
        )
    )
    sides = [
        found[found["build"] == build].drop(columns="build").set_index(CAUSE).add_prefix(f"{side}_")
        for side, build in (("base", base), ("new", new))
    ]
    both = sides[0].join(sides[1], how="outer").fillna(0).reset_index()
    for name in both.columns.drop(CAUSE):
        both[name] = both[name].map(int)
    both["p"] = [
        float(stats.fisher_exact([[a, runs[base] - a], [b, runs[new] - b]]).pvalue)
        for a, b in zip(both["base_runs"], both["new_runs"], strict=True)
    ]
    both["p"] = np.minimum(1.0, both["p"] * len(both))
    for side, build in (("base", base), ("new", new)):
        both[f"{side}_share"] = both[f"{side}_runs"] / max(1, runs[build])
        both[f"{side}_of"] = int(runs[build])
    both["verdict"] = [word(row, alpha) for row in both.to_dict("records")]
    both = both.sort_values(["p", "new_runs", *CAUSE], ascending=[True, False, True, True, True], ignore_index=True)
    columns = ["verdict", *CAUSE, "base_share", "new_share", "base_runs", "base_of", "new_runs", "new_of", "new_devices",
               "new_excess_ns", "p"]  # fmt: skip
    answer = both[columns]
    without = [f"{build!r} has no run with an explained slow call" for build in (base, new) if not runs[build]]
    answer.attrs["lacks"] = "; ".join(without)
    return answer


def word(row: dict, alpha: float) -> str:
    """The verdict on a cause."""
    if row["p"] > alpha:
        return "cannot tell"
    if row["new_share"] > row["base_share"]:
        return "more" if row["base_runs"] else "new"
    return "less" if row["new_runs"] else "gone"
